"""Pooling: maxima, averages and norms of windows."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.nn import functional as F
from metatensor.nn.module import Module
from metatensor.nn.modules.utils import _pair, _single, _triple, keep_constants

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]

_Size = int | tuple[int, ...]


class _WindowPool(Module):
    """A layer that reduces windows. Its attributes are the arguments of its constructor."""

    _spread: Any = staticmethod(lambda size: size)
    """Turns a size into what the attribute holds."""

    def _keep(self, arguments: dict[str, Any]) -> None:
        """Set the attributes. The stride is the size of the window unless it is given."""
        sizes = {name: arguments[name] for name in ("kernel_size", "stride", "padding") if name in arguments}
        if sizes["stride"] is None:
            sizes["stride"] = sizes["kernel_size"]
        keep_constants(self, arguments | {name: self._spread(size) for name, size in sizes.items()})


class _MaxPoolNd(_WindowPool):
    __constants__ = ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"]
    _pool: Any

    def __init__(
        self,
        kernel_size: _Size,
        stride: _Size | None = None,
        padding: _Size = 0,
        dilation: _Size = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self._keep(vars())

    def forward(self, input: mt.Tensor) -> Any:
        return self._pool(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPoolNd):
    """Maxima of windows over (N, C, L) or (C, L), ``stride`` (by default ``kernel_size``) apart.

    ``ceil_mode`` also counts a last window that sticks out. ``return_indices`` gives the places of the maxima too,
    as `MaxUnpool1d` wants them.
    """

    _pool = F.max_pool1d


class MaxPool2d(_MaxPoolNd):
    """Maxima of windows over (N, C, H, W) or (C, H, W). See `MaxPool1d`."""

    _pool = F.max_pool2d


class MaxPool3d(_MaxPoolNd):
    """Maxima of windows over (N, C, D, H, W) or (C, D, H, W). See `MaxPool1d`."""

    _pool = F.max_pool3d


class _MaxUnpoolNd(Module):
    _unpool: Any
    _spread: Any

    def __init__(self, kernel_size: _Size, stride: _Size | None = None, padding: _Size = 0) -> None:
        super().__init__()
        self.kernel_size = self._spread(kernel_size)
        self.stride = self._spread(kernel_size if stride is None else stride)
        self.padding = self._spread(padding)

    def forward(self, input: mt.Tensor, indices: mt.Tensor, output_size: list[int] | None = None) -> mt.Tensor:
        return self._unpool(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """Put maxima back where `MaxPool1d` found them, zeros elsewhere; ``output_size`` where that is ambiguous."""

    _unpool = F.max_unpool1d
    _spread = staticmethod(_single)


class MaxUnpool2d(_MaxUnpoolNd):
    """Put maxima back where `MaxPool2d` found them, zeros elsewhere; ``output_size`` where that is ambiguous."""

    _unpool = F.max_unpool2d
    _spread = staticmethod(_pair)


class MaxUnpool3d(_MaxUnpoolNd):
    """Put maxima back where `MaxPool3d` found them, zeros elsewhere; ``output_size`` where that is ambiguous."""

    _unpool = F.max_unpool3d
    _spread = staticmethod(_triple)


class AvgPool1d(_WindowPool):
    """Averages of windows over (N, C, L) or (C, L); ``count_include_pad`` counts the padding as values."""

    __constants__ = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"]
    _spread = staticmethod(_single)

    def __init__(
        self,
        kernel_size: _Size,
        stride: _Size | None = None,
        padding: _Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self._keep(vars())

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AvgPoolNd(_WindowPool):
    __constants__ = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"]
    _pool: Any

    def __init__(
        self,
        kernel_size: _Size,
        stride: _Size | None = None,
        padding: _Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self._keep(vars())

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return self._pool(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(_AvgPoolNd):
    """Averages of windows over (N, C, H, W) or (C, H, W); sums are divided by ``divisor_override`` where given."""

    _pool = F.avg_pool2d


class AvgPool3d(_AvgPoolNd):
    """Averages of windows over (N, C, D, H, W) or (C, D, H, W). See `AvgPool2d`."""

    _pool = F.avg_pool3d


class _FractionalMaxPoolNd(Module):
    __constants__ = ["kernel_size", "return_indices", "output_size", "output_ratio"]
    _pool: Any
    _spread: Any

    def __init__(
        self,
        kernel_size: _Size,
        output_size: _Size | None = None,
        output_ratio: float | tuple[float, ...] | None = None,
        return_indices: bool = False,
        _random_samples: mt.Tensor | None = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if (output_size is None) == (output_ratio is None):
            raise ValueError(f"{name}: give one of output_size and output_ratio")
        self.kernel_size = self._spread(kernel_size)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else self._spread(output_size)
        self.output_ratio = None if output_ratio is None else self._spread(output_ratio)
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"{name}: output_ratio must lie between 0 and 1, not {output_ratio}")

    def forward(self, input: mt.Tensor) -> Any:
        return self._pool(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """Maxima of windows at pseudo-random places, to ``output_size`` or a fraction of it (Graham, 2014)."""

    _pool = F.fractional_max_pool2d
    _spread = staticmethod(_pair)


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """`FractionalMaxPool2d` in 3 dimensions."""

    _pool = F.fractional_max_pool3d
    _spread = staticmethod(_triple)


class _LPPoolNd(Module):
    __constants__ = ["norm_type", "kernel_size", "stride", "ceil_mode"]
    _pool: Any

    def __init__(
        self, norm_type: float, kernel_size: _Size, stride: _Size | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return self._pool(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPoolNd):
    """``sum(x ** norm_type) ** (1 / norm_type)`` of windows over (N, C, L) or (C, L)."""

    _pool = F.lp_pool1d


class LPPool2d(_LPPoolNd):
    """`LPPool1d` over (N, C, H, W) or (C, H, W)."""

    _pool = F.lp_pool2d


class LPPool3d(_LPPoolNd):
    """`LPPool1d` over (N, C, D, H, W) or (C, D, H, W)."""

    _pool = F.lp_pool3d


class _AdaptiveAvgPoolNd(Module):
    __constants__ = ["output_size"]
    _pool: Any

    def __init__(self, output_size: int | tuple[int | None, ...] | None) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return self._pool(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Averages of as many windows as ``output_size`` asks for: (N, C, L) or (C, L)."""

    _pool = F.adaptive_avg_pool1d


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """`AdaptiveAvgPool1d` over (N, C, H, W) or (C, H, W); None keeps the size of a dimension."""

    _pool = F.adaptive_avg_pool2d


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """`AdaptiveAvgPool1d` over (N, C, D, H, W) or (C, D, H, W); None keeps the size of a dimension."""

    _pool = F.adaptive_avg_pool3d


class _AdaptiveMaxPoolNd(Module):
    __constants__ = ["output_size", "return_indices"]
    _pool: Any

    def __init__(self, output_size: int | tuple[int | None, ...] | None, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: mt.Tensor) -> Any:
        return self._pool(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Maxima of as many windows as ``output_size`` asks for, and their places with ``return_indices``."""

    _pool = F.adaptive_max_pool1d


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """`AdaptiveMaxPool1d` over (N, C, H, W) or (C, H, W); None keeps the size of a dimension."""

    _pool = F.adaptive_max_pool2d


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """`AdaptiveMaxPool1d` over (N, C, D, H, W) or (C, D, H, W); None keeps the size of a dimension."""

    _pool = F.adaptive_max_pool3d
