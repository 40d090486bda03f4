"""Views with reordered dimensions, and views of complex tensors."""
import warnings

from libc.string cimport memset
from metatensor._core.dtype cimport to_complex, to_real
from metatensor._core.layout cimport Layout, mul_dims, preserve_strides
from metatensor._core.op cimport (
    COMPOSITE, FUNCTION_ONLY, INPLACE, METHOD_ONLY, PROPERTY, VIEW, Call, alias_op, call, define, dim_arg, dims_arg,
    find, op_name, tensor_arg, wrap,
)
from metatensor._core.slots cimport type_set
from metatensor._core.tensor cimport Tensor, alias, shape_str
from metatensor._core.thread cimport hints, thread_state
from metatensor._core.types cimport KIND_COMPLEX, MAX_DIMS, T_CONJ, T_NEG, T_REQUIRES_GRAD, dim_t
from metatensor.ops.view cimport dims_tuple, drop_dim, read_layout, view_of
from metatensor._core.gradient_parts import inverse_order
from metatensor._core.gradients import gradient, ops


# Parts of gradients ---------------------------------------------------------------------------------

def _transposed_name(input):
    return "ConjBackward0" if input.is_complex() else "TransposeBackward0"


cdef Tensor permuted(Tensor t, const int* order):
    """Return a view whose dimension i is dimension order[i] of `t`."""
    cdef Layout lay
    cdef int i
    lay.ndim = t.ndim
    lay.offset = t.offset
    for i in range(t.ndim):
        lay.sizes[i] = t.sizes[order[i]]
        lay.strides[i] = t.strides[order[i]]
    return view_of(t, &lay)


cdef Tensor swapped(Tensor t, int a, int b):
    """Return a view with dimensions `a` and `b` exchanged."""
    cdef Layout lay
    if a == b:
        return alias(t)
    read_layout(t, &lay)
    lay.sizes[a], lay.sizes[b] = t.sizes[b], t.sizes[a]
    lay.strides[a], lay.strides[b] = t.strides[b], t.strides[a]
    return view_of(t, &lay)


cdef object permute_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t dims[MAX_DIMS]
    cdef int order[MAX_DIMS]
    cdef int n = dims_arg(c, 1, dims), i, d
    cdef bint seen[MAX_DIMS]
    memset(seen, 0, n * sizeof(bint))
    if n != t.ndim:
        raise RuntimeError(f"{op_name(c)}(): {n} dimensions were given for a tensor of shape {shape_str(t)}, which has {t.ndim}")
    for i in range(n):
        d = wrap(c, dims[i], n)
        if seen[d]:
            raise RuntimeError(f"{op_name(c)}(): dimension {d} appears twice in {[dims[k] for k in range(n)]}")
        seen[d] = True
        order[i] = d
    return permuted(t, order)


cdef object transpose_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    return swapped(t, dim_arg(c, 1, t.ndim), dim_arg(c, 2, t.ndim))


cdef object t_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    if t.ndim > 2:
        raise RuntimeError(f"{op_name(c)}(): at most 2 dimensions are allowed, got shape {shape_str(t)}")
    return alias(t) if t.ndim < 2 else swapped(t, 0, 1)


