"""Pooling layers: maxima, averages and norms of windows."""

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
    """Base of pooling layers with a window. Their attributes are the arguments of the constructor."""

    _spread: Any = staticmethod(lambda size: size)
    """Convert a size argument to the attribute's value."""

    def _keep(self, arguments: dict[str, Any]) -> None:
        """Set the attributes from the constructor's arguments. A stride of None becomes the window size."""
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
    """Maximum of each window of an input (N, C, L) or (C, L).

    The output has the shape of the input except for its length, ``(L + 2 * padding - dilation * (kernel_size - 1) - 1)
    // stride + 1``.

    Parameters
    ----------
    kernel_size : int or tuple of int
        Size of the window.
    stride : int or tuple of int, optional
        Distance between neighbouring windows. Default ``kernel_size``.
    padding : int or tuple of int
        Elements of minus infinity added at both ends. Default 0.
    dilation : int or tuple of int
        Distance between neighbouring elements of a window. Default 1.
    return_indices : bool
        Return a pair (maxima, indices). `MaxUnpool1d` takes such indices. Default False.
    ceil_mode : bool
        Round the output length up, so that the last window may be incomplete. Default False.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.MaxPool1d(2)(mt.tensor([[1.0, 3.0, 2.0, 5.0]], device="cpu"))
    tensor([[3., 5.]])
    """

    _pool = F.max_pool1d


class MaxPool2d(_MaxPoolNd):
    """Maximum of each window of an input (N, C, H, W) or (C, H, W). See `MaxPool1d` for the parameters.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.MaxPool2d(3, stride=2, padding=1)(mt.empty(2, 3, 32, 32)).shape
    metatensor.Size([2, 3, 16, 16])
    """

    _pool = F.max_pool2d


class MaxPool3d(_MaxPoolNd):
    """Maximum of each window of an input (N, C, D, H, W) or (C, D, H, W). See `MaxPool1d` for the parameters.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.MaxPool3d(2)(mt.empty(2, 3, 4, 8, 8)).shape
    metatensor.Size([2, 3, 2, 4, 4])
    """

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
    """Partial inverse of `MaxPool1d`: put the maxima back in their places and fill the rest with zeros.

    It is called with the maxima and the indices that `MaxPool1d` returned, both (N, C, L) or (C, L). Several input
    lengths can give the same pooled length. Pass ``output_size`` to the call to choose one.

    Parameters
    ----------
    kernel_size : int or tuple of int
        Size of the pooling window.
    stride : int or tuple of int, optional
        Distance between neighbouring windows. Default ``kernel_size``.
    padding : int or tuple of int
        Padding of the pooling. Default 0.

    Examples
    --------
    >>> import metatensor as mt
    >>> maxima, indices = mt.nn.MaxPool1d(2, return_indices=True)(mt.tensor([[1.0, 3.0, 2.0, 5.0]], device="cpu"))
    >>> mt.nn.MaxUnpool1d(2)(maxima, indices)
    tensor([[0., 3., 0., 5.]])
    """

    _unpool = F.max_unpool1d
    _spread = staticmethod(_single)


class MaxUnpool2d(_MaxUnpoolNd):
    """Partial inverse of `MaxPool2d`, for maxima (N, C, H, W) or (C, H, W). See `MaxUnpool1d` for the parameters.

    Examples
    --------
    >>> import metatensor as mt
    >>> maxima, indices = mt.nn.MaxPool2d(2, return_indices=True)(mt.zeros(2, 3, 8, 8))
    >>> mt.nn.MaxUnpool2d(2)(maxima, indices).shape
    metatensor.Size([2, 3, 8, 8])
    """

    _unpool = F.max_unpool2d
    _spread = staticmethod(_pair)


class MaxUnpool3d(_MaxUnpoolNd):
    """Partial inverse of `MaxPool3d`, for maxima (N, C, D, H, W) or (C, D, H, W). See `MaxUnpool1d` for the parameters.

    Examples
    --------
    >>> import metatensor as mt
    >>> maxima, indices = mt.nn.MaxPool3d(2, return_indices=True)(mt.zeros(2, 3, 4, 8, 8))
    >>> mt.nn.MaxUnpool3d(2)(maxima, indices).shape
    metatensor.Size([2, 3, 4, 8, 8])
    """

    _unpool = F.max_unpool3d
    _spread = staticmethod(_triple)


class AvgPool1d(_WindowPool):
    """Average of each window of an input (N, C, L) or (C, L).

    The output has the shape of the input except for its length, ``(L + 2 * padding - kernel_size) // stride + 1``.

    Parameters
    ----------
    kernel_size : int or tuple of int
        Size of the window.
    stride : int or tuple of int, optional
        Distance between neighbouring windows. Default ``kernel_size``.
    padding : int or tuple of int
        Zeros added at both ends. Default 0.
    ceil_mode : bool
        Round the output length up, so that the last window may be incomplete. Default False.
    count_include_pad : bool
        Count the padding when averaging. Default True.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.AvgPool1d(2)(mt.tensor([[1.0, 3.0, 2.0, 5.0]], device="cpu"))
    tensor([[2.0000, 3.5000]])
    """

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
    """Average of each window of an input (N, C, H, W) or (C, H, W).

    Parameters
    ----------
    kernel_size, stride, padding, ceil_mode, count_include_pad
        As in `AvgPool1d`. Sizes are ints or pairs (height, width).
    divisor_override : int, optional
        Divide the sum of each window by this instead of the number of its elements.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.AvgPool2d(2)(mt.empty(2, 3, 8, 8)).shape
    metatensor.Size([2, 3, 4, 4])
    """

    _pool = F.avg_pool2d


