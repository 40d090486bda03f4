"""Upsampling layers."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.nn import functional as F
from metatensor.nn.module import Module
from metatensor.nn.modules.utils import keep_constants

__all__ = [
    "Upsample",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
]


class Upsample(Module):
    """Resize the spatial dimensions of an input (N, C, ...).

    Parameters
    ----------
    size : int or tuple of int, optional
        Spatial sizes of the output.
    scale_factor : float or tuple of float, optional
        Factors to multiply the spatial sizes by, instead of ``size``.
    mode : str
        "nearest" (the default, for 1 to 3 spatial dimensions), "linear" (1), "bilinear" or "bicubic" (2), or
        "trilinear" (3).
    align_corners : bool, optional
        Map the corner elements of the input to those of the output. Not for "nearest".
    recompute_scale_factor : bool, optional
        Compute the scale from input and output sizes, instead of using ``scale_factor`` itself.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.Upsample(scale_factor=2, mode="bilinear")(mt.empty(2, 3, 4, 5)).shape
    metatensor.Size([2, 3, 8, 10])
    """

    __constants__ = ["size", "scale_factor", "mode", "align_corners", "name", "recompute_scale_factor"]
    size: Any
    scale_factor: Any
    mode: str
    align_corners: bool | None
    recompute_scale_factor: bool | None

    def __init__(
        self,
        size: int | tuple[int, ...] | None = None,
        scale_factor: float | tuple[float, ...] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        scale_factor = tuple(map(float, scale_factor)) if isinstance(scale_factor, tuple) else float(scale_factor or 0) or None
        keep_constants(self, {**vars(), "name": type(self).__name__})

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        if self.scale_factor is not None:
            return f"scale_factor={self.scale_factor!r}, mode={self.mode!r}"
        return f"size={self.size!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """`Upsample` of an input (N, C, H, W) with ``mode="nearest"``.

    Parameters
    ----------
    size, scale_factor
        As in `Upsample`.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.UpsamplingNearest2d(scale_factor=2)(mt.empty(2, 3, 4, 5)).shape
    metatensor.Size([2, 3, 8, 10])
    """

    def __init__(
        self, size: int | tuple[int, int] | None = None, scale_factor: float | tuple[float, float] | None = None
    ) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """`Upsample` of an input (N, C, H, W) with ``mode="bilinear"`` and ``align_corners=True``.

    Parameters
    ----------
    size, scale_factor
        As in `Upsample`.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.UpsamplingBilinear2d(size=(6, 6))(mt.empty(2, 3, 4, 5)).shape
    metatensor.Size([2, 3, 6, 6])
    """

    def __init__(
        self, size: int | tuple[int, int] | None = None, scale_factor: float | tuple[float, float] | None = None
    ) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
