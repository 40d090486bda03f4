"""Gradients of matrix products, and products composed of other operators.

The module is compiled, because models call these functions most often.
"""
from metatensor._core.layout cimport mul_dims
from metatensor._core.modes cimport python_modes
from metatensor._core.op cimport call
from metatensor._core.saved cimport Layout
from metatensor._core.size cimport make_tuple
from metatensor._core.tensor cimport Tensor
from metatensor._core.types cimport KIND_COMPLEX, MAX_DIMS, T_CONTIGUOUS, T_REQUIRES_GRAD, dim_t
from metatensor._core.gradient_parts import times
import metatensor as mt


cdef inline Tensor _conj(Tensor t):
    return <Tensor>call("conj", (t,)) if t.dtype.kind == KIND_COMPLEX else t


cdef inline Tensor _t(Tensor t):
    return <Tensor>call("t", (t,))


cdef inline Tensor _mm(Tensor a, Tensor b):
    return <Tensor>call("mm", (a, b))


cdef bint _column_major(Layout s) noexcept:
    return s.sizes[2] == 1 and s.sizes[3] == s.sizes[0]


def mm_input(Tensor grad, Tensor mat2, Layout input_layout):
    """Return the gradient of the left factor, column-major if the factor is."""
    if _column_major(input_layout):
        return _t(_mm(_conj(mat2), _t(grad)))
    return _mm(grad, _conj(_t(mat2)))


def mm_mat2(Tensor grad, Tensor input, Layout mat2_layout):
    """Return the gradient of the right factor, column-major if the factor is."""
    if _column_major(mat2_layout):
        return _t(_mm(_t(grad), _conj(input)))
    return _mm(_conj(_t(input)), grad)


def addmm_mat1(grad, mat2, mat1_layout, alpha):
    return times(mm_input(grad, mat2, mat1_layout), alpha)


def addmm_mat2(grad, mat1, mat2_layout, alpha):
    return times(mm_mat2(grad, mat1, mat2_layout), alpha)


# Affine maps ----------------------------------------------------------------------------------

def linear_node(Tensor input, Tensor weight, bias):
    """Return the node name of the last operator that PyTorch records for `linear`."""
    if weight.ndim == 1:
        return "SqueezeBackward4" if bias is None and input.ndim == 1 else "MvBackward0"
    if input.ndim == 2:
        return "MmBackward0" if bias is None else "AddmmBackward0"
    if input.ndim == 1:
        return "SqueezeBackward4" if bias is None else "ViewBackward0"
    return "UnsafeViewBackward0" if bias is None else "ViewBackward0"


def linear_input(Tensor grad, Tensor weight):
    if weight.ndim == 1:
        return call("mul", (call("unsqueeze", (grad, -1)), _conj(weight)))
    return call("matmul", (grad, _conj(weight)))


cdef Tensor _rows(Tensor t):
    """Return the tensor as a matrix whose rows run along its last dimension."""
    cdef dim_t rows = 1
    cdef int i
    if t.ndim == 2:
        return t
    for i in range(t.ndim - 1):
        rows = mul_dims(rows, t.sizes[i])
    return <Tensor>call("reshape", (t, (rows, t.sizes[t.ndim - 1])))


def linear_weight(Tensor grad, Tensor input, weight_meta):
    cdef Tensor flat = _rows(input)
    if len(weight_meta.shape) == 1:
        return call("mv", (_conj(_t(flat)), call("reshape", (grad, (-1,)))))
    if grad.ndim != 2:
        grad = <Tensor>call("reshape", (grad, (flat.sizes[0], weight_meta.shape[0])))
    return _mm(_t(grad), _conj(flat))


def linear(Tensor input, Tensor weight, bias):
    """Compute `linear` as a product and a sum, for a non-contiguous input or weight."""
    cdef Tensor total
    if weight.ndim != 2:
        return NotImplemented
    if bias is not None and (<Tensor?>bias).ndim == 1 and (input.ndim < 3 or input.flags & T_CONTIGUOUS):
        total = <Tensor>call("addmm", (bias, _rows(input) if input.ndim != 2 else input, _t(weight)))
        if input.ndim == 2:
            return total
        return call("view", (total, input.shape[:input.ndim - 1] + (total.sizes[1],)))
    product = matmul(input, _t(weight))
    if bias is None:
        return product
    # A mode may keep the product, as selective checkpointing does. For such modes PyTorch adds out of place, too.
    return call("add" if python_modes() else "add_", (product, bias))


cdef object _mixed(grad, Tensor weight):
    """Return the products of the gradients, as rows, with the weight. The shape is (..., n, k) for a weight (m, n, k)."""
    cdef dim_t m = weight.sizes[0], n = weight.sizes[1], k = weight.sizes[2]
    return grad.reshape(-1, m).mm(_conj(weight).reshape(m, n * k)).reshape(-1, n, k)


