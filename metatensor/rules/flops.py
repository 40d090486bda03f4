"""Floating-point operations (FLOPs) of operators: rules for those that are counted, and a class for every other one.

The convention is PyTorch's: a multiply-add is two operations. Only matrix products (also those in recurrent layers),
convolutions and attention are counted. An operator belongs to one of these classes:

* **counted**: `FLOPS` has a function that returns the number of operations. It takes the result `out`, then the
  arguments in the order and with the names of the schema;
* **free**: it only creates or moves elements (views, factories, copies) and costs 0 by nature;
* **uncounted**: it computes values, mostly with work proportional to the number of elements (pointwise ops, reductions,
  normalization, pooling, sorting, matrix factorizations). It costs 0 by convention, and reports list it as uncounted;
* **gap**: its cost is unknown. Reports list it, so that it does not silently count as 0.

Flags in the declarations identify views, element-wise operators, random operators, and operators that only read
metadata. `metatensor.rules.costless` lists the other free and uncounted built-in operators. All others are gaps.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from metatensor.rules import costless

__all__ = ["COUNTED", "FLOPS", "FREE", "GAP", "UNCOUNTED", "Rule", "classify"]

Rule = Callable[..., int]

COUNTED = "counted"
FREE = "free"
UNCOUNTED = "uncounted"
GAP = "gap"

# Flags of an operator's declaration, with the values of _core/op.pxd.
VIEW_FLAG = 4
ELEMENTWISE_FLAG = 32
RANDOM_FLAG = 64
HOST_FLAG = 2048


def mm(out: Any, input: Any, mat2: Any, *_: Any, **__: Any) -> int:
    """Count the product (n, k) @ (k, m)."""
    return 2 * out.numel() * input.shape[1]


def bmm(out: Any, input: Any, mat2: Any, **_: Any) -> int:
    """Count the product (b, n, k) @ (b, k, m)."""
    return 2 * out.numel() * input.shape[2]


def matmul(out: Any, input: Any, other: Any, **_: Any) -> int:
    """Count a product of tensors with any numbers of dimensions. Each result sums over the last dimension of
    ``input``."""
    return 2 * out.numel() * input.shape[-1]


def addmm(out: Any, input: Any, mat1: Any, mat2: Any, *_: Any, **__: Any) -> int:
    """Count only the product, because the addition is pointwise."""
    return 2 * mat1.numel() * mat2.shape[-1]


def addbmm(out: Any, input: Any, batch1: Any, batch2: Any, *_: Any, **__: Any) -> int:
    """Count all products of the batch, whether they are summed or not."""
    return 2 * batch1.numel() * batch2.shape[-1]


def addmv(out: Any, input: Any, mat: Any, vec: Any, *_: Any, **__: Any) -> int:
    """Count the product (n, k) @ (k,)."""
    return 2 * mat.numel()


def mv(out: Any, input: Any, vec: Any, **_: Any) -> int:
    """Count the product (n, k) @ (k,)."""
    return 2 * input.numel()


def dot(out: Any, input: Any, *_: Any, **__: Any) -> int:
    """Count the product (k,) @ (k,)."""
    return 2 * input.numel()


def vecdot(out: Any, x: Any, y: Any, dim: int = -1, **_: Any) -> int:
    """Count a sum over ``dim`` for each element of the result."""
    return 2 * out.numel() * x.shape[dim]


def inner(out: Any, input: Any, other: Any, **_: Any) -> int:
    """Count a sum over the last dimension for each result. If an argument is 0-d, the product is pointwise and costs
    0."""
    return 2 * out.numel() * input.shape[-1] if input.dim() and other.dim() else 0


def linear(out: Any, input: Any, weight: Any, bias: Any = None, **_: Any) -> int:
    """Count the product (..., k) @ (k, m). The bias is pointwise and not counted."""
    return 2 * out.numel() * weight.shape[-1]


def bilinear(out: Any, input1: Any, input2: Any, weight: Any, bias: Any = None, **_: Any) -> int:
    """Count, for each result, the products of the weight (n, k) with one input and then with the other."""
    _, n, k = weight.shape
    return 2 * out.numel() * (n * k + n)


def convolution(out: Any, input: Any, weight: Any, *_: Any, **__: Any) -> int:
    """Count, for each result, a sum over weight[0]: the kernel and the input channels of the result's group."""
    return 2 * out.numel() * prod(weight.shape[1:])


def transposed_convolution(out: Any, input: Any, weight: Any, *_: Any, **__: Any) -> int:
    """Count, for each input element, its products with weight[0]: the kernel and the output channels of its group."""
    return 2 * input.numel() * prod(weight.shape[1:])


def any_convolution(
    out: Any, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, *_: Any, **__: Any
) -> int:
    """Count the general convolution, transposed or not."""
    return (transposed_convolution if transposed else convolution)(out, input, weight)


