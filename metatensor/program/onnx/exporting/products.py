"""Conversions of matrix products, convolutions and related operators."""

from __future__ import annotations

from typing import Any

import numpy as np

import metatensor as mt
from metatensor.program.onnx.exporting.graph import Graph, Var
from metatensor.program.onnx.exporting.table import Declined, conversion, pair

__all__: list[str] = []


@conversion("matmul", "mm", "bmm", "mv", "dot")
def _matmul(g: Graph, a: Any, result: Any) -> Var:
    if getattr(a, "out_dtype", None) is not None:
        raise Declined("out_dtype")
    other = next(getattr(a, name) for name in ("other", "mat2", "vec", "tensor") if hasattr(a, name))
    return _product(g, a.input, other)


def _product(g: Graph, x: Var, y: Var) -> Var:
    """Return a product, computed in a dtype that runtimes support."""
    if not x.dtype.is_floating_point and x.dtype not in (mt.int32, mt.int64, mt.uint32, mt.uint64):
        return g.cast(g.op("MatMul", g.cast(x, mt.int32), g.cast(y, mt.int32)), x.dtype)
    return g.op("MatMul", x, y)


@conversion("nn.functional.linear")
def _linear(g: Graph, a: Any, result: Any) -> Var:
    x, weight, bias = a.input, a.weight, a.bias
    if len(weight.shape) != 2:
        found = g.op("MatMul", x, weight)
        return found if bias is None else g.op("Add", found, bias)
    if len(x.shape) == 2 and x.dtype.is_floating_point and (bias is None or len(bias.shape) == 1):
        return g.op("Gemm", x, weight, *([] if bias is None else [bias]), transB=1)
    found = _product(g, x, g.op("Transpose", weight, perm=[1, 0]))
    return found if bias is None else g.op("Add", found, bias)


@conversion("addmm")
def _addmm(g: Graph, a: Any, result: Any) -> Var:
    if not result.dtype.is_floating_point or getattr(a, "out_dtype", None) is not None or a.beta == 0:
        raise Declined("integers")
    return g.op("Gemm", a.mat1, a.mat2, a.input, alpha=float(a.alpha), beta=float(a.beta))


# Convolutions ---------------------------------------------------------------------------------------------


def with_batch(g: Graph, x: Var, spatial: int) -> tuple[Var, bool]:
    """Return an input with a batch dimension, and whether it lacked one."""
    if len(x.shape or ()) == spatial + 2:
        return x, False
    shape = (1, *(x.shape or ()))
    return g.op("Unsqueeze", x, g.ints([0]), shape=shape), True


def without_batch(g: Graph, x: Var, lacked: bool) -> Var:
    """Remove the batch dimension of a result if `with_batch` added one."""
    return g.op("Squeeze", x, g.ints([0])) if lacked else x


@conversion("nn.functional.conv1d", "nn.functional.conv2d", "nn.functional.conv3d")
def _conv(g: Graph, a: Any, result: Any) -> Var:
    spatial = len(a.weight.shape) - 2
    kernel, dilation = a.weight.shape[2:], pair(a.dilation, spatial)
    if isinstance(a.padding, str):
        total = [0 if a.padding == "valid" else d * (k - 1) for d, k in zip(dilation, kernel)]
        pads = [n // 2 for n in total] + [n - n // 2 for n in total]
    else:
        pads = pair(a.padding, spatial) * 2
    return _convolved(g, a.input, a.weight, a.bias, pair(a.stride, spatial), pads, dilation, a.groups)


def _convolved(
    g: Graph, x: Var, weight: Var, bias: Var | None, stride: list[int], pads: list[int], dilation: list[int], groups: int
) -> Var:
    x, lacked = with_batch(g, x, len(stride))
    assert weight.shape is not None
    found = g.op("Conv", x, weight, *([] if bias is None else [bias]), strides=stride, pads=pads, dilations=dilation, group=groups,
                 kernel_shape=list(weight.shape[2:]))  # fmt: skip
    return without_batch(g, found, lacked)


def _transposed(
    g: Graph, x: Var, weight: Var, bias: Var | None, groups: int, stride: list[int], padding: list[int], more: list[int],
    dilation: list[int],
) -> Var:  # fmt: skip
    x, lacked = with_batch(g, x, len(stride))
    assert weight.shape is not None
    found = g.op("ConvTranspose", x, weight, *([] if bias is None else [bias]), strides=stride, pads=padding * 2, output_padding=more,
                 dilations=dilation, group=groups, kernel_shape=list(weight.shape[2:]))  # fmt: skip
    return without_batch(g, found, lacked)


@conversion("nn.functional.conv_transpose1d", "nn.functional.conv_transpose2d", "nn.functional.conv_transpose3d")
def _conv_transpose(g: Graph, a: Any, result: Any) -> Var:
    n = len(a.weight.shape) - 2
    return _transposed(g, a.input, a.weight, a.bias, a.groups, *(pair(v, n) for v in (a.stride, a.padding, a.output_padding, a.dilation)))


@conversion("convolution")
def _convolution(g: Graph, a: Any, result: Any) -> Var:
    n = len(a.weight.shape) - 2
    stride, padding, dilation, more = (pair(v, n) for v in (a.stride, a.padding, a.dilation, a.output_padding))
    if a.transposed:
        return _transposed(g, a.input, a.weight, a.bias, a.groups, stride, padding, more, dilation)
    return _convolved(g, a.input, a.weight, a.bias, stride, padding * 2, dilation, a.groups)


@conversion("nn.functional.unfold")
def _unfold(g: Graph, a: Any, result: Any) -> Var:
    """Gather the rows and columns of all windows by index, then reorder them."""
    kernel, dilation, padding, stride = (pair(v, 2) for v in (a.kernel_size, a.dilation, a.padding, a.stride))
    x, lacked = with_batch(g, a.input, 2)
    if any(padding):
        x = Var(g.op("Pad", x, g.ints([0, 0, *padding] * 2)), x.dtype, x.shape)
    assert x.shape is not None
    for i, axis in ((0, 2), (1, 4)):
        out = (x.shape[2 + i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1
        index = np.arange(kernel[i])[:, None] * dilation[i] + np.arange(out)[None, :] * stride[i]
        x = Var(g.op("Gather", x, g.constant(index, mt.int64), axis=axis), x.dtype, x.shape)
    found = g.op("Transpose", x, perm=[0, 1, 2, 4, 3, 5])
    return without_batch(g, g.op("Reshape", found, g.ints([0, a.input.shape[-3] * kernel[0] * kernel[1], -1])), lacked)


@conversion("nn.functional.fold")
def _fold(g: Graph, a: Any, result: Any) -> Var:
    if len(a.input.shape) != 3:
        raise Declined("an input without a batch")
    size, kernel, dilation, padding, stride = (pair(v, 2) for v in (a.output_size, a.kernel_size, a.dilation, a.padding, a.stride))
    return g.op("Col2Im", a.input, g.ints(size), g.ints(kernel), dilations=dilation, pads=padding * 2, strides=stride)
