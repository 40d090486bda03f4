"""Sorting and order statistics. Results of sorting keep the input's order of strides. Other results are contiguous."""
from metatensor._core.device cimport META
from metatensor._core.dtype cimport F32, F64, I64, DType, by_code
from metatensor._core.layout cimport Layout, broadcast_into, copy_dims, row_major
from metatensor._core.op cimport (
    DATA, EXACT_OUT, NO_GRAD, NO_OVERLAP, NO_PARTIAL, OPTION_A, OUT, QUIET_OUT, Call, Overload, arg, bool_arg, define,
    dim_arg, float_arg, int_arg, is_none, make_returns, op_flags, op_name, result_device, tensor_arg,
)
from metatensor._core.size cimport make_size
from metatensor._core.tensor cimport Tensor, new_contiguous, new_strided, shape_str
from metatensor._core.types cimport KIND_BOOL, KIND_COMPLEX, MAX_DIMS, dim_t
from metatensor.ops.factory cimport fresh_like
from metatensor.ops.operands cimport refuse
from metatensor.ops.reduction cimport reduced_dim, require_nonempty, require_real

from metatensor._core import errors
from metatensor._core.gradient_parts import Bodies
from metatensor._core.gradients import gradient, recorded_as

_of = Bodies("reductions")


# Parts of gradients ---------------------------------------------------------------------------------

def _sorted_first(input):
    return input.sort(0).values if input.ndim else input.sort().values


def _quantile(input, q, dim, keepdim, interpolation):
    return _of.quantile(input, q, dim, keepdim, interpolation, False)


def _nanquantile(input, q, dim, keepdim, interpolation):
    return _of.quantile(input, q, dim, keepdim, interpolation, True)


cdef int require_sortable(Call* c, Tensor t) except -1:
    if t.dtype.kind == KIND_COMPLEX:
        raise RuntimeError(f"{op_name(c)}(): complex numbers have no order; input is {t.dtype.name}")
    return 0


# Sorting ----------------------------------------------------------------------------

cdef Tensor like_input(Call* c, Tensor t, DType dtype):
    """Return a new dense tensor with the input's sizes and order of strides."""
    return fresh_like(t, dtype, result_device(c))


cdef object sorted_pair(Call* c, int dim_slot):
    cdef Tensor t = tensor_arg(c, 0)
    dim_arg(c, dim_slot, t.ndim)
    require_sortable(c, t)
    return make_returns(c, (like_input(c, t, t.dtype), like_input(c, t, by_code(I64))))


cdef object sort_meta(Call* c):
    """Arguments: input, dim, descending."""
    return sorted_pair(c, 1)


cdef object sort_stable_meta(Call* c):
    """Arguments: input, stable, dim, descending."""
    return sorted_pair(c, 2)


cdef object argsort_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    dim_arg(c, 1, t.ndim)
    require_sortable(c, t)
    return like_input(c, t, by_code(I64))


cdef object argsort_stable_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    dim_arg(c, 2, t.ndim)
    require_sortable(c, t)
    return like_input(c, t, by_code(I64))


cdef object msort_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    require_sortable(c, t)
    return like_input(c, t, t.dtype)


cdef object topk_meta(Call* c):
    """Arguments: input, k, dim, largest, sorted."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t k = int_arg(c, 1), size
    cdef int dim = dim_arg(c, 2, t.ndim)
    cdef Layout lay
    require_sortable(c, t)
    if t.dtype.kind == KIND_BOOL:
        raise RuntimeError("topk(): bool input is not supported")
    size = t.sizes[dim] if t.ndim else 1
    if k < 0 or k > size:
        raise RuntimeError(f"topk(): k must be between 0 and {size}, the size of dimension {dim} of input "
                           f"{shape_str(t)}, got {k}")
    copy_dims(lay.sizes, t.sizes, t.ndim)
    if t.ndim:
        lay.sizes[dim] = k
    return make_returns(c, (new_contiguous(t.ndim, lay.sizes, t.dtype, result_device(c)),
                            new_contiguous(t.ndim, lay.sizes, by_code(I64), result_device(c))))


define("sort(Tensor input, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)", sort_meta,
       OUT | EXACT_OUT | NO_PARTIAL,
       "Sort along `dim`, ascending unless `descending`. Returns (values, int64 indices). Equal elements keep their "
       "order.")
gradient("sort", input=lambda grad, input_meta, dim, indices: _of.chosen(grad, input_meta.shape, dim, True, indices))
define("sort.stable(Tensor input, *, bool? stable, int dim=-1, bool descending=False) "
       "-> (Tensor values, Tensor indices)", sort_stable_meta, OUT | EXACT_OUT | NO_PARTIAL)
gradient("sort.stable", node="SortBackward1",
         input=lambda grad, input_meta, dim, indices: _of.chosen(grad, input_meta.shape, dim, True, indices))
define("argsort(Tensor input, int dim=-1, bool descending=False) -> Tensor", argsort_meta, OUT | NO_GRAD | EXACT_OUT,
       "Return the int64 indices that sort along `dim`.")
define("argsort.stable(Tensor input, *, bool stable, int dim=-1, bool descending=False) -> Tensor",
       argsort_stable_meta, OUT | NO_GRAD | EXACT_OUT)
define("msort(Tensor input) -> Tensor", msort_meta, OUT | EXACT_OUT | NO_PARTIAL, "Sort along the first dimension, ascending.")
recorded_as("msort", _sorted_first)
define("topk(Tensor input, int k, int dim=-1, bool largest=True, bool sorted=True) "
       "-> (Tensor values, Tensor indices)", topk_meta, OUT | EXACT_OUT,
       "Return the `k` largest elements along `dim`, or the smallest if not `largest`, in order, as (values, int64 "
       "indices).")
gradient("topk", input=lambda grad, input_meta, dim, indices: _of.chosen(grad, input_meta.shape, dim, True, indices))


# Order statistics -----------------------------------------------------------------------

cdef int require_number(Call* c, Tensor t) except -1:
    """Raise NotImplementedError for complex and bool tensors."""
    require_real(c, t)
    if t.dtype.kind == KIND_BOOL:
        refuse(c, t.dtype)
    return 0


cdef object selected(Call* c, Tensor t, int dim, bint keepdim):
    return make_returns(c, (reduced_dim(t, dim, keepdim, t.dtype, result_device(c)),
                            reduced_dim(t, dim, keepdim, by_code(I64), result_device(c))))


cdef object median_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    require_number(c, t)
    return new_contiguous(0, NULL, t.dtype, result_device(c))


cdef object median_dim_meta(Call* c):
    """Arguments: input, dim, keepdim."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef int dim = dim_arg(c, 1, t.ndim)
    require_nonempty(c, t, dim)
    if op_flags(c) & OPTION_A:
        require_real(c, t)
    else:
        require_number(c, t)
    return selected(c, t, dim, bool_arg(c, 2))


