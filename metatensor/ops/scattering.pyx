"""Write elements at positions given by index tensors or masks: scatter, index_add, put, masked_scatter, index_put."""
from metatensor._core.device cimport META
from metatensor._core.dtype cimport BOOL, I32, I64, U8
from metatensor._core.layout cimport Layout, broadcast_into, can_broadcast, copy_dims, is_dense
from metatensor._core.op cimport (
    NO_OVERLAP, COMPOSITE, EXACT_OUT, FUNCTION_ONLY, INPLACE, MIXED, ONE_VALUE, OUT, Call, arg, bool_arg, call, define, dim_arg,
    is_none, op_name, result_device, tensor_arg, tensors_arg,
)
from metatensor._core.tensor cimport Tensor, new_contiguous, shape_str
from metatensor._core.types cimport FORMAT_PRESERVE, KIND_COMPLEX, MAX_DIMS, T_CONTIGUOUS, dim_t
from metatensor.ops.factory cimport check_fill, make_like
from metatensor.ops.gathering cimport check_gather, check_long, check_out
from metatensor.ops.index_steps cimport warn_of_bytes
from metatensor.ops.pointwise cimport elementwise_like

from metatensor._core.errors import meta_copy
from metatensor._core.gradient_parts import Bodies
from metatensor._core.gradients import gradient, ops
from metatensor._core.sharding import sharding

_of = Bodies("positions")


# Parts of gradients ---------------------------------------------------------------------------------

def _reduced_by_scatter(grad, input, dim, index, src, reduce, include_self, result):
    return _of.reduced_by_scatter(grad, input, dim, index, src, reduce, include_self, result)


def _reduced_by_index(grad, input, dim, index, source, reduce, include_self, result):
    return _of.reduced_by_index(grad, input, dim, index, source, reduce, include_self, result)


cdef int _same_dtype(Call* c, Tensor t, Tensor src) except -1:
    if t.dtype is not src.dtype:
        raise RuntimeError(f"{op_name(c)}(): the source must have the input's dtype, {t.dtype.name}, not {src.dtype.name}")
    return 0


cdef Tensor _contiguous_on_meta(Tensor made):
    """Return `made`. On meta, return a contiguous tensor of the same shape instead, as PyTorch's meta kernels do."""
    if made.storage.device is META and not made.flags & T_CONTIGUOUS:
        return new_contiguous(made.ndim, made.sizes, made.dtype, META)
    return made


cdef Tensor _dense(Call* c, Tensor t):
    return new_contiguous(t.ndim, t.sizes, t.dtype, result_device(c))


# scatter ----------------------------------------------------------------------------------

cdef int _check_scatter(Call* c, Tensor t, Tensor index, Tensor src) except -1:
    """Check that `index` is no larger than the source, and no larger than the input except in dimension `dim`."""
    cdef int d = dim_arg(c, 1, t.ndim), i
    check_gather(c, t, index, d)
    check_out(c, index, t.total)
    if src is None:
        return 0
    check_out(c, src, t.total)
    _same_dtype(c, t, src)
    if index.total == 0:
        return 0
    if 0 < src.ndim < index.ndim and op_name(c) in ("scatter", "scatter_"):
        raise IndexError(f"{op_name(c)}(): the source of shape {shape_str(src)} has fewer dimensions than the index of "
                         f"shape {shape_str(index)}")
    if max(src.ndim, 1) != max(index.ndim, 1):
        raise RuntimeError(f"{op_name(c)}(): the index must have as many dimensions as the source, got shapes "
                           f"{shape_str(index)} and {shape_str(src)}")
    for i in range(max(src.ndim, 1)):
        if (index.sizes[i] if index.ndim else 1) > (src.sizes[i] if src.ndim else 1):
            raise RuntimeError(f"{op_name(c)}(): the index of shape {shape_str(index)} does not fit in the source of "
                               f"shape {shape_str(src)}")
    return 0


cdef int _check_reduce(Call* c, int slot, tuple known) except -1:
    if not is_none(c, slot) and arg(c, slot) not in known:
        raise RuntimeError(f"{op_name(c)}(): reduce must be one of {', '.join(known)}, got {arg(c, slot)!r}")
    return 0


cdef tuple SIMPLE = ("add", "multiply")
cdef tuple REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


cdef object scatter_meta(Call* c):
    """Meta kernel of scatter, scatter_add and scatter_reduce. Arguments: input, dim, index, src, and more."""
    cdef Tensor t = tensor_arg(c, 0)
    _check_scatter(c, t, tensor_arg(c, 2), tensor_arg(c, 3))
    return _dense(c, t)


