"""Gradients of convolutions, computed by convolutions: what a backward pass would give for ``grad_output``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metatensor import Tensor
from metatensor.nn import functional as F
from metatensor.nn.modules.utils import _ntuple

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]

Sizes = int | Sequence[int]


def _each(value: Sizes, dims: int) -> tuple[int, ...]:
    return _ntuple(dims, "")(value)


def _input(
    dims: int, input_size: Sequence[int] | None, weight: Tensor, grad_output: Tensor, options: tuple[Sizes, ...], groups: int
) -> Tensor:
    """A transposed convolution, as large as the input was: its last rows may have met no window."""
    if input_size is None:
        raise ValueError(f"conv{dims}d_input: input_size is needed")
    stride, padding, dilation = (_each(option, dims) for option in options)
    missing = [
        input_size[at - dims] - ((grad_output.shape[at - dims] - 1) * stride[at] - 2 * padding[at]
                                 + dilation[at] * (weight.shape[at - dims] - 1) + 1)
        for at in range(dims)
    ]  # fmt: skip
    function: Any = getattr(F, f"conv_transpose{dims}d")
    return function(grad_output, weight, None, stride, padding, missing, groups, dilation)


def _weight(
    dims: int, input: Tensor, weight_size: Sequence[int], grad_output: Tensor, options: tuple[Sizes, ...], groups: int
) -> Tensor:
    """A convolution of the input by the gradient, with batches and channels exchanged, and strides and dilations."""
    stride, padding, dilation = (_each(option, dims) for option in options)
    batch, channels, *space = input.shape
    by_group = input.reshape(batch, groups, channels // groups, *space).transpose(0, 2)
    function: Any = getattr(F, f"conv{dims}d")
    found = function(
        by_group.reshape(channels // groups, groups * batch, *space), grad_output.transpose(0, 1), None, dilation, padding, stride, groups
    ).transpose(0, 1)
    for at in range(dims):
        found = found.narrow(at + 2, 0, weight_size[at + 2])
    return found.contiguous()


def conv1d_input(
    input_size: Sequence[int], weight: Tensor, grad_output: Tensor, stride: Sizes = 1, padding: Sizes = 0, dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of `conv1d` by its input, which had ``input_size``."""
    return _input(1, input_size, weight, grad_output, (stride, padding, dilation), groups)


def conv1d_weight(
    input: Tensor, weight_size: Sequence[int], grad_output: Tensor, stride: Sizes = 1, padding: Sizes = 0, dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of `conv1d` by its weight, which had ``weight_size``."""
    return _weight(1, input, weight_size, grad_output, (stride, padding, dilation), groups)


def conv2d_input(
    input_size: Sequence[int], weight: Tensor, grad_output: Tensor, stride: Sizes = 1, padding: Sizes = 0, dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of `conv2d` by its input, which had ``input_size``."""
    return _input(2, input_size, weight, grad_output, (stride, padding, dilation), groups)


def conv2d_weight(
    input: Tensor, weight_size: Sequence[int], grad_output: Tensor, stride: Sizes = 1, padding: Sizes = 0, dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of `conv2d` by its weight, which had ``weight_size``."""
    return _weight(2, input, weight_size, grad_output, (stride, padding, dilation), groups)


def conv3d_input(
    input_size: Sequence[int], weight: Tensor, grad_output: Tensor, stride: Sizes = 1, padding: Sizes = 0, dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of `conv3d` by its input, which had ``input_size``."""
    return _input(3, input_size, weight, grad_output, (stride, padding, dilation), groups)


def conv3d_weight(
    input: Tensor, weight_size: Sequence[int], grad_output: Tensor, stride: Sizes = 1, padding: Sizes = 0, dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of `conv3d` by its weight, which had ``weight_size``."""
    return _weight(3, input, weight_size, grad_output, (stride, padding, dilation), groups)
