"""Kernels of training on GPUs that keep other tensors for backward than the operators of metatensor: each allocates its
results and saves what its backward pass needs. They compute nothing and run only on meta. Inside `as_on_meta` metatensor's own
operators take their place, as in a model that `metatensor estimate` runs.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import metatensor as mt
from metatensor import distributed as dist
from metatensor.autograd import Function

__all__ = ["as_known", "as_on_meta", "communicating", "cross_entropy", "dropout", "fused_attention", "gathered_linear", "reduced",
           "rms_norm", "rotated", "rows_of_scores", "swiglu"]  # fmt: skip

F = mt.nn.functional
_plain = False


@contextmanager
def as_on_meta() -> Iterator[None]:
    """Use metatensor's own operators in place of these kernels inside the block."""
    global _plain
    before, _plain = _plain, True
    try:
        yield
    finally:
        _plain = before


@contextmanager
def communicating(group: Any) -> Iterator[None]:
    """Gather and reduce the shards of sequences in a process group inside the block; elsewhere nothing is communicated."""
    before = getattr(_rank, "group", None)
    _rank.group = group
    try:
        yield
    finally:
        _rank.group = before


_rank = threading.local()


@mt.op("published::attention", schema="(Tensor q, Tensor k, Tensor v) -> (Tensor out, Tensor statistics)")
def _attention(q: Any, k: Any, v: Any) -> Any:
    """Causal attention of (S, B, heads, width) in one kernel. The statistics are one float32 number for each row of scores."""
    s, b, heads, _ = q.shape
    return mt.Spec((s, b, heads, v.shape[-1]), q.dtype), mt.Spec((b, heads, s), mt.float32)


@mt.op("published::attention_backward", schema="(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor out, Tensor statistics) -> "
       "(Tensor dq, Tensor dk, Tensor dv)")  # fmt: skip
def _attention_backward(grad: Any, q: Any, k: Any, v: Any, out: Any, statistics: Any) -> Any:
    """The gradients of `_attention`, with the scores computed again."""
    return mt.Spec(q.shape, q.dtype), mt.Spec(k.shape, k.dtype), mt.Spec(v.shape, v.dtype)


@_attention.flops
def _(out: Any, q: Any, k: Any, v: Any) -> int:
    return q.shape[0] * k.shape[0] * q.shape[1] * q.shape[2] * (q.shape[-1] + v.shape[-1])  # two products, of which half is masked


@_attention_backward.flops
def _(out: Any, grad: Any, q: Any, k: Any, v: Any, *rest: Any) -> int:
    return q.shape[0] * k.shape[0] * q.shape[1] * q.shape[2] * (3 * q.shape[-1] + 2 * v.shape[-1])


@mt.op("published::added_product", schema="(Tensor main, Tensor grad, Tensor rows) -> ()")
def _added_product(main: Any, grad: Any, rows: Any) -> None:
    """Add grad.T @ rows to a float32 gradient in the kernel of the product."""


@_added_product.flops
def _(out: Any, main: Any, grad: Any, rows: Any) -> int:
    return 2 * main.numel() * rows.shape[0]


class _Attention(Function):
    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any) -> Any:
        out, statistics = _attention(q, k, v)
        ctx.save_for_backward(q, k, v, out, statistics)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return tuple(_attention_backward(grad, *ctx.saved_tensors))


def fused_attention(q: Any, k: Any, v: Any) -> Any:
    """Causal attention that saves its arguments, its result and one number for each row of scores (arXiv:2205.14135)."""
    if _plain:
        q, k, v = (t.permute(1, 2, 0, 3) for t in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).permute(2, 0, 1, 3).contiguous()
    return _Attention.apply(q, k, v)


@mt.op("published::rms_norm", schema="(Tensor x, Tensor weight) -> (Tensor out, Tensor statistics)")
def _rms_norm(x: Any, weight: Any) -> Any:
    """RMS norm, and one float32 number for each row."""
    return mt.Spec(x.shape, x.dtype), mt.Spec(x.shape[:-1], mt.float32)


@mt.op("published::rms_norm_backward", schema="(Tensor grad, Tensor x, Tensor weight, Tensor statistics) -> (Tensor dx, Tensor dw)")
def _rms_norm_backward(grad: Any, x: Any, weight: Any, statistics: Any) -> Any:
    """The gradients of RMS norm."""
    return mt.Spec(x.shape, x.dtype), mt.Spec(weight.shape, weight.dtype)


