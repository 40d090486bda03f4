"""Gradients of convolutions with respect to their input and weight, computed as convolutions.

All functions take ``grad_output``, the gradient with respect to the output, and the ``stride``, ``padding``,
``dilation`` and ``groups`` of the convolution.
"""

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
    """Compute the gradient with respect to the input: a transposed convolution, padded to the size of the input."""
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
    """Compute the gradient with respect to the weight.

    This is a convolution of the input by ``grad_output``, with batches and channels exchanged, and strides and
    dilations exchanged.
    """
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
    """Return the gradient of `conv1d` with respect to its input.

    Parameters
    ----------
    input_size : sequence of int
        Shape of the input, (N, in_channels, L).
    weight : Tensor
        Shape (out_channels, in_channels / groups, kernel_size).
    grad_output : Tensor
        Gradient with respect to the output, (N, out_channels, L_out).
    stride, padding, dilation, groups
        As in the convolution.

    Returns
    -------
    Tensor
        Shape ``input_size``.

    Raises
    ------
    ValueError
        If ``input_size`` is None.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.grad.conv1d_input((2, 3, 10), mt.empty(4, 3, 3), mt.empty(2, 4, 8)).shape
    metatensor.Size([2, 3, 10])
    """
    return _input(1, input_size, weight, grad_output, (stride, padding, dilation), groups)


def conv1d_weight(
    input: Tensor, weight_size: Sequence[int], grad_output: Tensor, stride: Sizes = 1, padding: Sizes = 0, dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """Return the gradient of `conv1d` with respect to its weight.

    Parameters
    ----------
    input : Tensor
        Shape (N, in_channels, L).
    weight_size : sequence of int
        Shape of the weight, (out_channels, in_channels / groups, kernel_size).
    grad_output : Tensor
        Gradient with respect to the output, (N, out_channels, L_out).
    stride, padding, dilation, groups
        As in the convolution.

    Returns
    -------
    Tensor
        Shape ``weight_size``.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.grad.conv1d_weight(mt.empty(2, 3, 10), (4, 3, 3), mt.empty(2, 4, 8)).shape
    metatensor.Size([4, 3, 3])
    """
    return _weight(1, input, weight_size, grad_output, (stride, padding, dilation), groups)


def conv2d_input(
    input_size: Sequence[int], weight: Tensor, grad_output: Tensor, stride: Sizes = 1, padding: Sizes = 0, dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """Return the gradient of `conv2d` with respect to its input, of shape ``input_size``. See `conv1d_input`."""
    return _input(2, input_size, weight, grad_output, (stride, padding, dilation), groups)


def conv2d_weight(
    input: Tensor, weight_size: Sequence[int], grad_output: Tensor, stride: Sizes = 1, padding: Sizes = 0, dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """Return the gradient of `conv2d` with respect to its weight, of shape ``weight_size``. See `conv1d_weight`."""
    return _weight(2, input, weight_size, grad_output, (stride, padding, dilation), groups)


def conv3d_input(
    input_size: Sequence[int], weight: Tensor, grad_output: Tensor, stride: Sizes = 1, padding: Sizes = 0, dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """Return the gradient of `conv3d` with respect to its input, of shape ``input_size``. See `conv1d_input`."""
    return _input(3, input_size, weight, grad_output, (stride, padding, dilation), groups)


def conv3d_weight(
    input: Tensor, weight_size: Sequence[int], grad_output: Tensor, stride: Sizes = 1, padding: Sizes = 0, dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """Return the gradient of `conv3d` with respect to its weight, of shape ``weight_size``. See `conv1d_weight`."""
    return _weight(3, input, weight_size, grad_output, (stride, padding, dilation), groups)