def bilinear_first(grad, input1_layout, Tensor input2, Tensor weight):
    """Return the gradient of ``result[..., m] = input1 @ weight[m] @ input2 + bias[m]`` for `input1`."""
    return _mixed(grad, weight).matmul(_conj(input2).reshape(-1, weight.sizes[2], 1)).reshape(input1_layout.shape)


def bilinear_second(grad, Tensor input1, input2_layout, Tensor weight):
    return _conj(input1).reshape(-1, 1, weight.sizes[1]).matmul(_mixed(grad, weight)).reshape(input2_layout.shape)


def bilinear_weight(grad, Tensor input1, Tensor input2, weight_layout):
    m, n, k = weight_layout.shape
    pairs = (_conj(input1).reshape(-1, n, 1) * _conj(input2).reshape(-1, 1, k)).reshape(-1, n * k)
    return grad.reshape(-1, m).t().mm(pairs).reshape(m, n, k)


# Compositions -----------------------------------------------------------------------------------

cdef bint _folds(Tensor large, Tensor small) noexcept:
    """Return whether the product of a batch with a vector or matrix is computed as a single matrix product."""
    cdef int i
    if small.flags & T_REQUIRES_GRAD or not large.total:
        return True
    for i in range(large.ndim - 2):
        if large.strides[i] != large.strides[i + 1] * large.sizes[i + 1]:
            return False
    return True


def matmul(Tensor input, Tensor other):
    cdef int a = input.ndim, b = other.ndim
    cdef Tensor turned
    if a == 2 and b == 2:
        return _mm(input, other)
    if a == 1 and b == 1:
        return call("dot", (input, other))
    if a == 2 and b == 1:
        return call("mv", (input, other))
    if a == 1 and b == 2:
        return call("squeeze_", (_mm(<Tensor>call("unsqueeze", (input, 0)), other), 0))
    if a >= 3 and b <= 2 and _folds(input, other):
        return _folded(input, other)
    if b >= 3 and a <= 2 and (a == 1 or input.flags & T_REQUIRES_GRAD):
        turned = <Tensor>call("transpose", (other, -1, -2))
        if _folds(turned, input):
            result = _folded(turned, _t(input) if a == 2 else input)
            return call("contiguous", (call("transpose", (result, -1, -2)),)) if a == 2 else result
    return _batched(<Tensor>call("unsqueeze", (input, 0)) if a == 1 else input,
                    <Tensor>call("unsqueeze", (other, -1)) if b == 1 else other, a == 1, b == 1)


cdef object _folded(Tensor large, Tensor small):
    cdef dim_t shape[MAX_DIMS]
    cdef int i
    flat = _rows(large)
    for i in range(large.ndim - 1):
        shape[i] = large.sizes[i]
    if small.ndim == 1:
        return call("_unsafe_view", (call("mv", (flat, small)), make_tuple(large.ndim - 1, shape)))
    shape[large.ndim - 1] = small.sizes[1]
    return call("_unsafe_view", (_mm(flat, small), make_tuple(large.ndim, shape)))


cdef object _batched(Tensor left, Tensor right, bint row, bint column):
    """Return the product of stacks of matrices. `row` or `column` removes the dimension that was added to a vector."""
    cdef dim_t shape[MAX_DIMS]
    cdef dim_t members = 1
    cdef int i, n
    cdef bint same = left.ndim == right.ndim
    if same:
        for i in range(left.ndim - 2):
            same = same and left.sizes[i] == right.sizes[i]
    if same:
        n = left.ndim - 2
        for i in range(n):
            shape[i] = left.sizes[i]
    else:
        batch = mt.broadcast_shapes(make_tuple(left.ndim - 2, left.sizes), make_tuple(right.ndim - 2, right.sizes))
        n = <int>len(batch)
        for i in range(n):
            shape[i] = batch[i]
    for i in range(n):
        members = mul_dims(members, shape[i])
    product = call("bmm", (_stack(left, n, shape, members), _stack(right, n, shape, members)))
    if not row:
        shape[n] = left.sizes[left.ndim - 2]
        n += 1
    if not column:
        shape[n] = right.sizes[right.ndim - 1]
        n += 1
    return call("_unsafe_view", (product, make_tuple(n, shape)))


cdef object _stack(Tensor t, int n, const dim_t* batch, dim_t members):
    """Return a stack of matrices with a single batch dimension, expanded to the batch sizes `batch`."""
    cdef dim_t shape[MAX_DIMS]
    cdef int i
    for i in range(n):
        shape[i] = batch[i]
    shape[n] = t.sizes[t.ndim - 2]
    shape[n + 1] = t.sizes[t.ndim - 1]
    whole = call("expand", (t, make_tuple(n + 2, shape)))
    return call("reshape", (whole, (members, shape[n], shape[n + 1])))


def outer(input, vec2):
    return call("mul", (call("unsqueeze", (input, -1)), vec2))


def vecdot(Tensor x, Tensor y, int dim):
    if x.ndim == 1 and y.ndim == 1:
        return call("vdot", (x, y))
    return call("sum", (call("mul", (_conj(x), y)), dim))
