"""Gradients of matrix products, and products as they are recorded."""

from __future__ import annotations

import math
from typing import Any

import metatensor as mt
from metatensor._core.gradient_parts import conj, times
from metatensor._core.gradients import ops

__all__ = []


def _column_major(s: Any) -> bool:
    return s.strides[0] == 1 and s.strides[1] == s.shape[0]


def mm_left(grad: Any, mat2: Any, layout: Any) -> Any:
    """Gradient of the left factor, in its layout if that is column-major."""
    if _column_major(layout):
        return conj(mat2).mm(grad.t()).t()
    return grad.mm(conj(mat2.t()))


def mm_right(grad: Any, mat1: Any, layout: Any) -> Any:
    """Gradient of the right factor, in its layout if that is column-major."""
    if _column_major(layout):
        return grad.t().mm(conj(mat1)).t()
    return conj(mat1.t()).mm(grad)


def mm_input(grad: Any, mat2: Any, input_layout: Any) -> Any:
    return mm_left(grad, mat2, input_layout)


def mm_mat2(grad: Any, input: Any, mat2_layout: Any) -> Any:
    return mm_right(grad, input, mat2_layout)


def addmm_mat1(grad: Any, mat2: Any, mat1_layout: Any, alpha: Any) -> Any:
    return times(mm_left(grad, mat2, mat1_layout), alpha)


def addmm_mat2(grad: Any, mat1: Any, mat2_layout: Any, alpha: Any) -> Any:
    return times(mm_right(grad, mat1, mat2_layout), alpha)


# Affine maps ----------------------------------------------------------------------------------


def linear_node(input: Any, weight: Any, bias: Any) -> str:
    """Name the last operator of the composition that PyTorch records."""
    if weight.dim() == 1:
        return "SqueezeBackward4" if bias is None and input.dim() == 1 else "MvBackward0"
    if input.dim() == 2:
        return "MmBackward0" if bias is None else "AddmmBackward0"
    if input.dim() == 1:
        return "SqueezeBackward4" if bias is None else "ViewBackward0"
    return "UnsafeViewBackward0" if bias is None else "ViewBackward0"


def linear_input(grad: Any, weight: Any) -> Any:
    if weight.dim() == 1:
        return grad.unsqueeze(-1) * conj(weight)
    return grad.matmul(conj(weight))


def linear_weight(grad: Any, input: Any, weight_meta: Any) -> Any:
    flat = input.reshape(math.prod(input.shape[:-1]), input.shape[-1])
    if len(weight_meta.shape) == 1:
        return conj(flat.t()).mv(grad.reshape(-1))
    return grad.reshape(flat.shape[0], weight_meta.shape[0]).t().mm(conj(flat))


def linear(input: Any, weight: Any, bias: Any) -> Any:
    """Multiply, then add. This is for an input or weight that is not contiguous."""
    if weight.dim() != 2:
        return NotImplemented
    if bias is not None and bias.dim() == 1 and (input.dim() < 3 or input.is_contiguous()):
        sum = ops.addmm(bias, input if input.dim() == 2 else input.view(-1, input.shape[-1]), weight.t())
        return sum if input.dim() == 2 else sum.view(*input.shape[:-1], sum.shape[-1])
    product = matmul(input, weight.t())
    return product if bias is None else product.add_(bias)


def bilinear_first(grad: Any, input1_layout: Any, input2: Any, weight: Any) -> Any:
    """Gradient of ``result[..., m] = input1 @ weight[m] @ input2 + bias[m]`` for input1."""
    m, n, k = weight.shape
    mixed = grad.reshape(-1, m).mm(conj(weight).reshape(m, n * k)).reshape(-1, n, k)
    return mixed.matmul(conj(input2).reshape(-1, k, 1)).reshape(input1_layout.shape)


def bilinear_second(grad: Any, input1: Any, input2_layout: Any, weight: Any) -> Any:
    m, n, k = weight.shape
    mixed = grad.reshape(-1, m).mm(conj(weight).reshape(m, n * k)).reshape(-1, n, k)
    return conj(input1).reshape(-1, 1, n).matmul(mixed).reshape(input2_layout.shape)


def bilinear_weight(grad: Any, input1: Any, input2: Any, weight_layout: Any) -> Any:
    m, n, k = weight_layout.shape
    pairs = (conj(input1).reshape(-1, n, 1) * conj(input2).reshape(-1, 1, k)).reshape(-1, n * k)
    return grad.reshape(-1, m).t().mm(pairs).reshape(m, n, k)


# Compositions -----------------------------------------------------------------------------------


def _folds(large: Any, small: Any) -> bool:
    """Whether a product of many dimensions and at most two is computed as one product of matrices."""
    if small.requires_grad or not large.numel():
        return True
    shape, strides = large.shape, large.stride()
    return all(strides[i] == strides[i + 1] * shape[i + 1] for i in range(large.dim() - 2))


def matmul(input: Any, other: Any) -> Any:
    a, b = input.dim(), other.dim()
    if a == 1 and b == 1:
        return ops.dot(input, other)
    if a == 2 and b == 1:
        return ops.mv(input, other)
    if a == 1 and b == 2:
        return input.unsqueeze(0).mm(other).squeeze_(0)
    if a == 2 and b == 2:
        return ops.mm(input, other)
    if a >= 3 and b <= 2 and _folds(input, other):
        return _folded(input, other)
    if b >= 3 and a <= 2 and (a == 1 or input.requires_grad) and _folds(other.transpose(-1, -2), input):
        result = _folded(other.transpose(-1, -2), input.t() if a == 2 else input)
        return result.transpose(-1, -2).contiguous() if a == 2 else result
    left, right = input.unsqueeze(0) if a == 1 else input, other.unsqueeze(-1) if b == 1 else other
    batch = mt.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    product = _batches(left, batch).bmm(_batches(right, batch))
    shape = [*batch, *([] if a == 1 else [left.shape[-2]]), *([] if b == 1 else [right.shape[-1]])]
    return ops._unsafe_view(product, shape)


def _folded(large: Any, small: Any) -> Any:
    shape = large.shape[:-1]
    flat = large.reshape(math.prod(shape), large.shape[-1])
    if small.dim() == 1:
        return ops._unsafe_view(flat.mv(small), shape)
    return ops._unsafe_view(flat.mm(small), (*shape, small.shape[-1]))


def _batches(t: Any, batch: Any) -> Any:
    return t.expand(*batch, *t.shape[-2:]).reshape(math.prod(batch), *t.shape[-2:])


def outer(input: Any, vec2: Any) -> Any:
    return input.unsqueeze(-1) * vec2


def vecdot(x: Any, y: Any, dim: int) -> Any:
    if x.dim() == 1 and y.dim() == 1:
        return ops.vdot(x, y)
    return (conj(x) * y).sum(dim)
