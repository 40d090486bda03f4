"""Gradients of convolutions, and convolutions composed of other operators."""

from __future__ import annotations

from typing import Any

from metatensor._core.gradient_parts import conj
from metatensor._core.gradients import functional, ops

__all__ = []


def _each(value: Any, n: int) -> tuple:
    return tuple(value) * (n if len(value) == 1 else 1) if isinstance(value, (tuple, list)) else (value,) * n


def _run(
    n: int, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, output_padding: Any, groups: int
) -> Any:
    if input.dim() != n + 2:
        return _run(n, input.unsqueeze(0), weight, bias, stride, padding, dilation, transposed, output_padding, groups).squeeze(0)
    if input.is_complex():
        options = (stride, padding, dilation, transposed, output_padding, groups)
        return _by_parts(input, weight, bias, lambda x, w, b: _run(n, x, w, b, *options))
    return ops.convolution(
        input, weight, bias, _each(stride, n), _each(padding, n), _each(dilation, n), transposed, _each(output_padding, n), groups
    )


def _by_parts(input: Any, weight: Any, bias: Any, run: Any) -> Any:
    """Compute a complex convolution with three real ones."""
    (x, y), (u, v) = ((ops.real(t), ops.imag(t)) for t in (input, weight))
    p: Any
    q: Any
    p, q = (None, None) if bias is None else (ops.real(bias), ops.imag(bias))
    a = run(x, u, p)
    b = run(y, v, None)
    c = run(x + y, u + v, None if bias is None else p + q)
    return a - b + 1j * (c - a - b)


def _forward(n: int) -> Any:
    def conv(input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
        return _run(n, input, weight, bias, stride, padding, dilation, False, 0, groups)

    return conv


def _same(n: int) -> Any:
    def conv(input: Any, weight: Any, bias: Any, stride: Any, padding: str, dilation: Any, groups: int) -> Any:
        if padding == "valid":
            return _run(n, input, weight, bias, stride, 0, dilation, False, 0, groups)
        if input.is_complex():
            return _by_parts(input, weight, bias, lambda x, w, b: conv(x, w, b, stride, padding, dilation, groups))
        totals = [d * (k - 1) for d, k in zip(_each(dilation, n), weight.shape[2:])]
        if any(total % 2 for total in totals):  # pad the longer side first
            extra = [side for total in reversed(totals) for side in (0, total % 2)]
            input = functional.pad(input, extra)
        return _run(n, input, weight, bias, stride, [total // 2 for total in totals], dilation, False, 0, groups)

    return conv


def _transposed(n: int) -> Any:
    def conv(input: Any, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any, groups: int, dilation: Any) -> Any:
        return _run(n, input, weight, bias, stride, padding, dilation, True, output_padding, groups)

    return conv


conv1d, conv2d, conv3d = (_forward(n) for n in (1, 2, 3))
conv1d_padding, conv2d_padding, conv3d_padding = (_same(n) for n in (1, 2, 3))
conv_transpose1d, conv_transpose2d, conv_transpose3d = (_transposed(n) for n in (1, 2, 3))


def convolution(
    grad: Any,
    input: Any,
    weight: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    wanted: Any,
) -> Any:
    mask = [wanted[0], wanted[1], len(wanted) > 2 and wanted[2]]
    n = weight.dim() - 2
    return ops.convolution_backward(
        grad, input, weight, _each(stride, n), _each(padding, n), _each(dilation, n), transposed, _each(output_padding, n), groups, mask
    )


def convolution_backward(
    grad: Any,
    input: Any,
    weight: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    mask: Any,
) -> Any:
    n = weight.dim() - 2
    first = second = third = None
    if not input.numel() or not grad.numel() or not weight.numel():
        first, second = (ops.zeros_like(t) if wanted else None for t, wanted in zip((input, weight), mask))
    else:
        if mask[0]:
            first = _for_input(grad, input, weight, stride, padding, dilation, transposed, groups)
        if mask[1]:
            image, kernel = (conj(grad), input) if transposed else (conj(input), grad)
            if transposed and grad.is_complex():
                image, kernel = grad, conj(input)
            second = _for_weight(image, kernel, weight.shape, stride, padding, dilation, groups, n)
    if mask[2]:
        third = grad.sum((0, *range(2, n + 2)))
    return first, second, third


def _for_input(grad: Any, input: Any, weight: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, groups: int) -> Any:
    n = weight.dim() - 2
    if transposed:
        result = ops.convolution(grad, conj(weight), None, stride, padding, dilation, False, (0,) * n, groups)
        for i in range(n):  # positions that the output padding added
            result = result.narrow(i + 2, 0, input.shape[i + 2])
        return result
    extra = tuple(
        size - ((out - 1) * s - 2 * p + d * (k - 1) + 1)
        for size, out, s, p, d, k in zip(input.shape[2:], grad.shape[2:], stride, padding, dilation, weight.shape[2:])
    )
    if all(e < max(s, d) for e, s, d in zip(extra, stride, dilation)):
        return ops.convolution(grad, conj(weight), None, stride, padding, dilation, True, extra, groups)
    result = ops.convolution(grad, conj(weight), None, stride, padding, dilation, True, (0,) * n, groups)
    return functional.pad(result, [side for e in reversed(extra) for side in (0, e)])


def _for_weight(image: Any, kernel: Any, shape: Any, stride: Any, padding: Any, dilation: Any, groups: int, n: int) -> Any:
    """Correlate the images with the gradients. This is a convolution with batch and channel dimensions exchanged."""
    batch, spatial = image.shape[0], range(3, n + 3)
    x = image.reshape(batch, groups, -1, *image.shape[2:]).permute(2, 1, 0, *spatial).reshape(-1, groups * batch, *image.shape[2:])
    g = kernel.reshape(batch, groups, -1, *kernel.shape[2:]).permute(1, 2, 0, *spatial).reshape(-1, batch, *kernel.shape[2:])
    result = ops.convolution(x, g, None, dilation, padding, stride, False, (0,) * n, groups)
    for i in range(n):
        result = result.narrow(i + 2, 0, shape[i + 2])
    return result.transpose(0, 1)


def conv_tbc(input: Any, weight: Any, bias: Any, pad: int) -> Any:
    result = functional.conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return result.permute(2, 0, 1)


def unfold(grad: Any, input_meta: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    return functional.fold(grad, input_meta.shape[-2:], kernel_size, dilation, padding, stride)


def fold(grad: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    return functional.unfold(grad, kernel_size, dilation, padding, stride)
