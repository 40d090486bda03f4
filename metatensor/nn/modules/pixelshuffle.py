"""Layers that rearrange channels into space and back."""

from __future__ import annotations

import metatensor as mt
from metatensor.nn import functional as F
from metatensor.nn.module import Module

__all__ = ["PixelShuffle", "PixelUnshuffle"]


class PixelShuffle(Module):
    """Rearrange channels into space: (..., C * r * r, H, W) to (..., C, H * r, W * r), with r = ``upscale_factor``.

    This is the sub-pixel upsampling of Shi et al. (2016).

    Parameters
    ----------
    upscale_factor : int
        Factor r by which height and width grow.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.PixelShuffle(2)(mt.empty(1, 12, 4, 5)).shape
    metatensor.Size([1, 3, 8, 10])
    """

    __constants__ = ["upscale_factor"]

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Rearrange space into channels: (..., C, H * r, W * r) to (..., C * r * r, H, W), with r = ``downscale_factor``.

    This is the inverse of `PixelShuffle`.

    Parameters
    ----------
    downscale_factor : int
        Factor r by which height and width shrink.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.PixelUnshuffle(2)(mt.empty(1, 3, 8, 10)).shape
    metatensor.Size([1, 12, 4, 5])
    """

    __constants__ = ["downscale_factor"]

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"
