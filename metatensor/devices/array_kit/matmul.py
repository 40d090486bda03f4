"""Kernels of matrix products. All use the array library's matmul. Half dtypes arrive as float32."""

from __future__ import annotations

import math
from typing import Any

from metatensor.devices.array_kit.registry import kernel

FEW_ROWS = 32


def product(xp: Any, a: Any, b: Any, out: Any = None) -> Any:
    """Return ``a @ b``, in ``out`` if dtype and layout allow it. Compute a batch times one matrix as one product.

    A batch of matrices of few rows is copied for that if it is not contiguous: many small products take longer.
    """
    fits = out is not None and out.ndim and out.dtype == a.dtype == b.dtype
    if a.ndim > 2 and b.ndim == 2 and (a.flags.c_contiguous or a.shape[-2] < FEW_ROWS) and a.size and b.size:
        flat = a.reshape(-1, a.shape[-1])
        if fits and out.flags.c_contiguous:
            xp.matmul(flat, b, out=out.reshape(-1, b.shape[-1]))
            return out
        return xp.matmul(flat, b).reshape((*a.shape[:-1], b.shape[-1]))
    return xp.matmul(a, b, out=out) if fits else xp.matmul(a, b)


@kernel("matmul", "mv", "dot")
def matmul(kit: Any, out: Any, input: Any, other: Any) -> Any:
    return product(kit.xp, input, other, out)


@kernel("mm", "bmm")
def mm(kit: Any, out: Any, input: Any, mat2: Any, out_dtype: Any) -> Any:
    return product(kit.xp, input, mat2, out)


@kernel("_int_mm")
def int_mm(kit: Any, out: Any, input: Any, mat2: Any) -> Any:
    return kit.xp.matmul(input.astype(out.dtype), mat2.astype(out.dtype))


@kernel("_scaled_mm")
def scaled_mm(
    kit: Any, out: Any, input: Any, mat2: Any, scale_a: Any, scale_b: Any, bias: Any, scale_result: Any, out_dtype: Any,
    use_fast_accum: bool,
) -> Any:  # fmt: skip
    result = kit.xp.matmul(input * scale_a, mat2 * scale_b)
    if bias is not None:
        result = result + bias
    return result if scale_result is None else result * scale_result


@kernel("vdot")
def vdot(kit: Any, out: Any, input: Any, other: Any) -> Any:
    return kit.xp.matmul(kit.xp.conj(input), other)


@kernel("linalg.vecdot")
def vecdot(kit: Any, out: Any, x: Any, y: Any, dim: int) -> Any:
    xp = kit.xp
    x, y = xp.broadcast_arrays(x, y)
    if not x.ndim:
        return xp.conj(x) * y
    x, y = xp.moveaxis(xp.conj(x), dim, -1), xp.moveaxis(y, dim, -1)
    return xp.matmul(x[..., None, :], y[..., :, None]).reshape(out.shape)


@kernel("outer")
def outer(kit: Any, out: Any, input: Any, vec2: Any) -> Any:
    return kit.xp.multiply(input[:, None], vec2[None, :], dtype=out.dtype)


# Products added to something --------------------------------------------------------------


def added(xp: Any, out: Any, input: Any, result: Any, beta: Any, alpha: Any) -> Any:
    """Return beta * input + alpha * result. If beta is 0, NaN in ``input`` does not propagate."""
    if out.dtype.kind in "iu":
        beta, alpha = int(beta), int(alpha)
    if alpha != 1:
        result = result * alpha
    if beta == 0:
        return xp.broadcast_to(result, out.shape)
    return result + (input if beta == 1 else input * beta)


@kernel("addmm", "baddbmm")
def addmm(kit: Any, out: Any, input: Any, mat1: Any, mat2: Any, out_dtype: Any, beta: Any, alpha: Any) -> Any:
    return added(kit.xp, out, input, product(kit.xp, mat1, mat2), beta, alpha)


@kernel("addmv")
def addmv(kit: Any, out: Any, input: Any, mat: Any, vec: Any, beta: Any, alpha: Any) -> Any:
    return added(kit.xp, out, input, kit.xp.matmul(mat, vec), beta, alpha)


@kernel("addr")
def addr(kit: Any, out: Any, input: Any, vec1: Any, vec2: Any, beta: Any, alpha: Any) -> Any:
    input, vec1, vec2 = (x.astype(out.dtype, copy=False) for x in (input, vec1, vec2))
    result = kit.xp.multiply(vec1[:, None], vec2[None, :])
    if out.dtype.kind == "b":
        return result & bool(alpha) | (input & bool(beta))
    return added(kit.xp, out, input, result, beta, alpha)


@kernel("addbmm")
def addbmm(kit: Any, out: Any, input: Any, batch1: Any, batch2: Any, beta: Any, alpha: Any) -> Any:
    """Compute the sum over the batch as a single product of matrices placed side by side."""
    xp = kit.xp
    length = batch1.shape[0] * batch1.shape[2]
    left = xp.moveaxis(batch1, 0, 1).reshape(batch1.shape[1], length)
    return added(xp, out, input, xp.matmul(left, batch2.reshape(length, batch2.shape[2])), beta, alpha)


# Layers --------------------------------------------------------------------------------------


@kernel("nn.functional.linear")
def linear(kit: Any, out: Any, input: Any, weight: Any, bias: Any) -> Any:
    result = product(kit.xp, input, weight.T, out)
    if bias is None:
        return result
    if result is out:
        out += bias
        return None
    return result + bias


@kernel("nn.functional.bilinear")
def bilinear(kit: Any, out: Any, input1: Any, input2: Any, weight: Any, bias: Any) -> Any:
    xp = kit.xp
    rows = math.prod(input1.shape[:-1])
    left, right = input1.reshape(rows, input1.shape[-1]), input2.reshape(rows, input2.shape[-1])
    # Shape (out_features, rows, in2_features): first input times each weight, then the dot product with the second.
    result = xp.sum(xp.matmul(left, weight) * right, axis=-1).T.reshape(out.shape)
    return result if bias is None else result + bias