cdef object reverse_meta(Call* c):
    """Return Tensor.T, with all dimensions reversed. Warn unless `t` is 0-d or a matrix, as PyTorch does."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef int order[MAX_DIMS]
    cdef int i
    if t.ndim == 2:
        return swapped(t, 0, 1)
    if t.ndim:
        warnings.warn("T on a tensor that is not a matrix is deprecated: use mT for batches of matrices, or permute()",
                      UserWarning, stacklevel=2)
    for i in range(t.ndim):
        order[i] = t.ndim - 1 - i
    return permuted(t, order)


cdef inline Tensor _flip_conj(Tensor view):
    if view.dtype.kind == KIND_COMPLEX:
        view.flags ^= T_CONJ
    return view


cdef inline Tensor _last_two(Call* c, Tensor t):
    if t.ndim == 1:
        raise RuntimeError(f"{op_name(c)}(): a matrix or a batch of matrices is needed, got shape {shape_str(t)}")
    return alias(t) if t.ndim == 0 else swapped(t, t.ndim - 2, t.ndim - 1)


cdef object matrix_meta(Call* c):
    return _last_two(c, tensor_arg(c, 0))


cdef object adjoint_meta(Call* c):
    return _flip_conj(_last_two(c, tensor_arg(c, 0)))


cdef object h_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    if t.ndim != 2 and t.ndim != 0:
        raise RuntimeError(f"H: a matrix is needed, got shape {shape_str(t)}; use mH for batches of matrices")
    return _flip_conj(alias(t) if t.ndim == 0 else swapped(t, 0, 1))


cdef object _move(Call* c, Tensor t, int n, dim_t* source, dim_t* to):
    cdef int order[MAX_DIMS]
    cdef int i, d, k = 0
    cdef bint from_seen[MAX_DIMS]
    cdef bint to_seen[MAX_DIMS]
    memset(from_seen, 0, sizeof(from_seen))
    memset(to_seen, 0, sizeof(to_seen))
    for i in range(n):
        source[i] = wrap(c, source[i], t.ndim)
        to[i] = wrap(c, to[i], t.ndim)
        if from_seen[source[i]] or to_seen[to[i]]:
            raise RuntimeError(f"{op_name(c)}(): a dimension appears twice in source or destination")
        from_seen[source[i]] = to_seen[to[i]] = True
    if t.ndim == 0:
        return alias(t)
    for i in range(n):
        order[to[i]] = <int>source[i]
    for d in range(t.ndim):
        if to_seen[d]:
            continue
        while from_seen[k]:
            k += 1
        order[d] = k
        k += 1
    return permuted(t, order)


cdef object movedim_meta(Call* c):
    cdef dim_t source[MAX_DIMS]
    cdef dim_t to[MAX_DIMS]
    cdef int n = dims_arg(c, 1, source)
    if dims_arg(c, 2, to) != n:
        raise RuntimeError(f"{op_name(c)}(): source and destination must have the same length")
    return _move(c, tensor_arg(c, 0), n, source, to)


define("permute(Tensor(a) input, int[] dims) -> Tensor", permute_meta, VIEW,
       "View with the dimensions in the order `dims`.")
gradient("permute", input=lambda grad, dims: grad.permute(inverse_order(dims)))
define("transpose(Tensor(a) input, int dim0, int dim1) -> Tensor", transpose_meta, VIEW | INPLACE,
       "View with dimensions `dim0` and `dim1` exchanged.")
gradient("transpose", in_place="TransposeBackward1", input=lambda grad, dim0, dim1: grad.transpose(dim0, dim1))
alias_op("swapdims", "transpose")
define("swapaxes(Tensor(a) input, int axis0, int axis1) -> Tensor", transpose_meta, VIEW | INPLACE,
       "`transpose` with NumPy's argument names.")
gradient("swapaxes", node="TransposeBackward0", in_place="TransposeBackward1",
         input=lambda grad, axis0, axis1: grad.transpose(axis0, axis1))
define("t(Tensor(a) input) -> Tensor", t_meta, VIEW | INPLACE,
       "Transpose of a matrix, as a view. A tensor of 0 or 1 dimensions is returned unchanged. More than 2 dimensions "
       "are not supported.")
gradient("t", in_place="TBackward1", input=lambda grad: grad.t())
define("T(Tensor(a) input) -> Tensor", reverse_meta, VIEW | PROPERTY,
       "View with the dimensions in reverse order. Deprecated unless the tensor has 0 or 2 dimensions.")
gradient("T", node="PermuteBackward0",
         input=lambda grad: grad.permute(tuple(range(grad.ndim))[::-1]))
define("mT(Tensor(a) input) -> Tensor", matrix_meta, VIEW | PROPERTY, "View with the last two dimensions exchanged.")
gradient("mT", node="TransposeBackward0", input=lambda grad: grad.mT)
define("H(Tensor(a) input) -> Tensor", h_meta, VIEW | PROPERTY, "Conjugate transpose of a matrix, as a view.")
gradient("H", node=lambda input: _transposed_name(input), input=lambda grad: grad.H)
define("mH(Tensor(a) input) -> Tensor", adjoint_meta, VIEW | PROPERTY,
       "Conjugate transpose of each matrix in the last two dimensions, as a view.")
gradient("mH", node=lambda input: _transposed_name(input), input=lambda grad: grad.mH)
define("adjoint(Tensor(a) input) -> Tensor", adjoint_meta, VIEW,
       "Conjugate transpose of each matrix in the last two dimensions, as a view.")
gradient("adjoint", node=lambda input: _transposed_name(input), input=lambda grad: grad.mH)
define("movedim(Tensor(a) input, int[1] source, int[1] destination) -> Tensor", movedim_meta, VIEW,
       "View with the dimensions `source` moved to the positions `destination`. The other dimensions keep their order.")
gradient("movedim", node="PermuteBackward0", input=lambda grad, source, destination: grad.movedim(destination, source))
alias_op("moveaxis", "movedim")


# Complex views ------------------------------------------------------------------------------

cdef object conj_view(Call* c):
    return _flip_conj(alias(tensor_arg(c, 0)))


cdef object neg_view(Call* c):
    cdef Tensor view = alias(tensor_arg(c, 0))
    view.flags ^= T_NEG
    return view


cdef object conj_body(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    return call("_conj", (t,)) if t.dtype.kind == KIND_COMPLEX else t


cdef object resolve_body(Call* c):
    """Materialize a conjugate (or negative) view with the strides of a clone. Return other tensors unchanged."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef bint conj = op_name(c) == "resolve_conj"
    cdef dim_t strides[MAX_DIMS]
    if not t.flags & (T_CONJ if conj else T_NEG):
        return t
    if hints.duals or (t.flags & T_REQUIRES_GRAD and thread_state().grad_enabled):      # out= does not record gradients
        return call("conj_physical", (call("_conj", (t,)),)) if conj else call("neg", (call("_neg_view", (t,)),))
    preserve_strides(t.ndim, t.sizes, t.strides, strides)
    out = call("empty_strided", (t.shape, dims_tuple(t.ndim, strides)), {"dtype": t.dtype, "device": t.storage.device})
    if conj:
        return call("conj_physical", (call("_conj", (t,)),), {"out": out})
    return call("neg", (call("_neg_view", (t,)),), {"out": out})