cdef object scatter_mode_meta(Call* c):
    _check_reduce(c, 4, SIMPLE)
    return scatter_meta(c)


cdef object scatter_value_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    _check_scatter(c, t, tensor_arg(c, 2), None)
    check_fill(c, t.dtype, arg(c, 3))
    return _dense(c, t)


cdef object scatter_value_mode_meta(Call* c):
    _check_reduce(c, 4, SIMPLE)
    return scatter_value_meta(c)


cdef object scatter_reduce_meta(Call* c):
    _check_reduce(c, 4, REDUCTIONS)
    return scatter_meta(c)


define("scatter(Tensor input, int dim, Tensor index, Tensor src) -> Tensor", scatter_meta, INPLACE | OUT | EXACT_OUT | NO_OVERLAP,
       "Write the elements of `src` along `dim` at the positions in `index`: for `dim=0` and two dimensions, "
       "`out[index[i, j], j] = src[i, j]`. If `reduce` is 'add' or 'multiply', add them to the input's elements, or "
       "multiply the input's elements by them, instead.")
gradient("scatter", linear="input+src", input=lambda grad, dim, index: grad.scatter(dim, index, 0),
         src=lambda grad, dim, index, src_meta: _of.gathered(grad, dim, index, src_meta.shape))
define("scatter.reduce(Tensor input, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor", scatter_mode_meta,
       INPLACE | OUT | EXACT_OUT | NO_OVERLAP)
# These come after the overloads with a tensor, because a tensor of one element is also accepted as a number.
define("scatter.value(Tensor input, int dim, Tensor index, Scalar value) -> Tensor",
       scatter_value_meta, INPLACE | OUT | EXACT_OUT | NO_OVERLAP)
gradient("scatter.value", node="ScatterBackward1", input=lambda grad, dim, index: grad.scatter(dim, index, 0))
define("scatter.value_reduce(Tensor input, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor",
       scatter_value_mode_meta, INPLACE | OUT | EXACT_OUT | NO_OVERLAP)
define("scatter_add(Tensor input, int dim, Tensor index, Tensor src) -> Tensor", scatter_meta, INPLACE | OUT | EXACT_OUT | NO_OVERLAP,
       "Add the elements of `src` along `dim` at the positions in `index`: for `dim=0` and two dimensions, "
       "`out[index[i, j], j] += src[i, j]`.")
gradient("scatter_add", linear="input+src",
         input=lambda grad: grad, src=lambda grad, dim, index, src_meta: _of.gathered(grad, dim, index, src_meta.shape))
define("scatter_reduce(Tensor input, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor",
       scatter_reduce_meta, INPLACE | OUT | EXACT_OUT | NO_OVERLAP,
       "Reduce the elements of `src` that have the same position in `index` along `dim`, and write the result there. "
       "`reduce` is 'sum', 'prod', 'mean', 'amax' or 'amin'. If `include_self` is True, the input's own elements are "
       "included.")
gradient("scatter_reduce", joint=_reduced_by_scatter, input=True, src=True)


# index_add, index_copy, index_reduce, index_fill ------------------------------------------------

cdef int _check_vector(Call* c, Tensor index, bint int32_too) except -1:
    if index.ndim > 1:
        raise IndexError(f"{op_name(c)}(): the index must be a vector, got shape {shape_str(index)}")
    check_long(c, index, int32_too)
    return 0


cdef int _check_slices(Call* c, Tensor t, Tensor index, Tensor source, bint copies) except -1:
    """Check the shape of `source`: one slice per index along `dim`, and the input's size in every other dimension."""
    cdef int d = dim_arg(c, 1, t.ndim), i
    _check_vector(c, index, not copies)
    check_out(c, index, t.total)
    check_out(c, source, t.total)
    _same_dtype(c, t, source)
    # For a wrong shape index_copy raises IndexError. It also accepts a 0-d source if there is one index.
    kind = IndexError if copies else RuntimeError
    if source.ndim == 0:
        if index.total != 1:
            raise IndexError(f"{op_name(c)}(): a 0-d source requires exactly one index, got {index.total}")
        if t.ndim and not copies:
            raise RuntimeError(f"{op_name(c)}(): a 0-d source does not fit an input of shape {shape_str(t)}")
        return 0
    if source.ndim != t.ndim and (t.ndim or not copies):
        raise kind(f"{op_name(c)}(): the source of shape {shape_str(source)} must have as many dimensions as the "
                   f"input of shape {shape_str(t)}")
    if d >= source.ndim or source.sizes[d] != index.total:
        raise kind(f"{op_name(c)}(): the source of shape {shape_str(source)} must have one slice in dimension {d} "
                   f"for each of the {index.total} indices")
    for i in range(t.ndim):
        if i != d and t.sizes[i] != source.sizes[i]:
            raise RuntimeError(f"{op_name(c)}(): the source of shape {shape_str(source)} must match the input "
                               f"of shape {shape_str(t)} in every dimension except {d}")
    return 0


