"""Convolution and transposed convolution layers in 1, 2 and 3 dimensions."""

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
    """Base of all convolutions. Sizes are tuples with one element per spatial dimension."""

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
    padding: Any  # "same", "valid" or a tuple of sizes
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
        """Return the padding in the order of `pad`: before and after each dimension, the last dimension first."""
        if not isinstance(self.padding, str):
            return _reverse_repeat_tuple(self.padding, 2)
        pads: list[int] = []
        for size, step in zip(reversed(self.kernel_size), reversed(self.dilation)):
            total = step * (size - 1) if self.padding == "same" else 0
            pads += [total // 2, total - total // 2]
        return tuple(pads)

    def reset_parameters(self) -> None:
        """Draw new initial values, uniform within ±1 / sqrt(weight.shape[1] * kernel elements)."""
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
    """Base of convolutions. Subclasses fix the number of dimensions."""

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
    """Convolution of an input (N, in_channels, L) or (in_channels, L).

    The output has ``out_channels`` channels and length ``(L + 2 * padding - dilation * (kernel_size - 1) - 1) // stride
    + 1``. ``weight`` has shape (out_channels, in_channels / groups, kernel_size), and ``bias`` has shape
    (out_channels,). Both are initialized uniformly within ±1 / sqrt(in_channels / groups * kernel_size). The kernel is
    not flipped, so this is a cross-correlation.

    Parameters
    ----------
    in_channels, out_channels : int
        Numbers of channels. ``groups`` must divide both.
    kernel_size : int or tuple of int
        Size of the kernel.
    stride : int or tuple of int
        Distance between neighbouring windows. Default 1.
    padding : int, tuple of int or str
        Elements added at both ends. Default 0. "valid" means none. "same" keeps the length and needs a stride of 1.
    dilation : int or tuple of int
        Distance between neighbouring kernel elements in the input. Default 1.
    groups : int
        Number of groups of channels that are convolved separately. Default 1.
    bias : bool
        Add a ``bias`` to each output channel. Default True.
    padding_mode : str
        "zeros" (the default), "reflect", "replicate" or "circular".
    device, dtype : optional
        Device and dtype of the parameters.

    Raises
    ------
    ValueError
        If ``groups`` is not positive or does not divide the channels, if ``padding`` or ``padding_mode`` is not one of
        the values above, or if ``padding`` is "same" and ``stride`` is not 1.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.Conv1d(3, 8, kernel_size=5, padding=2)(mt.empty(2, 3, 20)).shape
    metatensor.Size([2, 8, 20])
    """

    _spread = staticmethod(_single)
    _convolve = F.conv1d


class Conv2d(_Conv):
    """Convolution of an input (N, in_channels, H, W) or (in_channels, H, W).

    Sizes are ints or pairs (height, width). ``weight`` has shape
    ``(out_channels, in_channels / groups, *kernel_size)``. See `Conv1d` for parameters, output sizes and initial values.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.Conv2d(3, 8, kernel_size=3, stride=2)(mt.empty(2, 3, 32, 32)).shape
    metatensor.Size([2, 8, 15, 15])
    """

    _spread = staticmethod(_pair)
    _convolve = F.conv2d


class Conv3d(_Conv):
    """Convolution of an input (N, in_channels, D, H, W) or (in_channels, D, H, W).

    Sizes are ints or triples (depth, height, width). ``weight`` has shape
    ``(out_channels, in_channels / groups, *kernel_size)``. See `Conv1d` for parameters, output sizes and initial values.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.Conv3d(3, 8, kernel_size=3, padding="same")(mt.empty(2, 3, 4, 8, 8)).shape
    metatensor.Size([2, 8, 4, 8, 8])
    """

    _spread = staticmethod(_triple)
    _convolve = F.conv3d


class _ConvTransposeNd(_ConvNd):
    """Base of transposed convolutions. Subclasses fix the number of dimensions."""

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
        """Return the output padding that results in ``output_size``, or the layer's output padding if that is None.

        Raise ValueError if no output padding results in that size.
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
    """Transposed convolution of an input (N, in_channels, L) or (in_channels, L).

    The map is the gradient of a `Conv1d` with respect to its input. The output has ``out_channels`` channels and length
    ``(L - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1``. A call with ``output_size``
    chooses ``output_padding`` so that the output has that size. ``weight`` has shape (in_channels, out_channels /
    groups, kernel_size), and ``bias`` has shape (out_channels,).

    Parameters
    ----------
    in_channels, out_channels : int
        Numbers of channels. ``groups`` must divide both.
    kernel_size : int or tuple of int
        Size of the kernel.
    stride : int or tuple of int
        Distance between the results of neighbouring input elements. Default 1.
    padding : int or tuple of int
        Elements removed at both ends of the output. Default 0.
    output_padding : int or tuple of int
        Elements added at one end of the output. Default 0.
    groups : int
        Number of groups of channels that are convolved separately. Default 1.
    bias : bool
        Add a ``bias`` to each output channel. Default True.
    dilation : int or tuple of int
        Distance between neighbouring kernel elements in the output. Default 1.
    padding_mode : str
        Must be "zeros".
    device, dtype : optional
        Device and dtype of the parameters.

    Raises
    ------
    ValueError
        If ``groups`` is not positive or does not divide the channels, if ``padding_mode`` is not "zeros", or on a call
        with an ``output_size`` that the input cannot give.

    Examples
    --------
    >>> import metatensor as mt
    >>> layer = mt.nn.ConvTranspose1d(8, 3, kernel_size=3, stride=2)
    >>> layer(mt.empty(2, 8, 10)).shape
    metatensor.Size([2, 3, 21])
    >>> layer(mt.empty(2, 8, 10), output_size=[22]).shape
    metatensor.Size([2, 3, 22])
    """

    _spread = staticmethod(_single)
    _convolve = F.conv_transpose1d


class ConvTranspose2d(_ConvTransposeNd):
    """Transposed convolution of an input (N, in_channels, H, W) or (in_channels, H, W).

    Sizes are ints or pairs (height, width). See `ConvTranspose1d` for parameters and output sizes.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.ConvTranspose2d(8, 3, kernel_size=2, stride=2)(mt.empty(2, 8, 5, 5)).shape
    metatensor.Size([2, 3, 10, 10])
    """

    _spread = staticmethod(_pair)
    _convolve = F.conv_transpose2d


class ConvTranspose3d(_ConvTransposeNd):
    """Transposed convolution of an input (N, in_channels, D, H, W) or (in_channels, D, H, W).

    Sizes are ints or triples (depth, height, width). See `ConvTranspose1d` for parameters and output sizes.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.ConvTranspose3d(8, 3, kernel_size=2, stride=2)(mt.empty(2, 8, 2, 5, 5)).shape
    metatensor.Size([2, 3, 4, 10, 10])
    """

    _spread = staticmethod(_triple)
    _convolve = F.conv_transpose3d
