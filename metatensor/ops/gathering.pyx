"""Reading elements by index tensors or masks: indexing, index_select, gather, take, masked_select, nonzero."""
from cpython.object cimport PyObject
from metatensor._core.device cimport META, Device, cpu_device
from metatensor._core.dtype cimport BOOL, I32, I64, by_code
from metatensor._core.layout cimport (
    Layout, broadcast_into, copy_dims, dims_equal, elementwise_strides, extent, is_row_major, mul_dims, row_major,
    view_strides,
)
from metatensor._core.op cimport (
    NO_OVERLAP, COMPOSITE, DATA, EXACT_OUT, FUNCTION_ONLY, MIXED, NO_GRAD, OUT, Call, arg, bool_arg, call, define, dim_arg, dims_arg,
    int_arg, is_none, op_name, result_device, tensor_arg, tensors_arg,
)
from metatensor._core.tensor cimport Tensor, new_contiguous, new_from, new_strided, shape_str
from metatensor._core.types cimport MAX_DIMS, dim_t
from metatensor.ops.spatial cimport on_cpu
from metatensor.ops.view cimport dims_tuple, reshape_to

from metatensor._core.errors import data_dependent, different_devices, meta_copy, type_name
from metatensor._core.gradient_parts import Bodies
from metatensor._core.gradients import gradient, ops

_of = Bodies("positions")


cdef int check_long(Call* c, Tensor index, bint int32_too) except -1:
    if index.dtype.code != I64 and not (int32_too and index.dtype.code == I32):
        raise RuntimeError(f"{op_name(c)}(): the index must be int64{' or int32' if int32_too else ''}, not "
                           f"{index.dtype.name}")
    return 0


cdef int look_up(Call* c, Tensor table, Tensor index) except -1:
    """Set the result device to that of `table` and check that the index is on the same device.

    There are three exceptions. A 0-d index may be on the CPU. A CPU index may be used with a meta table, which may
    represent any device. A 0-d CPU table may be used with an index on any device. The result is on the index's device.
    """
    cdef Device there = table.storage.device, here = index.storage.device
    if there is here:
        return 0
    if table.ndim == 0 and there is cpu_device():
        there = here
    elif here is not cpu_device() or not (index.ndim == 0 or there is META):
        raise different_devices(op_name(c), (there, here))
    c.device = <PyObject*>there         # interned: the device table keeps it alive
    c.mixed = False
    return 0


cdef int check_out(Call* c, Tensor t, dim_t total) except -1:
    """Raise RuntimeError if `out=`, once it is resized to `total` elements, shares memory with `t`.

    The kernels read `t` while they write to `out=`.
    """
    cdef Tensor out
    cdef dim_t start, end, out_start, out_end
    if c.out == NULL or not isinstance(<object>c.out, Tensor):
        return 0
    out = <Tensor>c.out
    if out.storage is not t.storage or total == 0 or t.total == 0:
        return 0
    start, out_start = mul_dims(t.offset, t.dtype.itemsize), mul_dims(out.offset, out.dtype.itemsize)
    end = start + mul_dims(extent(t.ndim, t.sizes, t.strides), t.dtype.itemsize)
    out_end = out_start + mul_dims(max(extent(out.ndim, out.sizes, out.strides), total), out.dtype.itemsize)
    if start < out_end and out_start < end:
        raise RuntimeError(f"{op_name(c)}(): out= shares memory with an argument; clone() it first")
    return 0


# Indexing: x[i, j] --------------------------------------------------------------------------

cdef enum:
    MAX_OPERANDS = 6    # number of operands that are compared to find the strides; more could only break ties


cdef struct Gathered:
    int ndim
    dim_t sizes[MAX_DIMS]           # of the result
    dim_t source[MAX_DIMS]          # strides of the input for the result's dimensions, 0 along the index dimensions
    int first                       # position of the index dimensions
    Layout index                    # sizes of the index dimensions