cdef object kthvalue_meta(Call* c):
    """Arguments: input, k, dim, keepdim."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t k = int_arg(c, 1), size
    cdef int dim = dim_arg(c, 2, t.ndim)
    require_nonempty(c, t, dim)
    require_number(c, t)
    size = t.sizes[dim] if t.ndim else 1
    if k < 1 or k > size:
        raise RuntimeError(f"kthvalue(): k must be between 1 and {size}, the size of dimension {dim} of input "
                           f"{shape_str(t)}, got {k}")
    return selected(c, t, dim, bool_arg(c, 3))


cdef object quantile_meta(Call* c):
    """Arguments: input, q, int? dim, keepdim, interpolation. The dimension of q comes first and has stride 1."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef Tensor q = None
    cdef dim_t sizes[MAX_DIMS]
    cdef dim_t strides[MAX_DIMS]
    cdef bint keepdim = bool_arg(c, 3)
    cdef int i, n = 0, dim = -1
    if t.total == 0:
        raise RuntimeError(f"{op_name(c)}(): input must not be empty, got shape {shape_str(t)}")
    if t.dtype.code != F32 and t.dtype.code != F64:
        raise RuntimeError(f"{op_name(c)}(): input must be float32 or float64, got {t.dtype.name}")
    if isinstance(arg(c, 1), Tensor):
        q = <Tensor>arg(c, 1)
        if q.ndim > 1:
            raise RuntimeError(f"{op_name(c)}(): q must be a number or have 1 dimension, got shape {shape_str(q)}")
        if q.dtype is not t.dtype:
            raise RuntimeError(f"{op_name(c)}(): q must have the dtype of input, {t.dtype.name}, got {q.dtype.name}")
    elif not 0 <= float_arg(c, 1) <= 1:
        raise RuntimeError(f"{op_name(c)}(): q must be between 0 and 1, got {arg(c, 1)}")
    if arg(c, 4) not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise RuntimeError(f"{op_name(c)}(): interpolation must be linear, lower, higher, midpoint or nearest, got "
                           f"{arg(c, 4)!r}")
    if not is_none(c, 2):
        dim = dim_arg(c, 2, t.ndim)
    if q is None or q.ndim == 0:
        return reduced_dim(t, dim, keepdim, t.dtype, result_device(c))
    for i in range(t.ndim):
        if dim >= 0 and i != dim:
            sizes[n + 1] = t.sizes[i]
            n += 1
        elif keepdim:
            sizes[n + 1] = 1
            n += 1
    # PyTorch computes the result with the dimension of q last, and then moves this dimension to the front.
    sizes[n + 1] = sizes[0] = q.sizes[0]
    row_major(n + 1, sizes + 1, strides + 1)
    strides[0] = 1
    return new_strided(n + 1, sizes, strides, t.dtype, result_device(c))


define("median(Tensor input) -> Tensor", median_meta, 0,
       "Median of all elements. If their number is even, it is the lower of the two middle elements. With `dim`, "
       "return the median along this dimension and its int64 index, as (values, indices).")
gradient("median", input=lambda grad, input, result: _of.shared_by_all(grad, input, result))
define("median.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", median_dim_meta,
       OUT | EXACT_OUT)
gradient("median.dim", node="MedianBackward1",
         input=lambda grad, input_meta, dim, keepdim, indices: _of.chosen(grad, input_meta.shape, dim, keepdim, indices))