cdef object view_as_real_meta(Call* c):
    """Return a real view whose last dimension, of size 2, holds the real and imaginary parts."""
    cdef Tensor t = tensor_arg(c, 0), view
    cdef Layout lay
    if t.dtype.kind != KIND_COMPLEX:
        raise RuntimeError(f"{op_name(c)}(): a complex tensor is needed, got {t.dtype.name}")
    if t.flags & T_CONJ:
        raise RuntimeError(f"{op_name(c)}(): conjugate views are not supported; call resolve_conj() first")
    _pairs(t, &lay)
    view = view_of(t, &lay)
    view.dtype = to_real(t.dtype)
    return view


cdef int _pairs(Tensor t, Layout* lay) except -1:
    """Fill in the layout of a complex tensor in units of its real dtype, with a last dimension of size 2."""
    cdef int i
    if t.ndim >= MAX_DIMS:
        raise RuntimeError(f"at most {MAX_DIMS} dimensions are supported")
    read_layout(t, lay)
    for i in range(t.ndim):
        lay.strides[i] = mul_dims(lay.strides[i], 2)
    lay.offset = mul_dims(lay.offset, 2)
    lay.sizes[t.ndim] = 2
    lay.strides[t.ndim] = 1
    lay.ndim += 1
    return 0


cdef object view_as_complex_meta(Call* c):
    """Return a complex view of a tensor whose last dimension, of size 2 and stride 1, holds real and imaginary
    parts."""
    cdef Tensor t = tensor_arg(c, 0), view
    cdef Layout lay
    cdef int i, last = t.ndim - 1
    if t.dtype.name not in ("float16", "float32", "float64"):
        raise RuntimeError(f"{op_name(c)}(): float16, float32 or float64 is needed, got {t.dtype.name}")
    if t.ndim == 0 or t.sizes[last] != 2 or t.strides[last] != 1:
        raise RuntimeError(f"{op_name(c)}(): a last dimension of size 2 and stride 1 is needed, got shape {shape_str(t)}")
    read_layout(t, &lay)
    drop_dim(&lay, last)
    for i in range(last):
        if lay.strides[i] % 2:
            raise RuntimeError(f"{op_name(c)}(): the stride of dimension {i}, {lay.strides[i]}, must be even")
        lay.strides[i] //= 2
    if lay.offset % 2:
        raise RuntimeError(f"{op_name(c)}(): the storage offset, {lay.offset}, must be even")
    lay.offset //= 2
    view = view_of(t, &lay)
    view.dtype = to_complex(t.dtype)
    return view