cdef int gather_layout(Call* c, Tensor t, list indices, object dims, Gathered* g) except -1:
    """Compute the sizes of the result. The broadcast sizes of the indices replace the indexed dimensions, or come first
    if those are not adjacent."""
    cdef Tensor index
    cdef int i, d, k = 0, previous = -2
    cdef bint indexed[MAX_DIMS]
    cdef bint adjacent = True
    cdef bint empty = False
    if len(indices) != len(dims) or not indices:
        raise RuntimeError(f"{op_name(c)}(): {len(indices)} index tensors do not match the dimensions {tuple(dims)}")
    for i in range(t.ndim):
        indexed[i] = False
    g.index.ndim = 0
    g.first = -1
    for index, dim in zip(indices, dims):
        d = dim
        if d < 0 or d >= t.ndim or indexed[d]:
            raise IndexError(f"{op_name(c)}(): dimension {d} cannot be indexed in shape {shape_str(t)}")
        if index.dtype.code != I64 and index.dtype.code != I32:
            raise IndexError(f"{op_name(c)}(): index tensors must be int64 or int32, not {index.dtype.name}")
        if broadcast_into(&g.index, index.ndim, index.sizes):
            raise IndexError(f"{op_name(c)}(): shape mismatch: index tensors of shapes "
                             f"{', '.join([shape_str(x) for x in indices])} do not broadcast")
        indexed[d] = True
        empty = empty or t.sizes[d] == 0
        if previous != -2 and d != previous + 1:
            adjacent = False
        if g.first < 0:
            g.first = d
        previous = d
    if not adjacent:
        g.first = 0
    if g.index.ndim + t.ndim - len(indices) > MAX_DIMS:
        raise RuntimeError(f"{op_name(c)}(): at most {MAX_DIMS} dimensions are supported")
    for i in range(t.ndim + 1):
        if k == g.first:
            for d in range(g.index.ndim):
                g.sizes[k] = g.index.sizes[d]
                g.source[k] = 0
                k += 1
        if i < t.ndim and not indexed[i]:
            g.sizes[k] = t.sizes[i]
            g.source[k] = t.strides[i]
            k += 1
    g.ndim = k
    if empty:
        for d in range(g.index.ndim):
            if g.index.sizes[d] == 0:
                return 0
        raise IndexError(f"{op_name(c)}(): index is out of bounds for shape {shape_str(t)}, which has a dimension of size 0")
    return 0


cdef int among_others(Tensor index, Gathered* g, dim_t* sizes, dim_t* strides) except -1:
    """Compute the sizes and strides of an index tensor as a view with the result's dimensions: expanded to the index
    dimensions, and of size 1 in the others."""
    cdef dim_t expanded[MAX_DIMS]
    cdef int i, shift = g.index.ndim - index.ndim
    for i in range(g.index.ndim):
        expanded[i] = 0 if i < shift or index.sizes[i - shift] != g.index.sizes[i] else index.strides[i - shift]
    for i in range(g.ndim):
        sizes[i] = g.sizes[i] if g.first <= i < g.first + g.index.ndim else 1
    return view_strides(g.index.ndim, g.index.sizes, expanded, g.ndim, sizes, strides)


cdef object index_meta(Call* c):
    """Arguments: input, index tensors, indexed dimensions. The strides of the result follow those of the input."""
    cdef Tensor t = tensor_arg(c, 0), index
    cdef list indices = tensors_arg(c, 1)
    cdef Gathered g
    cdef Layout out
    cdef dim_t sizes[MAX_OPERANDS][MAX_DIMS]
    cdef dim_t strides[MAX_OPERANDS][MAX_DIMS]
    cdef int ndims[MAX_OPERANDS]
    cdef const dim_t* sizes_of[MAX_OPERANDS]
    cdef const dim_t* strides_of[MAX_OPERANDS]
    cdef int n = 1, i
    cdef bint plain
    gather_layout(c, t, indices, arg(c, 2), &g)
    ndims[0] = g.ndim
    sizes_of[0] = g.sizes
    strides_of[0] = g.source
    plain = is_row_major(g.ndim, g.sizes, g.source)
    for index in indices:
        if index.storage.device is META and t.storage.device is not META:
            raise meta_copy(index)
        if n == MAX_OPERANDS:
            break
        # If a dimension is not indexed and the result has size 1 there, PyTorch's real devices use the stride of
        # the expanded index. PyTorch's meta device does not.
        among_others(index, &g, sizes[n], strides[n])
        if not dims_equal(sizes[n], g.sizes, g.ndim) or not is_row_major(g.ndim, sizes[n], strides[n]):
            plain = False
        if result_device(c) is META:
            for i in range(g.ndim):
                if not g.first <= i < g.first + g.index.ndim:
                    strides[n][i] = 0
        ndims[n] = g.ndim
        sizes_of[n] = sizes[n]
        strides_of[n] = strides[n]
        n += 1
    out.ndim = g.ndim
    out.offset = 0
    copy_dims(out.sizes, g.sizes, g.ndim)
    if plain or (t.total == 0 and result_device(c) is META):
        row_major(out.ndim, out.sizes, out.strides)
    else:
        elementwise_strides(n, ndims, sizes_of, strides_of, &out)
    return new_from(&out, t.dtype, result_device(c))