cdef object index_add_meta(Call* c):
    return _by_slices(c, False)


cdef object index_copy_meta(Call* c):
    return _by_slices(c, True)


cdef object _by_slices(Call* c, bint copies):
    """Arguments: input, dim, index, source, and more."""
    cdef Tensor t = tensor_arg(c, 0)
    _check_slices(c, t, tensor_arg(c, 2), tensor_arg(c, 3), copies)
    if result_device(c) is META:
        return _contiguous_on_meta(elementwise_like(t, t.dtype, META))
    return _dense(c, t)


cdef object index_reduce_meta(Call* c):
    _check_reduce(c, 4, ("prod", "mean", "amax", "amin"))
    return index_add_meta(c)


cdef object index_fill_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0), value
    dim_arg(c, 1, t.ndim)
    if tensor_arg(c, 2).ndim > 1:
        raise RuntimeError(f"{op_name(c)}(): the index must be a vector, got shape {shape_str(tensor_arg(c, 2))}")
    if tensor_arg(c, 2).dtype.code != I64:
        raise IndexError(f"{op_name(c)}(): the index must be int64, not {tensor_arg(c, 2).dtype.name}")
    if isinstance(arg(c, 3), Tensor):
        value = tensor_arg(c, 3)
        if value.ndim:
            raise RuntimeError(f"{op_name(c)}(): the value must be a number or a 0-d tensor, got shape {shape_str(value)}")
        if value.dtype.kind == KIND_COMPLEX and t.dtype.kind != KIND_COMPLEX:
            raise RuntimeError(f"{op_name(c)}(): a complex value cannot be written to {t.dtype.name}")
    elif isinstance(arg(c, 3), complex) and t.dtype.kind != KIND_COMPLEX:
        raise RuntimeError(f"{op_name(c)}(): the complex number {arg(c, 3)} cannot be written to {t.dtype.name}")
    else:
        check_fill(c, t.dtype, arg(c, 3))
    value = make_like(c, t, t.dtype, result_device(c), FORMAT_PRESERVE)
    return value if is_dense(t.ndim, t.sizes, t.strides) else _contiguous_on_meta(value)


define("index_add(Tensor input, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor", index_add_meta,
       INPLACE | OUT | EXACT_OUT | NO_OVERLAP,
       "Add the slices of `source` along `dim`, times `alpha`, to the slices of `input` at the indices in the vector "
       "`index`.")
gradient("index_add", linear="input+source", input=lambda grad: grad,
         source=lambda grad, dim, index, source, alpha: _of.taken_slices(grad, dim, index, source.shape) * alpha)
define("index_copy(Tensor input, int dim, Tensor index, Tensor source) -> Tensor", index_copy_meta, INPLACE | OUT | EXACT_OUT | NO_OVERLAP,
       "Write the slices of `source` along `dim` to the slices of `input` at the indices in the vector `index`.")
gradient("index_copy", linear="input+source", input=lambda grad, dim, index: grad.index_fill(dim, index, 0),
         source=lambda grad, dim, index, source: _of.taken_slices(grad, dim, index, source.shape))
define("index_reduce(Tensor input, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor",
       index_reduce_meta, INPLACE | OUT | EXACT_OUT | NO_OVERLAP,
       "Reduce the slices of `source` along `dim` into the slices of `input` at the indices in the vector `index`. "
       "`reduce` is 'prod', 'mean', 'amax' or 'amin'. If `include_self` is True, the input's own elements are "
       "included.")
gradient("index_reduce", joint=_reduced_by_index, input=True, source=True)
define("index_fill(Tensor input, int dim, Tensor index, Tensor|Scalar value) -> Tensor", index_fill_meta,
       INPLACE | NO_OVERLAP | ONE_VALUE,
       "Fill the slices along `dim` at the indices in the vector `index` with a number or 0-d tensor.")
gradient("index_fill", node=lambda value: "IndexFillBackward1" if isinstance(value, Tensor) else "IndexFillBackward0",
         input=lambda grad, dim, index: grad.index_fill(dim, index, 0),
         value=lambda grad, dim, index: _of.filled_slices(grad, dim, index))