def convolution_backward(
    out: Any, grad: Any, input: Any, weight: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, output_padding: Any,
    groups: int, output_mask: Any,
) -> int:  # fmt: skip
    """Count the gradients of input and weight, each of which costs as much as the convolution."""
    return (output_mask[0] + output_mask[1]) * (transposed_convolution if transposed else convolution)(grad, input, weight)


def conv_tbc(out: Any, input: Any, weight: Any, *_: Any, **__: Any) -> int:
    """Count a convolution of (time, batch, channels) with a weight (kernel, channels in, channels out)."""
    return 2 * out.numel() * weight.shape[0] * weight.shape[1]


def grouped(out: Any, input: Any, mat2: Any, *_: Any, **__: Any) -> int:
    """Count one product per group. For two matrices, the groups split the dimension that is summed over."""
    if input.dim() == 2 == mat2.dim():
        return 2 * input.numel() * mat2.shape[-1]
    return 2 * out.numel() * input.shape[-1]


def attention(out: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """Count the scores (..., L, S) and their product with the values. A causal mask does not reduce the count."""
    return 2 * prod(out.shape[:-1]) * key.shape[-2] * (query.shape[-1] + value.shape[-1])


def fused_attention(out: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """Count the same for an operator that has several results."""
    return attention(out[0], query, key, value)


def attention_backward(out: Any, grad: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """Count the scores again, and the gradients of value, weights, query and key."""
    return 2 * prod(query.shape[:-1]) * key.shape[-2] * (3 * query.shape[-1] + 2 * value.shape[-1])


def recurrent(out: Any, input: Any, *args: Any, **__: Any) -> int:
    """Count the product of every weight matrix with each step of each sequence. Packed data is (rows, features)."""
    packed = isinstance(args[2], (list, tuple))
    rows = input.shape[0] if packed else input.shape[0] * input.shape[1]
    return 2 * rows * sum(p.numel() for p in args[2 if packed else 1] if p.dim() == 2)


def recurrent_cell(out: Any, input: Any, hx: Any, w_ih: Any, w_hh: Any, *_: Any, **__: Any) -> int:
    """Count one step, the products of both weights with the batch."""
    return 2 * input.shape[0] * (w_ih.numel() + w_hh.numel())


FLOPS: dict[str, Rule] = {
    "mm": mm,
    "_scaled_mm": mm,
    "_int_mm": mm,
    "_grouped_mm": grouped,
    "bmm": bmm,
    "matmul": matmul,
    "addmm": addmm,
    "addbmm": addbmm,
    "baddbmm": addbmm,
    "addmv": addmv,
    "mv": mv,
    "dot": dot,
    "vdot": dot,
    "linalg.vecdot": vecdot,
    "linalg.matmul": matmul,
    "inner": inner,
    "nn.functional.linear": linear,
    "nn.functional.bilinear": bilinear,
    "convolution": any_convolution,
    "convolution_backward": convolution_backward,
    "conv_tbc": conv_tbc,
    "nn.functional.conv1d": convolution,
    "nn.functional.conv2d": convolution,
    "nn.functional.conv3d": convolution,
    "nn.functional.conv_transpose1d": transposed_convolution,
    "nn.functional.conv_transpose2d": transposed_convolution,
    "nn.functional.conv_transpose3d": transposed_convolution,
    "nn.functional.scaled_dot_product_attention": attention,
    "_scaled_dot_product_flash_attention": fused_attention,
    "_scaled_dot_product_flash_attention_backward": attention_backward,
    "_scaled_dot_product_efficient_attention": fused_attention,
    "_scaled_dot_product_efficient_attention_backward": attention_backward,
    "_scaled_dot_product_flash_attention_for_cpu": fused_attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": attention_backward,
    "lstm": recurrent,
    "gru": recurrent,
    "rnn_tanh": recurrent,
    "rnn_relu": recurrent,
    "lstm_cell": recurrent_cell,
    "gru_cell": recurrent_cell,
    "rnn_tanh_cell": recurrent_cell,
    "rnn_relu_cell": recurrent_cell,
}
"""The rules by operator name. `metatensor.library.flops` adds to them."""


def classify(op: Any) -> tuple[str, Rule | None]:
    """Return the class of ``op``, an `Op`, with its rule.

    The result is `COUNTED` and the rule, or `FREE`, `UNCOUNTED` or `GAP` and None.
    """
    name = op.name
    rule = FLOPS.get(name)
    if rule is not None:
        return COUNTED, rule
    if "::" in name and not op.flags & VIEW_FLAG:  # the cost of custom operators without a rule is unknown
        return GAP, None
    if name in costless.FREE or op.flags & VIEW_FLAG:
        return FREE, None
    if name in costless.UNCOUNTED or op.flags & (ELEMENTWISE_FLAG | RANDOM_FLAG):
        return UNCOUNTED, None
    return (FREE if op.flags & HOST_FLAG else GAP), None