define("_index(Tensor input, Tensor[] indices, int[] dims) -> Tensor", index_meta, FUNCTION_ONLY | MIXED,
       "Elements of `input` at the positions that the index tensors `indices` give for the dimensions `dims`. For "
       "example, `input[i, :, j]` has `indices` (i, j) and `dims` (0, 2).")
gradient("_index", linear="input", input=lambda grad, input_meta, indices, dims:
         ops._index_put_accumulate_(grad.new_zeros(input_meta.shape), indices, dims, grad))


# Along one dimension --------------------------------------------------------------------------

cdef object index_select_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0), index = tensor_arg(c, 2)
    cdef int d
    cdef dim_t sizes[MAX_DIMS]
    look_up(c, t, index)
    d = dim_arg(c, 1, t.ndim)
    if index.ndim > 1:
        raise IndexError(f"{op_name(c)}(): the index must be a vector, got shape {shape_str(index)}")
    check_long(c, index, True)
    if t.ndim == 0 and index.total != 1:
        raise RuntimeError(f"{op_name(c)}(): an index into a 0-d tensor must have one element, got shape "
                           f"{shape_str(index)}")
    check_out(c, t, t.total)
    check_out(c, index, index.total)
    copy_dims(sizes, t.sizes, t.ndim)
    if t.ndim:
        sizes[d] = index.total
    return new_contiguous(t.ndim, sizes, t.dtype, result_device(c))


cdef int check_gather(Call* c, Tensor t, Tensor index, int d) except -1:
    """Check that no size of the index exceeds that of `t`, except in dimension `d`. A 0-d tensor counts as (1,)."""
    cdef int i
    if index.total == 0:
        return 0
    check_long(c, index, True)
    if max(t.ndim, 1) != max(index.ndim, 1):
        raise RuntimeError(f"{op_name(c)}(): the index must have as many dimensions as the input, got shapes "
                           f"{shape_str(index)} and {shape_str(t)}")
    for i in range(min(t.ndim, index.ndim)):
        if i != d and index.sizes[i] > t.sizes[i]:
            raise RuntimeError(f"{op_name(c)}(): the index of shape {shape_str(index)} does not fit in shape "
                               f"{shape_str(t)} (ignoring dimension {d})")
    return 0


cdef object gather_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0), index = tensor_arg(c, 2)
    cdef int d
    look_up(c, t, index)
    d = dim_arg(c, 1, t.ndim)
    check_gather(c, t, index, d)
    check_out(c, t, index.total)
    check_out(c, index, index.total)
    return new_contiguous(index.ndim, index.sizes, t.dtype, result_device(c))


cdef object take_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0), index = tensor_arg(c, 1)
    check_long(c, index, False)
    if t.total == 0 and index.total:
        raise IndexError(f"{op_name(c)}(): shape {shape_str(t)} has no elements to take")
    check_out(c, t, index.total)
    check_out(c, index, index.total)
    return new_contiguous(index.ndim, index.sizes, t.dtype, result_device(c))