# put, masked_scatter, index_put ------------------------------------------------------------------------

cdef object put_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0), index = tensor_arg(c, 1), source = tensor_arg(c, 2)
    check_long(c, index, False)
    _same_dtype(c, t, source)
    if index.total != source.total:
        raise IndexError(f"{op_name(c)}(): index and source must have the same number of elements, got {index.total} "
                         f"and {source.total}")
    if t.total == 0 and index.total:
        raise IndexError(f"{op_name(c)}(): shape {shape_str(t)} has no elements to write to")
    return make_like(c, t, t.dtype, result_device(c), FORMAT_PRESERVE)


cdef object masked_scatter_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0), mask = tensor_arg(c, 1)
    cdef Layout lay
    if mask.dtype.code != BOOL:
        raise RuntimeError(f"{op_name(c)}(): the mask must be bool, not {mask.dtype.name}")
    _same_dtype(c, t, tensor_arg(c, 2))
    lay.ndim = t.ndim
    copy_dims(lay.sizes, t.sizes, t.ndim)
    if broadcast_into(&lay, mask.ndim, mask.sizes):
        raise RuntimeError(f"{op_name(c)}(): shapes {shape_str(t)} and {shape_str(mask)} do not broadcast")
    return new_contiguous(lay.ndim, lay.sizes, t.dtype, result_device(c))


define("put(Tensor input, Tensor index, Tensor source, bool accumulate=False) -> Tensor", put_meta, INPLACE | NO_OVERLAP,
       "Write the elements of `source` at the positions `index` in the flattened input. If `accumulate`, add them "
       "instead.")
gradient("put", linear="input+source",
         input=lambda grad, index, accumulate: grad if accumulate else grad.put(index, grad.new_zeros(index.shape)),
         source=lambda grad, index, source: grad.take(index).reshape(source.shape))
sharding("masked_scatter", "no cuts")     # the elements of the source follow each other
define("masked_scatter(Tensor input, Tensor mask, Tensor source) -> Tensor", masked_scatter_meta, INPLACE | NO_OVERLAP,
       "Replace the elements where the bool mask is true by the elements of `source`, in order. `input` and `mask` "
       "are broadcast together.")
gradient("masked_scatter", linear="input+source", input=lambda grad, mask: grad.masked_fill(mask, 0),
         source=lambda grad, mask, source_meta: _of.scattered(grad, mask, source_meta.shape))


cdef object index_put_meta(Call* c):
    """Arguments: input, index tensors or masks, the first dimension that each of them indexes, values.

    Check the shapes and return `input`, which the kernel writes to. With a mask, the shape of the indexed part depends
    on data, so the shape of the values is not checked here.
    """
    cdef Tensor t = tensor_arg(c, 0), index, values = tensor_arg(c, 3)
    cdef Layout lay
    cdef dim_t sizes[MAX_DIMS]
    cdef bint indexed[MAX_DIMS]
    cdef int i, d, uses, k = 0, first = -1, previous = -2
    cdef bint adjacent = True, masked = False
    _same_dtype(c, t, values)
    if t.storage.device is not META and values.storage.device is META:
        raise meta_copy(values)
    lay.ndim = 0
    for i in range(t.ndim):
        indexed[i] = False
    for index, dim in zip(tensors_arg(c, 1), arg(c, 2)):
        d = dim
        uses = index.ndim if index.dtype.code == BOOL or index.dtype.code == U8 else 1
        if d < 0 or d + uses > t.ndim:
            raise IndexError(f"{op_name(c)}(): too many indices for a tensor of shape {shape_str(t)}")
        if index.dtype.code == BOOL or index.dtype.code == U8:
            masked = True
            for i in range(uses):
                if index.sizes[i] != t.sizes[d + i]:
                    raise IndexError(f"{op_name(c)}(): the mask of shape {shape_str(index)} does not match the tensor of "
                                     f"shape {shape_str(t)} from dimension {d} on")
        elif index.dtype.code != I64 and index.dtype.code != I32:
            raise IndexError(f"{op_name(c)}(): index tensors must be int64, int32, uint8 or bool, not {index.dtype.name}")
        elif broadcast_into(&lay, index.ndim, index.sizes):
            raise IndexError(f"{op_name(c)}(): shape mismatch: index tensors do not broadcast")
        for i in range(uses):
            indexed[d + i] = True
        if previous != -2 and d != previous + 1:
            adjacent = False
        if first < 0:
            first = d
        previous = d + uses - 1
    if masked:
        return t
    if not adjacent:
        first = 0
    for i in range(t.ndim + 1):
        if k == first:
            for d in range(lay.ndim):
                sizes[k] = lay.sizes[d]
                k += 1
        if i < t.ndim and not indexed[i]:
            sizes[k] = t.sizes[i]
            k += 1
    if not can_broadcast(values.ndim, values.sizes, k, sizes):
        raise RuntimeError(f"{op_name(c)}(): values of shape {shape_str(values)} do not broadcast to the indexed part, of "
                           f"shape {[sizes[i] for i in range(k)]}")
    return t


