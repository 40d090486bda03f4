"""Products of vectors, matrices and batches of matrices, and attention."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.rules.decompositions import decomposition, numeric


@decomposition("matmul")
def matmul(a: Any, b: Any) -> Any:
    """Use `mm` if the second factor is one matrix or vector, else `bmm`."""
    left, right = a.dim() == 1, b.dim() == 1
    a = a.unsqueeze(0) if left else a
    b = b.unsqueeze(1) if right else b
    if a.dim() == 2 and b.dim() == 2:
        out = mt.mm(a, b)
    elif b.dim() == 2:
        out = mt.mm(a.reshape(-1, a.shape[-1]) if a.numel() else a.new_zeros((a.shape[:-1].numel(), a.shape[-1])), b)
        out = out.reshape(*a.shape[:-1], b.shape[1])
    else:
        batch = mt.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        count = 1
        for size in batch:
            count *= size
        a, b = (x.expand(*batch, *x.shape[-2:]).reshape(count, *x.shape[-2:]) for x in (a, b))
        out = mt.bmm(a, b).reshape(*batch, a.shape[-2], b.shape[-1])
    out = out.squeeze(-2) if left else out
    return out.squeeze(-1) if right else out


@decomposition("mv")
def mv(a: Any, b: Any) -> Any:
    return mt.mm(a, b.unsqueeze(1)).squeeze(1)


@decomposition("dot")
def dot(a: Any, b: Any) -> Any:
    return mt.mm(a.unsqueeze(0), b.unsqueeze(1)).reshape(())


@decomposition("vdot")
def vdot(a: Any, b: Any) -> Any:
    return mt.dot(a.conj().resolve_conj() if a.is_complex() else a, b)


@decomposition("outer")
def outer(a: Any, b: Any) -> Any:
    return a.unsqueeze(1) * b


@numeric("linalg.vecdot", complex=True)
def vecdot(x: Any, y: Any, dim: int) -> Any:
    return ((x.conj().resolve_conj() if x.is_complex() else x) * y).sum(dim)


def _plus(x: Any, product: Any, beta: Any, alpha: Any) -> Any:
    """Return beta * x + alpha * product. With beta=0, x is ignored, including its NaN."""
    product = product * alpha if alpha != 1 else product
    if beta == 0:
        return product
    return (x * beta if beta != 1 else x) + product


@numeric("addmm", complex=True)
def addmm(x: Any, a: Any, b: Any, out_dtype: Any, beta: Any, alpha: Any) -> Any:
    return _plus(x, mt.mm(a, b, out_dtype), beta, alpha)


@numeric("baddbmm", complex=True)
def baddbmm(x: Any, a: Any, b: Any, out_dtype: Any, beta: Any, alpha: Any) -> Any:
    return _plus(x, mt.bmm(a, b, out_dtype), beta, alpha)


@numeric("addbmm", complex=True)
def addbmm(x: Any, a: Any, b: Any, beta: Any, alpha: Any) -> Any:
    return _plus(x, mt.bmm(a, b).sum(0, dtype=x.dtype), beta, alpha)


@numeric("addmv", complex=True)
def addmv(x: Any, a: Any, b: Any, beta: Any, alpha: Any) -> Any:
    return _plus(x, mt.mv(a, b), beta, alpha)


@numeric("addr", complex=True)
def addr(x: Any, a: Any, b: Any, beta: Any, alpha: Any) -> Any:
    return _plus(x, mt.outer(a, b), beta, alpha)


@numeric("nn.functional.linear", complex=True)
def linear(x: Any, weight: Any, bias: Any) -> Any:
    out = x @ weight.T if weight.dim() == 2 else x @ weight
    return out if bias is None else out + bias


@numeric("nn.functional.bilinear", complex=True)
def bilinear(x1: Any, x2: Any, weight: Any, bias: Any) -> Any:
    outputs, first, second = weight.shape
    mixed = (x1.unsqueeze(-1) * x2.unsqueeze(-2)).reshape(*x1.shape[:-1], first * second)
    out = mixed @ weight.reshape(outputs, first * second).T
    return out if bias is None else out + bias


@decomposition("_grouped_mm")
def grouped_mm(input: Any, mat2: Any, offs: Any = None, bias: Any = None, out_dtype: Any = None) -> Any:
    """Compute one product per group. Rows and columns outside all groups are 0."""
    if offs is None:
        return input @ mat2
    ends = offs.tolist()
    spans = list(zip([0, *ends[:-1]], ends, strict=True))
    if input.dim() == mat2.dim():
        return mt.stack([input[:, start:end] @ mat2[start:end] for start, end in spans])
    out = input.new_zeros((input.shape[-2], mat2.shape[-1]))
    for group, (start, end) in enumerate(spans):
        if input.dim() == 2:
            out[start:end] = input[start:end] @ mat2[group]
        else:
            out[:, start:end] = input[group] @ mat2[:, start:end]
    return out


@numeric("nn.functional.scaled_dot_product_attention")
def attention(query: Any, key: Any, value: Any, mask: Any, dropout: float, causal: bool, scale: Any, gqa: bool, generator: Any) -> Any:
    if dropout > 0:
        raise NotImplementedError("scaled_dot_product_attention: dropout of attention weights requires a kernel of the "
                                  "device")
    if gqa:
        key, value = (x.repeat_interleave(query.shape[-3] // x.shape[-3], -3) for x in (key, value))
    scale = (query.shape[-1] ** -0.5 if query.shape[-1] else float("inf")) if scale is None else scale
    weights = (query * scale) @ key.transpose(-2, -1)
    if causal:
        lower = mt.ones(weights.shape[-2:], dtype=mt.bool, device=query.device).tril()
        weights = weights.masked_fill(~lower, float("-inf"))
    if mask is not None:
        weights = weights.masked_fill(~mask, float("-inf")) if mask.dtype is mt.bool else weights + mask
    if not causal and mask is None:
        return mt.softmax(weights, -1) @ value
    blocked = (weights == float("-inf")).all(-1, True)  # the result is 0 if all keys are masked out
    return mt.where(blocked, 0.0, mt.softmax(weights, -1)) @ value