cdef object take_along_dim_body(Call* c):
    """Broadcast all dimensions except `dim`, then gather. Without `dim`, gather from the flattened input."""
    cdef Tensor t = tensor_arg(c, 0), index = tensor_arg(c, 1)
    cdef Layout lay
    cdef int d
    if is_none(c, 2):
        check_long(c, index, False)
        return call("gather", (reshape_to(t, 1, &t.total), 0, reshape_to(index, 1, &index.total)))
    if t.ndim != index.ndim:
        raise RuntimeError(f"{op_name(c)}(): the indices must have as many dimensions as the input, got shapes "
                           f"{shape_str(index)} and {shape_str(t)}")
    check_long(c, index, False)
    d = dim_arg(c, 2, t.ndim)
    lay.ndim = t.ndim
    copy_dims(lay.sizes, t.sizes, t.ndim)
    if t.ndim:
        lay.sizes[d] = index.sizes[d]
    if broadcast_into(&lay, index.ndim, index.sizes):
        raise RuntimeError(f"{op_name(c)}(): shapes {shape_str(t)} and {shape_str(index)} do not broadcast in the "
                           f"dimensions other than {d}")
    index = <Tensor>index.expand(dims_tuple(lay.ndim, lay.sizes))
    if index.total:     # take_along_dim wraps indices modulo the size
        index = <Tensor>call("remainder", (index, t.sizes[d] if t.ndim else 1))
    if t.ndim:
        lay.sizes[d] = t.sizes[d]
    return call("gather", (t.expand(dims_tuple(lay.ndim, lay.sizes)), d, index))


define("index_select(Tensor input, int dim, Tensor index) -> Tensor", index_select_meta, OUT | EXACT_OUT | MIXED | NO_OVERLAP,
       "Slices of `input` along `dim` at the indices in the vector `index` (int32 or int64). The size of `dim` becomes "
       "the length of `index`.")
gradient("index_select", linear="input",
         input=lambda grad, input_meta, dim, index: grad.new_zeros(input_meta.shape).index_add(dim, index, grad))
define("gather(Tensor input, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor",
       gather_meta, OUT | EXACT_OUT | MIXED | NO_OVERLAP,
       "Gather elements along `dim`: for matrices and `dim=0`, `out[i, j] = input[index[i, j], j]`. The result has the "
       "shape of `index`. `index` must have as many dimensions as `input`, and no larger sizes except in `dim`.")
gradient("gather", linear="input", input=lambda grad, input, dim, index: grad.new_zeros(input.shape).scatter_add(dim, index, grad))
define("take(Tensor input, Tensor index) -> Tensor", take_meta, OUT | EXACT_OUT | NO_OVERLAP,
       "Elements of the flattened `input` at the int64 positions `index`. The result has the shape of `index`.")
gradient("take", linear="input", input="positions.taken")
define("take_along_dim(Tensor input, Tensor indices, int? dim=None) -> Tensor",
       take_along_dim_body, COMPOSITE | OUT | EXACT_OUT | NO_OVERLAP,
       "`gather` after broadcasting `input` and `indices` in all dimensions but `dim`. Without `dim`, gather from the "
       "flattened `input`.")


# Results whose shape depends on data ---------------------------------------------------------------

cdef object _unknown(Call* c):
    """Raise DataDependentError on meta. On other devices return None, so that the kernel creates the result."""
    if result_device(c) is META:
        raise data_dependent(op_name(c), META, tensor_arg(c, 0).shape)
    return None


cdef object nonzero_meta(Call* c):
    if c.out != NULL and not isinstance(<object>c.out, Tensor):
        raise TypeError(f"{op_name(c)}(): argument 'out' must be a Tensor, not {type_name(<object>c.out)}")
    if c.out != NULL and op_name(c) == "nonzero" and bool_arg(c, 1):
        raise RuntimeError(f"{op_name(c)}(): out= cannot be combined with as_tuple=True")
    return _unknown(c)


cdef object masked_select_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0), mask = tensor_arg(c, 1)
    cdef Layout lay
    if mask.dtype.code != BOOL:
        raise RuntimeError(f"{op_name(c)}(): the mask must be bool, not {mask.dtype.name}")
    lay.ndim = t.ndim
    copy_dims(lay.sizes, t.sizes, t.ndim)
    if broadcast_into(&lay, mask.ndim, mask.sizes):
        raise RuntimeError(f"{op_name(c)}(): shapes {shape_str(t)} and {shape_str(mask)} do not broadcast")
    check_out(c, t, 1)
    check_out(c, mask, 1)
    return _unknown(c)


cdef object masked_select_some_meta(Call* c):
    """Arguments: input, mask, count."""
    cdef dim_t n = int_arg(c, 2)
    return new_contiguous(1, &n, tensor_arg(c, 0).dtype, result_device(c))