class AvgPool3d(_AvgPoolNd):
    """Average of each window of an input (N, C, D, H, W) or (C, D, H, W). See `AvgPool2d` for the parameters.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.AvgPool3d(2)(mt.empty(2, 3, 4, 8, 8)).shape
    metatensor.Size([2, 3, 2, 4, 4])
    """

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
            raise ValueError(f"{name}: pass exactly one of output_size and output_ratio")
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
    """Maximum of windows at pseudo-random positions of an input (N, C, H, W) or (C, H, W) (Graham, 2014).

    Exactly one of ``output_size`` and ``output_ratio`` must be given.

    Parameters
    ----------
    kernel_size : int or pair of int
        Size of the windows.
    output_size : int or pair of int, optional
        Height and width of the output.
    output_ratio : float or pair of float, optional
        Height and width of the output as fractions of the input's height and width, between 0 and 1.
    return_indices : bool
        Return a pair (maxima, indices). Default False.

    Raises
    ------
    ValueError
        If both or neither of ``output_size`` and ``output_ratio`` are given, or if a ratio is not between 0 and 1.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.FractionalMaxPool2d(2, output_ratio=0.75)(mt.empty(2, 3, 8, 8)).shape
    metatensor.Size([2, 3, 6, 6])
    """

    _pool = F.fractional_max_pool2d
    _spread = staticmethod(_pair)


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """Maximum of windows at pseudo-random positions of an input (N, C, D, H, W) or (C, D, H, W).

    See `FractionalMaxPool2d` for the parameters. Where it takes a pair, this class takes a triple (depth, height,
    width).

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.FractionalMaxPool3d(2, output_size=3)(mt.empty(2, 3, 8, 8, 8)).shape
    metatensor.Size([2, 3, 3, 3, 3])
    """

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
    """Norm ``sum(x ** p) ** (1 / p)`` of each window of an input (N, C, L) or (C, L), with p = ``norm_type``.

    Parameters
    ----------
    norm_type : float
        Exponent p.
    kernel_size : int or tuple of int
        Size of the window.
    stride : int or tuple of int, optional
        Distance between neighbouring windows. Default ``kernel_size``.
    ceil_mode : bool
        Round the output length up, so that the last window may be incomplete. Default False.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.LPPool1d(2, 2)(mt.tensor([[3.0, 4.0, 5.0, 12.0]], device="cpu"))
    tensor([[ 5., 13.]])
    """

    _pool = F.lp_pool1d


class LPPool2d(_LPPoolNd):
    """Norm of each window of an input (N, C, H, W) or (C, H, W). See `LPPool1d` for the formula and parameters.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.LPPool2d(2, 2)(mt.empty(2, 3, 8, 8)).shape
    metatensor.Size([2, 3, 4, 4])
    """

    _pool = F.lp_pool2d


class LPPool3d(_LPPoolNd):
    """Norm of each window of an input (N, C, D, H, W) or (C, D, H, W). See `LPPool1d` for the formula and parameters.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.LPPool3d(2, 2)(mt.empty(2, 3, 4, 8, 8)).shape
    metatensor.Size([2, 3, 2, 4, 4])
    """

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
    """Average of windows that are chosen to give a fixed output length, for an input (N, C, L) or (C, L).

    Parameters
    ----------
    output_size : int or tuple of int
        Length of the output.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.AdaptiveAvgPool1d(4)(mt.empty(2, 3, 10)).shape
    metatensor.Size([2, 3, 4])
    """

    _pool = F.adaptive_avg_pool1d


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Average of windows that are chosen to give a fixed output size, for an input (N, C, H, W) or (C, H, W).

    Parameters
    ----------
    output_size : int, None or pair of them
        Height and width of the output. None keeps the size of the input.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.AdaptiveAvgPool2d((4, None))(mt.empty(2, 3, 10, 9)).shape
    metatensor.Size([2, 3, 4, 9])
    """

    _pool = F.adaptive_avg_pool2d


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Average of windows that are chosen to give a fixed output size, for an input (N, C, D, H, W) or (C, D, H, W).

    Parameters
    ----------
    output_size : int, None or triple of them
        Depth, height and width of the output. None keeps the size of the input.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.AdaptiveAvgPool3d(2)(mt.empty(2, 3, 4, 8, 8)).shape
    metatensor.Size([2, 3, 2, 2, 2])
    """

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
    """Maximum of windows that are chosen to give a fixed output length, for an input (N, C, L) or (C, L).

    Parameters
    ----------
    output_size : int or tuple of int
        Length of the output.
    return_indices : bool
        Return a pair (maxima, indices). Default False.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.AdaptiveMaxPool1d(4)(mt.empty(2, 3, 10)).shape
    metatensor.Size([2, 3, 4])
    """

    _pool = F.adaptive_max_pool1d


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Maximum of windows that are chosen to give a fixed output size, for an input (N, C, H, W) or (C, H, W).

    Parameters
    ----------
    output_size : int, None or pair of them
        Height and width of the output. None keeps the size of the input.
    return_indices : bool
        Return a pair (maxima, indices). Default False.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.AdaptiveMaxPool2d((4, None))(mt.empty(2, 3, 10, 9)).shape
    metatensor.Size([2, 3, 4, 9])
    """

    _pool = F.adaptive_max_pool2d


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Maximum of windows that are chosen to give a fixed output size, for an input (N, C, D, H, W) or (C, D, H, W).

    Parameters
    ----------
    output_size : int, None or triple of them
        Depth, height and width of the output. None keeps the size of the input.
    return_indices : bool
        Return a pair (maxima, indices). Default False.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.AdaptiveMaxPool3d(2)(mt.empty(2, 3, 4, 8, 8)).shape
    metatensor.Size([2, 3, 2, 2, 2])
    """

    _pool = F.adaptive_max_pool3d