define("nanmedian(Tensor input) -> Tensor", median_meta, 0,
       "Like `median`, but ignore NaN.")
gradient("nanmedian", input=lambda grad, input, result: _of.shared_by_all(grad, input, result))
define("nanmedian.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
       median_dim_meta, OUT | EXACT_OUT)
gradient("nanmedian.dim", node="NanmedianBackward1",
         input=lambda grad, input_meta, dim, keepdim, indices: _of.chosen(grad, input_meta.shape, dim, keepdim, indices))
define("mode(Tensor input, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)", median_dim_meta,
       OUT | QUIET_OUT | OPTION_A | EXACT_OUT | NO_OVERLAP,
       "Most frequent value along `dim` and the int64 index where it last occurs, as (values, indices). If several "
       "values are equally frequent, the smallest of them is returned.")
gradient("mode", input=lambda grad, input_meta, dim, keepdim, indices: _of.chosen(grad, input_meta.shape, dim, keepdim, indices))
define("kthvalue(Tensor input, int k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
       kthvalue_meta, OUT | EXACT_OUT | NO_OVERLAP,
       "The `k`-th smallest element along `dim`, with `k` counted from 1, and its int64 index, as (values, indices).")
gradient("kthvalue", input=lambda grad, input_meta, dim, keepdim, indices: _of.chosen(grad, input_meta.shape, dim, keepdim, indices))
define("quantile(Tensor input, Tensor|Scalar q, int? dim=None, bool keepdim=False, *, str interpolation='linear') "
       "-> Tensor", quantile_meta, OUT | EXACT_OUT,
       "Quantiles `q` in [0, 1] along `dim`, or over all elements. A vector `q` adds a leading dimension. The input "
       "is float32 or float64. `interpolation` is 'linear', 'lower', 'higher', 'midpoint' or 'nearest'.")
recorded_as("quantile", _quantile)
define("nanquantile(Tensor input, Tensor|Scalar q, int? dim=None, bool keepdim=False, *, "
       "str interpolation='linear') -> Tensor", quantile_meta, OUT | EXACT_OUT,
       "Like `quantile`, but ignore NaN.")
recorded_as("nanquantile", _nanquantile)


# Results that depend on values -------------------------------------------------------------

cdef object unknown_meta(Call* c):
    """Raise DataDependentError on meta. On other devices return None, so that the kernel creates the result."""
    if result_device(c) is META:
        raise errors.data_dependent(op_name(c), META, make_size(tensor_arg(c, 0).ndim, tensor_arg(c, 0).sizes))
    return None


cdef object allclose_meta(Call* c):
    cdef Tensor a = tensor_arg(c, 0), b = tensor_arg(c, 1)
    if a.dtype is not b.dtype:
        raise RuntimeError(f"{op_name(c)}(): the tensors must have the same dtype, got {a.dtype.name} and "
                           f"{b.dtype.name}")
    broadcast_shape(c, a, b)
    return unknown_meta(c)


cdef int broadcast_shape(Call* c, Tensor a, Tensor b) except -1:
    cdef Layout lay
    lay.ndim = a.ndim
    copy_dims(lay.sizes, a.sizes, a.ndim)
    if broadcast_into(&lay, b.ndim, b.sizes):
        raise RuntimeError(f"{op_name(c)}(): the shapes {shape_str(a)} and {shape_str(b)} do not broadcast")
    return 0


cdef object unique_meta(Call* c):
    """The last argument is `dim`."""
    cdef int slot = (<Overload>c.overload).nslots - 1
    if not is_none(c, slot):
        dim_arg(c, slot, tensor_arg(c, 0).ndim)
        if tensor_arg(c, 0).dtype.kind == KIND_COMPLEX:
            raise NotImplementedError(f"{op_name(c)}(): not implemented along a dimension for {tensor_arg(c, 0).dtype.name}")
    return unknown_meta(c)


define("unique(Tensor input, bool sorted=True, bool return_inverse=False, bool return_counts=False, int? dim=None) "
       "-> any", unique_meta, DATA | NO_GRAD,
       "Return the distinct elements, or the distinct slices along `dim`, sorted. `return_inverse` and "
       "`return_counts` each add an int64 tensor to the result.")
define("unique_consecutive(Tensor input, bool return_inverse=False, bool return_counts=False, int? dim=None) -> any",
       unique_meta, DATA | NO_GRAD,
       "Return the elements, or the slices along `dim`, that differ from their predecessor. `return_inverse` and "
       "`return_counts` each add an int64 tensor to the result.")
define("equal(Tensor input, Tensor other) -> bool", unknown_meta, DATA | NO_GRAD,
       "Return whether two tensors have the same shape and equal elements, as a bool.")
define("allclose(Tensor input, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> bool",
       allclose_meta, DATA | NO_GRAD,
       "Return whether `|input - other| <= atol + rtol * |other|` for all elements, as a bool.")
define("is_nonzero(Tensor input) -> bool", unknown_meta, DATA | NO_GRAD,
       "Return whether the only element of a tensor is not zero, as a bool.")