cdef object nonzero_static_meta(Call* c):
    """Return a result of `size` rows. On devices other than the CPU it is column-major, as in PyTorch."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t sizes[2]
    cdef dim_t strides[2]
    sizes[0], sizes[1] = int_arg(c, 1), t.ndim
    if sizes[0] < 0:
        raise RuntimeError(f"{op_name(c)}(): the size must not be negative, got {sizes[0]}")
    if on_cpu(c):
        return new_contiguous(2, sizes, by_code(I64), result_device(c))
    strides[0], strides[1] = 1, sizes[0]
    return new_strided(2, sizes, strides, by_code(I64), result_device(c))


define("nonzero(Tensor input, *, bool as_tuple=False) -> any", nonzero_meta, DATA | NO_GRAD | OUT | EXACT_OUT,
       "Indices of the nonzero elements, as an int64 tensor (number of nonzeros, ndim), or if `as_tuple`, as a tuple "
       "of one vector for each dimension.")
define("argwhere(Tensor input) -> Tensor", nonzero_meta, DATA | NO_GRAD,
       "Indices of the nonzero elements, as an int64 tensor (number of nonzeros, ndim).")
define("masked_select(Tensor input, Tensor mask) -> Tensor", masked_select_meta, DATA | OUT | EXACT_OUT | NO_OVERLAP,
       "Elements where `mask` is true, as a vector. `input` and the bool `mask` are broadcast together.")
gradient("masked_select", linear="input", input=lambda grad, input, mask: _of.unselected(grad, input, mask))
define("_masked_select(Tensor input, Tensor mask, int count) -> Tensor", masked_select_some_meta, FUNCTION_ONLY,
       "`masked_select` where `count` is the number of elements, which is known without values.")
gradient("_masked_select", linear="input", input=lambda grad, input, mask: _of.unselected(grad, input, mask))
define("nonzero_static(Tensor input, *, int size, int fill_value=-1) -> Tensor", nonzero_static_meta, NO_GRAD | OUT | EXACT_OUT,
       "`nonzero` with exactly `size` rows: truncated, or padded with `fill_value`.")


cdef object unravel_body(Call* c):
    """Convert flat indices to a tuple of indices, one for each dimension of a shape. They are views of one tensor."""
    cdef Tensor indices = tensor_arg(c, 0)
    cdef object shape = arg(c, 1)
    if isinstance(shape, int):
        shape = (shape,)
    if isinstance(shape, Tensor) or not hasattr(shape, "__iter__"):
        raise TypeError(f"{op_name(c)}(): the shape must be an int or a sequence of ints, not {type_name(shape)}")
    for size in shape:
        if isinstance(size, Tensor) or not hasattr(size, "__index__"):
            raise TypeError(f"{op_name(c)}(): the sizes in the shape must be ints, not {type_name(size)}")
    return call("unbind", (call("_unravel_index", (indices, tuple(shape))), -1))


cdef object unravel_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t shape[MAX_DIMS]
    cdef dim_t sizes[MAX_DIMS]
    cdef dim_t total = 1
    cdef int i, n = dims_arg(c, 1, shape)
    if t.dtype.kind != by_code(I64).kind:
        raise TypeError(f"unravel_index(): the indices must be integers, not {t.dtype.name}")
    for i in range(n):
        if shape[i] < 0:
            raise ValueError(f"unravel_index(): the shape must not have negative sizes, got {list(dims_tuple(n, shape))}")
        total = mul_dims(total, shape[i])
    if t.ndim >= MAX_DIMS:
        raise RuntimeError(f"at most {MAX_DIMS} dimensions are supported")
    copy_dims(sizes, t.sizes, t.ndim)
    sizes[t.ndim] = n
    return new_contiguous(t.ndim + 1, sizes, by_code(I64), result_device(c))


define("unravel_index(Tensor indices, any shape) -> Tensor[]", unravel_body, COMPOSITE | FUNCTION_ONLY,
       "Convert indices into a flattened tensor to a tuple of index tensors, one for each dimension of its `shape`.")
define("_unravel_index(Tensor indices, int[] shape) -> Tensor", unravel_meta, FUNCTION_ONLY)