cdef object part_view(Call* c):
    """Return a view of the real part (`_real`) or imaginary part (`_imag`) of a complex tensor."""
    cdef Tensor t = tensor_arg(c, 0), view
    cdef Layout lay
    cdef bint imaginary = op_name(c) == "_imag"
    if t.dtype.kind != KIND_COMPLEX:        # a view of a real tensor would reach beyond the storage
        raise RuntimeError(f"{op_name(c)}(): a complex tensor is needed, got {t.dtype.name}")
    _pairs(t, &lay)
    lay.ndim -= 1
    if imaginary:
        lay.offset += 1
    view = view_of(t, &lay)
    view.dtype = to_real(t.dtype)
    if view.flags & T_CONJ:
        view.flags ^= T_CONJ
        if imaginary:
            view.flags ^= T_NEG
    return view


cdef object real_body(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    return call("_real", (t,)) if t.dtype.kind == KIND_COMPLEX else t


cdef object imag_body(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    if t.dtype.kind != KIND_COMPLEX:
        raise RuntimeError(f"{op_name(c)}(): a complex tensor is needed, got {t.dtype.name}")
    return call("_imag", (t,))


define("_conj(Tensor(a) input) -> Tensor", conj_view, VIEW, "View that conjugates elements when they are read.")
gradient("_conj", input=lambda grad: grad.conj())
define("_neg_view(Tensor(a) input) -> Tensor", neg_view, VIEW, "View that negates elements when they are read.")
gradient("_neg_view", input=lambda grad: grad.neg())
define("conj(Tensor(a) input) -> Tensor", conj_body, COMPOSITE,
       "Complex conjugate, as a view. A real tensor is returned unchanged.")
define("resolve_conj(Tensor(a) input) -> Tensor", resolve_body, COMPOSITE,
       "Copy that stores the conjugated values if `input` is a conjugate view, else `input` itself.")
define("resolve_neg(Tensor(a) input) -> Tensor", resolve_body, COMPOSITE,
       "Copy that stores the negated values if `input` is a negative view, else `input` itself.")
define("view_as_real(Tensor(a) input) -> Tensor", view_as_real_meta, VIEW | FUNCTION_ONLY,
       "Real view of a complex tensor: shape (*input.shape, 2), with the real and imaginary parts in the last "
       "dimension.")
gradient("view_as_real", input=lambda grad: ops.view_as_complex(grad.contiguous()))
define("view_as_complex(Tensor(a) input) -> Tensor", view_as_complex_meta, VIEW | FUNCTION_ONLY,
       "Complex view of a float16, float32 or float64 tensor. Its last dimension, of size 2 and stride 1, must hold "
       "the real and imaginary parts.")
gradient("view_as_complex", input=lambda grad: ops.view_as_real(grad.resolve_conj()))
define("_real(Tensor(a) input) -> Tensor", part_view, VIEW | FUNCTION_ONLY | METHOD_ONLY)
gradient("_real", node="SelectBackward0", input=lambda grad: grad)
define("_imag(Tensor(a) input) -> Tensor", part_view, VIEW | FUNCTION_ONLY | METHOD_ONLY)
gradient("_imag", node="SelectBackward0", input=lambda grad: ops.complex(ops.zeros_like(grad), grad))
define("real(Tensor(a) input) -> Tensor", real_body, COMPOSITE | FUNCTION_ONLY,
       "Real part, as a view. A real tensor is returned unchanged.")
define("imag(Tensor(a) input) -> Tensor", imag_body, COMPOSITE | FUNCTION_ONLY,
       "Imaginary part of a complex tensor, as a view. Real tensors are not supported.")


def _write(part, value):
    """Write a tensor or a number into one part of a complex tensor."""
    part.copy_(value) if isinstance(value, Tensor) else part.fill_(value)


def _set_real(tensor, value):
    _write(tensor.real, value)


def _set_imag(tensor, value):
    _write(tensor.imag, value)


type_set(Tensor, "real", property(find("real"), _set_real, None, "The real part, as a view."))
type_set(Tensor, "imag", property(find("imag"), _set_imag, None, "The imaginary part, as a view."))
