"""Floating-point operations of operators: a rule for each that multiplies matrices, a statement for the others.

The convention, PyTorch's as well: a multiply-add is two, and only matrix products, convolutions and attention are
counted. An operator is one of

* **counted**: `FLOPS` has a function of its result and its arguments (`out` first, then the arguments as the schema
  names them) that returns the number;
* **free**: it moves or makes no numbers at all (views, factories, copies): 0 by nature;
* **uncounted**: it computes, but in proportion to its elements (pointwise, reductions, normalisation, pooling,
  sorting, look-ups): 0 by convention, and reports list it as such;
* a **gap**: nobody has said anything about it. Reports list it; it is never taken for 0 in silence.

Views, element-wise and random operators, and those that only answer questions, say so where they are declared; the
other built-in ones that cost nothing stand in `metatensor.rules.costless`. What is in neither place is a gap.
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

# Of an operator's declaration, as in _core/op.pxd.
VIEW_FLAG = 4
ELEMENTWISE_FLAG = 32
RANDOM_FLAG = 64
HOST_FLAG = 2048


def mm(out: Any, input: Any, mat2: Any, *_: Any, **__: Any) -> int:
    """(n, k) x (k, m)."""
    return 2 * out.numel() * input.shape[1]


def bmm(out: Any, input: Any, mat2: Any, **_: Any) -> int:
    """(b, n, k) x (b, k, m)."""
    return 2 * out.numel() * input.shape[2]


def matmul(out: Any, input: Any, other: Any, **_: Any) -> int:
    """Any ranks: each element of the result is a sum over the last dimension of ``input``."""
    return 2 * out.numel() * input.shape[-1]


def addmm(out: Any, input: Any, mat1: Any, mat2: Any, *_: Any, **__: Any) -> int:
    """The product alone; the addition is pointwise."""
    return 2 * mat1.numel() * mat2.shape[-1]


def addbmm(out: Any, input: Any, batch1: Any, batch2: Any, *_: Any, **__: Any) -> int:
    """All products of the batch, summed or not."""
    return 2 * batch1.numel() * batch2.shape[-1]


def addmv(out: Any, input: Any, mat: Any, vec: Any, *_: Any, **__: Any) -> int:
    """(n, k) x (k)."""
    return 2 * mat.numel()


def mv(out: Any, input: Any, vec: Any, **_: Any) -> int:
    """(n, k) x (k)."""
    return 2 * input.numel()


def dot(out: Any, input: Any, *_: Any, **__: Any) -> int:
    """(k) x (k)."""
    return 2 * input.numel()


def vecdot(out: Any, x: Any, y: Any, dim: int = -1, **_: Any) -> int:
    """A sum over ``dim`` for each element of the result."""
    return 2 * out.numel() * x.shape[dim]


def inner(out: Any, input: Any, other: Any, **_: Any) -> int:
    """Sums over the last dimensions of both; a plain product where one of them is a number."""
    return 2 * out.numel() * input.shape[-1] if input.dim() and other.dim() else 0


def linear(out: Any, input: Any, weight: Any, bias: Any = None, **_: Any) -> int:
    """(..., k) x (m, k) transposed; the bias is pointwise."""
    return 2 * out.numel() * weight.shape[-1]


def bilinear(out: Any, input1: Any, input2: Any, weight: Any, bias: Any = None, **_: Any) -> int:
    """For each result the weight (n, k) times one input, then times the other."""
    _, n, k = weight.shape
    return 2 * out.numel() * (n * k + n)


def convolution(out: Any, input: Any, weight: Any, *_: Any, **__: Any) -> int:
    """Each element of the result is a sum over the kernel and its group's channels: all of weight[0]."""
    return 2 * out.numel() * prod(weight.shape[1:])


def transposed_convolution(out: Any, input: Any, weight: Any, *_: Any, **__: Any) -> int:
    """Each element of the input is spread over the kernel and its group's channels: all of weight[0]."""
    return 2 * input.numel() * prod(weight.shape[1:])


def any_convolution(
    out: Any, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, *_: Any, **__: Any
) -> int:
    """The general one, transposed or not."""
    return (transposed_convolution if transposed else convolution)(out, input, weight)


def conv_tbc(out: Any, input: Any, weight: Any, *_: Any, **__: Any) -> int:
    """(time, batch, channels) with a weight (kernel, channels in, channels out)."""
    return 2 * out.numel() * weight.shape[0] * weight.shape[1]


def grouped(out: Any, input: Any, mat2: Any, *_: Any, **__: Any) -> int:
    """Each row of the groups times one matrix; of two matrices each column times one row, in one group."""
    if input.dim() == 2 == mat2.dim():
        return 2 * input.numel() * mat2.shape[-1]
    return 2 * out.numel() * input.shape[-1]


def attention(out: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """Scores (..., l, s) and their product with the values; a causal mask does not make it less."""
    return 2 * prod(out.shape[:-1]) * key.shape[-2] * (query.shape[-1] + value.shape[-1])


def recurrent(out: Any, input: Any, *args: Any, **__: Any) -> int:
    """Each weight, a matrix, times every step of every sequence; packed data come as (rows, features)."""
    packed = isinstance(args[2], (list, tuple))
    rows = input.shape[0] if packed else input.shape[0] * input.shape[1]
    return 2 * rows * sum(p.numel() for p in args[2 if packed else 1] if p.dim() == 2)


def recurrent_cell(out: Any, input: Any, hx: Any, w_ih: Any, w_hh: Any, *_: Any, **__: Any) -> int:
    """One step: both weights times the batch."""
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
    "conv_tbc": conv_tbc,
    "nn.functional.conv1d": convolution,
    "nn.functional.conv2d": convolution,
    "nn.functional.conv3d": convolution,
    "nn.functional.conv_transpose1d": transposed_convolution,
    "nn.functional.conv_transpose2d": transposed_convolution,
    "nn.functional.conv_transpose3d": transposed_convolution,
    "nn.functional.scaled_dot_product_attention": attention,
    "lstm": recurrent,
    "gru": recurrent,
    "rnn_tanh": recurrent,
    "rnn_relu": recurrent,
    "lstm_cell": recurrent_cell,
    "gru_cell": recurrent_cell,
    "rnn_tanh_cell": recurrent_cell,
    "rnn_relu_cell": recurrent_cell,
}
"""Operator name to its rule; `metatensor.library.flops` adds to it."""


def classify(op: Any) -> tuple[str, Rule | None]:
    """What is known of the cost of ``op``, an `Op`: `COUNTED` and its rule, or `FREE`, `UNCOUNTED` or `GAP` and None."""
    name = op.name
    rule = FLOPS.get(name)
    if rule is not None:
        return COUNTED, rule
    if "::" in name and not op.flags & VIEW_FLAG:  # not one of ours: nothing is known unless it was registered
        return GAP, None
    if name in costless.FREE or op.flags & VIEW_FLAG:
        return FREE, None
    if name in costless.UNCOUNTED or op.flags & (ELEMENTWISE_FLAG | RANDOM_FLAG):
        return UNCOUNTED, None
    return (FREE if op.flags & HOST_FLAG else GAP), None
