"""Convolutions and transposed convolutions in 1, 2 and 3 dimensions."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.nn import functional as F
from metatensor.nn import init
from metatensor.nn.module import Module
from metatensor.nn.modules.utils import _pair, _reverse_repeat_tuple, _single, _triple
from metatensor.nn.parameter import Parameter

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """What convolutions of all dimensions share; sizes are given by dimension, as tuples."""

    __constants__ = [
        "stride",
        "padding",
        "dilation",
        "groups",
        "padding_mode",
        "output_padding",
        "in_channels",
        "out_channels",
        "kernel_size",
    ]
    padding: Any  # a name, or sizes
    weight: Parameter

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: str | tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self._check(in_channels, out_channels, groups, stride, padding, padding_mode)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = self._padding_for_pad()
        channels = (in_channels, out_channels // groups) if transposed else (out_channels, in_channels // groups)
        self.weight = Parameter(mt.empty((*channels, *kernel_size), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(mt.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _check(
        self, in_channels: int, out_channels: int, groups: int, stride: tuple, padding: Any, padding_mode: str
    ) -> None:
        name = type(self).__name__
        if groups <= 0:
            raise ValueError(f"{name}: groups must be positive, not {groups}")
        if in_channels % groups:
            raise ValueError(f"{name}: in_channels={in_channels} is not divisible by groups={groups}")
        if out_channels % groups:
            raise ValueError(f"{name}: out_channels={out_channels} is not divisible by groups={groups}")
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"{name}: padding must be 'same', 'valid' or sizes, not {padding!r}")
            if padding == "same" and any(step != 1 for step in stride):
                raise ValueError(f"{name}: padding='same' needs stride 1, not {stride}")
        if padding_mode not in _PADDING_MODES:
            raise ValueError(f"{name}: padding_mode must be one of {_PADDING_MODES}, not {padding_mode!r}")

    def _padding_for_pad(self) -> tuple[int, ...]:
        """The padding as `pad` takes it: before and after, the last dimension first."""
        if not isinstance(self.padding, str):
            return _reverse_repeat_tuple(self.padding, 2)
        pads: list[int] = []
        for size, step in zip(reversed(self.kernel_size), reversed(self.dilation)):
            total = step * (size - 1) if self.padding == "same" else 0
            pads += [total // 2, total - total // 2]
        return tuple(pads)

    def reset_parameters(self) -> None:
        """Draw the initial values again: uniform in +-1 / sqrt(in_channels / groups * kernel elements)."""
        init._uniform_by_fan_in_(self.weight, self.bias)

    def extra_repr(self) -> str:
        zeros = (0,) * len(self.kernel_size)
        ones = (1,) * len(self.kernel_size)
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        if self.padding != zeros:
            parts.append(f"padding={self.padding}")
        if self.dilation != ones:
            parts.append(f"dilation={self.dilation}")
        if self.output_padding != zeros:
            parts.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("padding_mode", "zeros")


class _Conv(_ConvNd):
    """A convolution; subclasses give the number of dimensions."""

    _spread: Any
    _convolve: Any

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: str | int | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        spread = self._spread
        super().__init__(
            in_channels,
            out_channels,
            spread(kernel_size),
            spread(stride),
            padding if isinstance(padding, str) else spread(padding),
            spread(dilation),
            False,
            spread(0),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input: mt.Tensor, weight: mt.Tensor, bias: mt.Tensor | None) -> mt.Tensor:
        if self.padding_mode != "zeros":
            padded = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            return self._convolve(padded, weight, bias, self.stride, self._spread(0), self.dilation, self.groups)
        return self._convolve(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Conv):
    """Convolution over (N, in_channels, L), or without N: to (N, out_channels, L').

    L' = (L + 2 padding - dilation (kernel_size - 1) - 1) // stride + 1. ``padding`` may be "valid" (none) or "same"
    (L' = L; stride 1 only). ``weight`` (out_channels, in_channels / groups, kernel_size) and ``bias``
    (out_channels,) start uniform in +-1 / sqrt(in_channels / groups * kernel_size). ``padding_mode`` is "zeros",
    "reflect", "replicate" or "circular". ValueError for channels that ``groups`` does not divide and for unknown
    names.
    """

    _spread = staticmethod(_single)
    _convolve = F.conv1d


class Conv2d(_Conv):
    """Convolution over (N, in_channels, H, W), or without N; a size is an int or a pair. See `Conv1d`."""

    _spread = staticmethod(_pair)
    _convolve = F.conv2d


class Conv3d(_Conv):
    """Convolution over (N, in_channels, D, H, W), or without N; a size is an int or a triple. See `Conv1d`."""

    _spread = staticmethod(_triple)
    _convolve = F.conv3d


class _ConvTransposeNd(_ConvNd):
    """A transposed convolution; subclasses give the number of dimensions."""

    _spread: Any
    _convolve: Any

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        output_padding: int | tuple[int, ...] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | tuple[int, ...] = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f"{type(self).__name__}: padding_mode must be 'zeros', not {padding_mode!r}")
        spread = self._spread
        super().__init__(
            in_channels,
            out_channels,
            spread(kernel_size),
            spread(stride),
            spread(padding),
            spread(dilation),
            True,
            spread(output_padding),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _output_padding(self, input: mt.Tensor, output_size: list[int] | None) -> tuple[int, ...]:
        """What to add to the smallest possible output so that it has ``output_size``.

        ValueError where the input cannot give that size.
        """
        if output_size is None:
            return self.output_padding
        n = len(self.kernel_size)
        wanted = tuple(output_size)[-n:] if len(output_size) == input.dim() else tuple(output_size)
        if len(wanted) != n:
            raise ValueError(
                f"{type(self).__name__}: output_size must have {n} or {input.dim()} elements, got {list(output_size)}"
            )
        smallest = tuple(
            (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1
            for size, stride, padding, dilation, kernel in zip(
                input.shape[-n:], self.stride, self.padding, self.dilation, self.kernel_size
            )
        )
        largest = tuple(low + stride - 1 for low, stride in zip(smallest, self.stride))
        if not all(low <= size <= high for low, size, high in zip(smallest, wanted, largest)):
            raise ValueError(
                f"{type(self).__name__}: output_size {wanted} is not between {smallest} and {largest}, the sizes "
                f"that an input of shape {list(input.shape)} can give"
            )
        return tuple(size - low for low, size in zip(smallest, wanted))

    def forward(self, input: mt.Tensor, output_size: list[int] | None = None) -> mt.Tensor:
        extra = self._output_padding(input, output_size)
        return self._convolve(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )


class ConvTranspose1d(_ConvTransposeNd):
    """Transposed convolution, which maps as the gradient of `Conv1d` does: (N, in_channels, L) to (N, out_channels, L').

    L' = (L - 1) stride - 2 padding + dilation (kernel_size - 1) + output_padding + 1. ``weight`` is (in_channels,
    out_channels / groups, kernel_size). A call with ``output_size`` chooses ``output_padding`` to fit.
    """

    _spread = staticmethod(_single)
    _convolve = F.conv_transpose1d


class ConvTranspose2d(_ConvTransposeNd):
    """Transposed convolution over (N, in_channels, H, W). See `ConvTranspose1d`."""

    _spread = staticmethod(_pair)
    _convolve = F.conv_transpose2d


class ConvTranspose3d(_ConvTransposeNd):
    """Transposed convolution over (N, in_channels, D, H, W). See `ConvTranspose1d`."""

    _spread = staticmethod(_triple)
    _convolve = F.conv_transpose3d