class _RMSNorm(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any) -> Any:
        out, statistics = _rms_norm(x, weight)
        ctx.save_for_backward(x, weight, statistics)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return tuple(_rms_norm_backward(grad, *ctx.saved_tensors))


def rms_norm(x: Any, weight: Any) -> Any:
    """RMS norm in one kernel. It saves its input and one float32 number for each row."""
    return F.rms_norm(x, weight.shape, weight) if _plain else _RMSNorm.apply(x, weight)


@mt.op("published::swiglu", schema="(Tensor x) -> Tensor")
def _swiglu(x: Any) -> Any:
    """silu(a) * b for the halves of the last dimension."""
    return mt.Spec((*x.shape[:-1], x.shape[-1] // 2), x.dtype)


@mt.op("published::swiglu_backward", schema="(Tensor grad, Tensor x) -> Tensor")
def _swiglu_backward(grad: Any, x: Any) -> Any:
    """The gradient of `_swiglu`."""
    return mt.Spec(x.shape, x.dtype)


class _SwiGLU(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return _swiglu(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return _swiglu_backward(grad, *ctx.saved_tensors)


def swiglu(x: Any) -> Any:
    """silu(a) * b for the halves of the last dimension, in one kernel that saves its input."""
    if _plain:
        a, b = x.chunk(2, -1)
        return F.silu(a) * b
    return _SwiGLU.apply(x)


@mt.op("published::dropout", schema="(Tensor x) -> (Tensor out, Tensor mask)")
def _dropout(x: Any) -> Any:
    """Dropout, and its mask of one byte for each element."""
    return mt.Spec(x.shape, x.dtype), mt.Spec(x.shape, mt.bool)


@mt.op("published::dropout_backward", schema="(Tensor grad, Tensor mask) -> Tensor")
def _dropout_backward(grad: Any, mask: Any) -> Any:
    """The gradient of `_dropout`."""
    return mt.Spec(grad.shape, grad.dtype)


class _Dropout(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        out, mask = _dropout(x)
        ctx.save_for_backward(mask)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return _dropout_backward(grad, *ctx.saved_tensors)


def dropout(x: Any, p: float) -> Any:
    """Dropout in one kernel that saves its mask, one byte for each element."""
    if _plain:
        return F.dropout(x, p)
    return _Dropout.apply(x) if p else x


@mt.op("published::rotary", schema="(Tensor x) -> Tensor")
def _rotary(x: Any) -> Any:
    """Rotary positions."""
    return mt.Spec(x.shape, x.dtype)


class _Rotated(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return _rotary(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return _rotary(grad)


def rotated(x: Any) -> Any:
    """Rotary positions in one kernel, which saves nothing of ``x``."""
    if _plain:
        angles = mt.empty(x.shape[0], 1, 1, x.shape[-1], dtype=x.dtype)
        a, b = x.chunk(2, -1)
        return x * angles + mt.cat([-b, a], -1) * angles
    return _Rotated.apply(x)


KINDS = {"attention": "nn.functional.scaled_dot_product_attention", "attention_backward": "nn.functional.scaled_dot_product_attention",
         "added_product": "mm"}  # fmt: skip
"""Operators as whose kind these ones count when time is predicted; the others are element-wise."""


def as_known(call: Any) -> Any:
    """Return a recorded call under the name of an operator of its kind."""
    space, _, name = call.op.rpartition("::")
    if space != "published":
        return call
    # The factors of a product that is added to a float32 gradient are in half precision.
    return call._replace(op=KINDS.get(name, "mul"), dtype="bfloat16" if name == "added_product" else call.dtype)


def _larger(x: Any, times: int) -> tuple[Any, Any]:
    """Return the gathered shards of a sequence, and a function that waits for them."""
    if times == 1:
        return x, _nothing
    whole = mt.empty(x.shape[0] * times, *x.shape[1:], dtype=x.dtype)
    group = getattr(_rank, "group", None)
    return whole, _nothing if group is None else dist.all_gather_into_tensor(whole, x, group=group, async_op=True).wait


def _smaller(x: Any, times: int) -> tuple[Any, Any]:
    """Return the shard of a sum over ranks, and a function that waits for it."""
    if times == 1:
        return x, _nothing
    part = mt.empty(x.shape[0] // times, *x.shape[1:], dtype=x.dtype)
    group = getattr(_rank, "group", None)
    return part, _nothing if group is None else dist.reduce_scatter_tensor(part, x, group=group, async_op=True).wait


def _nothing() -> None:
    """Wait for nothing."""


def _waited(found: tuple[Any, Any]) -> Any:
    found[1]()
    return found[0]


class _GatheredLinear(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any, times: int) -> Any:
        ctx.save_for_backward(x, weight)
        ctx.times, ctx.bias = times, bias is not None
        return mt.nn.functional.linear(_waited(_larger(x, times)), weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, weight = ctx.saved_tensors
        total, gathered = _larger(x, ctx.times)  # while the gradient of the input is computed
        dx = grad @ weight
        gathered()
        dx, scattered = _smaller(dx, ctx.times)  # while that of the weight is computed
        flat, rows = grad.reshape(-1, grad.shape[-1]), total.reshape(-1, total.shape[-1])
        db = flat.sum(0) if ctx.bias else None
        main = getattr(weight, "main_grad", None)
        if main is None or not getattr(weight, "accumulated", False):
            dw = flat.t() @ rows
            scattered()
            return dx, dw, db, None
        _added_product(main, flat, rows)
        scattered()
        return dx, _placeholder(weight), db, None


def _placeholder(weight: Any) -> Any:
    """Return what a kernel that adds to the main gradient returns to autograd: a tensor like the weight, whose contents nobody reads.

    Transformer Engine keeps one for each shape; the layer that computes logits makes one each time.
    """
    kept = weight.placeholders
    if kept is None:
        return mt.empty_like(weight).detach()
    key = tuple(weight.shape), weight.dtype
    if key not in kept:
        kept[key] = mt.empty(weight.shape, dtype=weight.dtype)
    return kept[key].detach()


def gathered_linear(x: Any, weight: Any, bias: Any, times: int) -> Any:
    """A linear layer over ``times`` sequence shards of which this rank saves its own; backward gathers them again."""
    return _GatheredLinear.apply(x, weight, bias, times)


class _Reduced(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, times: int) -> Any:
        ctx.times = times
        return _waited(_smaller(x, times))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return _waited(_larger(grad, ctx.times)), None


def reduced(x: Any, times: int) -> Any:
    """The sum over tensor-parallel ranks: in place, or this rank's shard of the sequence if ``times`` is greater than 1."""
    return x if times == 1 else _Reduced.apply(x, times)


class _CrossEntropy(Function):
    @staticmethod
    def forward(ctx: Any, logits: Any, labels: Any, compiled: bool) -> Any:
        ctx.half = logits.dtype
        exponentials = logits.float()
        greatest = exponentials.amax(-1)
        exponentials.sub_(greatest.unsqueeze(-1))
        mask = labels < 0
        where = labels.clone()
        picked = mt.empty(where.shape, dtype=mt.float32)
        shifted = exponentials if compiled else None  # it lives until the compiled kernels end
        exponentials = exponentials.exp() if compiled else exponentials.exp_()
        total = exponentials.sum(-1)
        exponentials.div_(total.unsqueeze(-1))
        del shifted
        ctx.save_for_backward(exponentials, mask, where)
        return total.log() - picked

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        softmax, mask, where = ctx.saved_tensors
        softmax.mul_(grad.unsqueeze(-1))
        return softmax.to(ctx.half), None, None


class _EngineCrossEntropy(Function):
    @staticmethod
    def forward(ctx: Any, logits: Any, labels: Any) -> Any:
        ctx.save_for_backward(logits.add_(0))  # becomes the gradient
        statistics = mt.empty(3, *labels.shape, dtype=mt.float32)
        return statistics[0].clone()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return ctx.saved_tensors[0].mul_(grad.unsqueeze(-1)), None


def cross_entropy(logits: Any, labels: Any, how: str = "in place") -> Any:
    """Cross entropy in float32 over a shard of the vocabulary, as Megatron-LM computes it: "in place" in one copy of the logits,
    "compiled" in two, or by Transformer Engine ("engine"), whose kernel replaces the logits by their gradient."""
    if _plain:
        return F.cross_entropy(logits.float().flatten(0, 1), labels.flatten())
    return _EngineCrossEntropy.apply(logits, labels) if how == "engine" else _CrossEntropy.apply(logits, labels, how == "compiled")


def rows_of_scores(q: Any, k: Any) -> Any:
    """The scaled scores (B * heads, S, S) of attention whose parts are kernels of their own."""
    (s, b, heads, d), t = q.shape, k.shape[0]
    return mt.bmm(q.reshape(s, b * heads, d).transpose(0, 1), k.reshape(t, b * heads, d).permute(1, 2, 0)) * (1 / math.sqrt(d))