define("_index_put_(Tensor(a!) input, Tensor[] indices, int[] dims, Tensor values) -> Tensor", index_put_meta,
       FUNCTION_ONLY | MIXED | NO_OVERLAP,
       "Write `values` in place at the positions given by index tensors or masks for the dimensions `dims`.")
gradient("_index_put_", node="IndexPutBackward0",
         input=lambda grad, indices, dims: ops._index_put_(grad.clone(), indices, dims, grad.new_zeros(())),
         values=lambda grad, indices, dims: grad[_of.index_of(indices, dims)])
define("_index_put_accumulate_(Tensor(a!) input, Tensor[] indices, int[] dims, Tensor values) -> Tensor", index_put_meta,
       FUNCTION_ONLY | MIXED | NO_OVERLAP,
       "Add `values` in place at the positions given by index tensors or masks for the dimensions `dims`.")
gradient("_index_put_accumulate_", node="IndexPutBackward0", input=lambda grad, indices, dims: grad,
         values=lambda grad, indices, dims: grad[_of.index_of(indices, dims)])


cdef object _put(Call* c, Tensor t):
    """Apply `index_put_` to `t`. Each index is a tensor, or None to select a whole dimension."""
    cdef Tensor index
    cdef int d = 0
    cdef Py_ssize_t i
    if not isinstance(arg(c, 1), (list, tuple)):
        raise TypeError(f"{op_name(c)}(): argument 'indices' (position 2) must be tuple of Tensors, not "
                        f"{type(arg(c, 1)).__name__}")
    indices = []
    dims = []
    for item in arg(c, 1):
        if item is None:
            d += 1
            continue
        if not isinstance(item, Tensor):
            raise TypeError(f"{op_name(c)}(): argument 'indices' (position 2) must hold Tensors or None, not "
                            f"{type(item).__name__}")
        index = <Tensor>item
        indices.append(index)
        dims.append(d)
        d += index.ndim if index.dtype.code == BOOL or index.dtype.code == U8 else 1
    if d > t.ndim:
        raise IndexError(f"{op_name(c)}(): too many indices for a tensor of shape {shape_str(t)}")
    for i in range(len(indices)):
        warn_of_bytes(<Tensor>indices[i])
    if not indices and t.ndim == 0:
        raise RuntimeError(f"{op_name(c)}(): a 0-d tensor cannot be written to without indices; use add_ or copy_")
    if not indices:
        indices = [call("arange", (t.sizes[0],), {"device": t.storage.device})]
        dims = [0]
    return call("_index_put_accumulate_" if bool_arg(c, 3) else "_index_put_", (t, indices, tuple(dims), tensor_arg(c, 2)))


cdef object index_put_in_place(Call* c):
    return _put(c, tensor_arg(c, 0))


cdef object index_put_body(Call* c):
    cdef Tensor t = call("clone", (tensor_arg(c, 0),))
    if isinstance(arg(c, 1), (list, tuple)):
        for index in arg(c, 1):
            if getattr(type(index), "_overrides_operators_only", False):     # members of a batch, which need copies of their own
                t = index.new_empty(t.shape, dtype=t.dtype, device=t.storage.device).copy_(t)
                break
    return _put(c, t)


define("index_put(Tensor input, any indices, Tensor values, bool accumulate=False) -> Tensor", index_put_body,
       COMPOSITE | MIXED,
       "Return a copy with `values` written at the positions given by a tuple of index tensors or masks, one per "
       "dimension. None selects a whole dimension. If `accumulate`, add `values` to the elements instead of replacing "
       "them.")
define("index_put_(Tensor(a!) input, any indices, Tensor values, bool accumulate=False) -> Tensor", index_put_in_place,
       COMPOSITE | MIXED,
       "Write `values` in place at the positions given by a tuple of index tensors or masks, one per dimension. None "
       "selects a whole dimension. If `accumulate`, add `values` to the elements instead of replacing them.")
