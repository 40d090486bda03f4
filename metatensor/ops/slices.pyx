"""Views of parts of a tensor: select, narrow, slice, diagonal, unfold, as_strided, split and its variants, unbind."""
from cpython.object cimport PyObject
from metatensor._core.layout cimport Layout, add_dims, count, mul_dims
from metatensor._core.dtype cimport I64
from metatensor._core.op cimport (
    FUNCTION_ONLY, INPLACE, METHOD_ONLY, MIXED, MULTI_VIEW, VIEW, Call, arg, define, dim_arg, dims_arg, hold, int_arg, is_none, op_name,
    tensor_arg,
)
from metatensor._core.storage_views cimport check_bounds
from metatensor._core.tensor cimport Tensor, shape_str
from metatensor._core.types cimport KIND_INT, MAX_DIMS, dim_t
from metatensor.ops.view cimport dims_tuple, drop_dim, read_layout, slice_dim, view_of
from metatensor._core.gradient_parts import Bodies, within
from metatensor._core.gradients import gradient, same_gradient

_of = Bodies("views")

cdef extern from *:
    """
    #define MT_DIM_MAX 9223372036854775807LL
    """
    dim_t DIM_MAX "MT_DIM_MAX"


cdef Tensor part(Tensor t, int d, dim_t start, dim_t length):
    """Return a view of elements start to start + length of dimension `d`. The caller has checked the bounds."""
    cdef Layout lay
    read_layout(t, &lay)
    lay.sizes[d] = length
    if start:
        lay.offset = add_dims(lay.offset, mul_dims(start, lay.strides[d]))
    return view_of(t, &lay)


cdef Tensor selected(Tensor t, int d, dim_t index):
    """Return a view of one index of dimension `d`, without that dimension. The caller has checked the index."""
    cdef Layout lay
    read_layout(t, &lay)
    if index:
        lay.offset = add_dims(lay.offset, mul_dims(index, lay.strides[d]))
    drop_dim(&lay, d)
    return view_of(t, &lay)


cdef object select_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t index = int_arg(c, 2), size
    cdef int d
    if t.ndim == 0:
        raise IndexError(f"{op_name(c)}(): a 0-d tensor has no dimension to select from")
    d = dim_arg(c, 1, t.ndim)
    size = t.sizes[d]
    if index < -size or index >= size:
        raise IndexError(f"{op_name(c)}(): index {index} is out of range for dimension {d} of shape {shape_str(t)}")
    return selected(t, d, index + size if index < 0 else index)


cdef object narrow_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t start = int_arg(c, 2), length = int_arg(c, 3), size
    cdef int d
    if t.ndim == 0:
        raise RuntimeError(f"{op_name(c)}(): a 0-d tensor has no dimension to narrow")
    if length < 0:
        raise RuntimeError(f"{op_name(c)}(): the length must not be negative, got {length}")
    d = dim_arg(c, 1, t.ndim)
    size = t.sizes[d]
    if start < -size or start > size:
        raise IndexError(f"{op_name(c)}(): start {start} is out of range for dimension {d} of shape {shape_str(t)}")
    if start < 0:
        start += size
    if length > size - start:
        raise RuntimeError(f"{op_name(c)}(): start {start} and length {length} exceed dimension {d} of shape {shape_str(t)}")
    return part(t, d, start, length)


cdef object slice_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t start = 0 if is_none(c, 2) else int_arg(c, 2)
    cdef dim_t stop = DIM_MAX if is_none(c, 3) else int_arg(c, 3)
    cdef dim_t step = int_arg(c, 4)
    cdef Layout lay
    cdef int d
    if t.ndim == 0:
        raise IndexError(f"{op_name(c)}(): a 0-d tensor has no dimension to slice")
    d = dim_arg(c, 1, t.ndim)
    if step <= 0:
        raise RuntimeError(f"{op_name(c)}(): the step must be positive, got {step}")
    read_layout(t, &lay)
    slice_dim(&lay, d, start, stop, step)
    return view_of(t, &lay)


define("select(Tensor(a) input, int dim, int index) -> Tensor", select_meta, VIEW,
       "Return a view at one index of dimension `dim`, without that dimension.")
gradient("select", input=lambda grad, input_meta, dim, index: within(grad, input_meta.shape, "select", dim, index))


cdef object narrow_tensor_meta(Call* c):
    cdef Tensor start = tensor_arg(c, 2)
    cdef object value
    if start.ndim or start.dtype.kind != KIND_INT:
        raise RuntimeError(f"{op_name(c)}(): start must be an int or a 0-d integer tensor, got {start.dtype.name} "
                           f"of shape {shape_str(start)}")
    value = int(start)
    hold(c, value)
    c.args[2] = <PyObject*>value
    return narrow_meta(c)


# The overload with a tensor comes first, because a tensor of one element and any shape is also accepted as an int.
define("narrow(Tensor(a) input, int dim, Tensor start, int length) -> Tensor", narrow_tensor_meta, VIEW,
       "Return a view of `length` elements of dimension `dim` from `start` on. `start` is an int or a 0-d integer "
       "tensor.")
gradient("narrow", node="SliceBackward0",
         input=lambda grad, input_meta, dim, start, length: within(grad, input_meta.shape, "narrow", dim, start, length))
define("narrow.int(Tensor(a) input, int dim, int start, int length) -> Tensor", narrow_meta, VIEW)
gradient("narrow.int", node="SliceBackward0",
         input=lambda grad, input_meta, dim, start, length: within(grad, input_meta.shape, "narrow", dim, start, length))
define("slice(Tensor(a) input, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor", slice_meta,
       VIEW | FUNCTION_ONLY | METHOD_ONLY,
       "Return a view of start:end:step along dimension `dim`. Bounds are clipped as in Python. `step` must be "
       "positive.")
gradient("slice", input=lambda grad, input_meta, dim, start, end, step: within(grad, input_meta.shape, "slice", dim, start, end, step))


# Diagonals and windows --------------------------------------------------------------------------

cdef Tensor diagonal_view(Tensor t, dim_t offset, int d1, int d2):
    """Return a view of a diagonal of the matrices in dimensions `d1` and `d2`, as a new last dimension."""
    cdef Layout lay
    cdef dim_t n, s1 = t.strides[d1], s2 = t.strides[d2]
    read_layout(t, &lay)
    if offset >= 0:
        n = min(t.sizes[d1], max(t.sizes[d2] - offset, 0))
        if n > 0:
            lay.offset = add_dims(lay.offset, mul_dims(offset, s2))
    else:
        n = min(max(t.sizes[d1] + offset, 0), t.sizes[d2])
        if n > 0:
            lay.offset = add_dims(lay.offset, mul_dims(-offset, s1))
    drop_dim(&lay, max(d1, d2))
    drop_dim(&lay, min(d1, d2))
    lay.sizes[lay.ndim] = n
    lay.strides[lay.ndim] = add_dims(s1, s2)
    lay.ndim += 1
    return view_of(t, &lay)


cdef object diagonal_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t offset = int_arg(c, 1)
    cdef int d1 = dim_arg(c, 2, t.ndim), d2 = dim_arg(c, 3, t.ndim)
    if d1 == d2:
        raise RuntimeError(f"{op_name(c)}(): the two dimensions must differ, got {arg(c, 2)} and {arg(c, 3)} for shape {shape_str(t)}")
    # Limit the offset to avoid overflow. A larger offset selects no elements either.
    offset = max(min(offset, t.sizes[d2]), -t.sizes[d1])
    return diagonal_view(t, offset, d1, d2)


cdef object unfold_meta(Call* c):
    """Return a view of windows of `size` elements, `step` apart, as a new last dimension."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef int d = dim_arg(c, 1, t.ndim)
    cdef dim_t size = int_arg(c, 2), step = int_arg(c, 3), n = t.sizes[d] if t.ndim else 1
    cdef Layout lay
    if t.ndim >= MAX_DIMS:
        raise RuntimeError(f"{op_name(c)}(): at most {MAX_DIMS} dimensions are supported, got {t.ndim + 1}")
    if step <= 0:
        raise RuntimeError(f"{op_name(c)}(): the step must be positive, got {step}")
    if size < 0 or size > n:
        raise RuntimeError(f"{op_name(c)}(): windows of {size} do not fit in dimension {d} of shape {shape_str(t)}")
    read_layout(t, &lay)
    lay.sizes[t.ndim] = size
    lay.strides[t.ndim] = t.strides[d] if t.ndim else 1
    lay.ndim += 1
    if t.ndim:
        lay.sizes[d] = (n - size) // step + 1
        lay.strides[d] = mul_dims(lay.strides[d], step)
    return view_of(t, &lay)


define("diagonal(Tensor(a) input, int offset=0, int dim1=0, int dim2=1) -> Tensor", diagonal_meta, VIEW,
       "Return a view of a diagonal of the matrices in dimensions `dim1` and `dim2`, as a new last dimension. A "
       "positive `offset` selects a diagonal above the main diagonal, and a negative one a diagonal below it.")
gradient("diagonal", input=lambda grad, input_meta, offset, dim1, dim2: within(grad, input_meta.shape, "diagonal", offset, dim1, dim2))
define("linalg.diagonal(Tensor(a) A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor", diagonal_meta, VIEW,
       "Like `diagonal`, but by default for the matrices in the last two dimensions.")
gradient("linalg.diagonal", node="DiagonalBackward0",
         A=lambda grad, A_meta, offset, dim1, dim2: within(grad, A_meta.shape, "diagonal", offset, dim1, dim2))
define("unfold(Tensor(a) input, int dimension, int size, int step) -> Tensor", unfold_meta, VIEW | METHOD_ONLY,
       "Return a view of sliding windows of `size` elements along `dimension`, `step` apart, as a new last dimension.")
gradient("unfold", input=lambda grad, input_meta, dimension, size, step: _of.unfolded(grad, input_meta.shape, dimension, size, step))


# as_strided -----------------------------------------------------------------------------------------

cdef object as_strided_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef Layout lay
    cdef int i, n
    lay.ndim = dims_arg(c, 1, lay.sizes)
    n = dims_arg(c, 2, lay.strides)
    if n != lay.ndim:
        raise RuntimeError(f"{op_name(c)}(): {lay.ndim} sizes and {n} strides do not match")
    lay.offset = t.offset if is_none(c, 3) else int_arg(c, 3)
    for i in range(n):
        if lay.sizes[i] < 0 or lay.strides[i] < 0:
            raise RuntimeError(f"{op_name(c)}(): negative sizes or strides are not supported, got "
                               f"{dims_tuple(n, lay.sizes)} and {dims_tuple(n, lay.strides)}")
    count(n, lay.sizes)
    check_bounds(t.storage, t.dtype, &lay, op_name(c))
    return view_of(t, &lay)


define("as_strided(Tensor(a) input, int[] size, int[] stride, int? storage_offset=None) -> Tensor", as_strided_meta,
       VIEW | INPLACE,
       "Return a view of the storage with the given sizes, strides and offset, in elements. The offset defaults to "
       "that of `input`. Raise RuntimeError if the view exceeds the storage.")
gradient("as_strided",
         input=lambda grad, input_layout, size, stride, storage_offset: _of.strided(grad, input_layout, size, stride, storage_offset))


# Several views -----------------------------------------------------------------------------------------

cdef enum: MOST_VIEWS = 1 << 24     # a limit on results, so that huge counts raise instead of exhausting memory


cdef int _few(Call* c, dim_t n) except -1:
    if n > MOST_VIEWS:
        raise RuntimeError(f"{op_name(c)}(): the call would return {n} tensors, but at most {<int>MOST_VIEWS} are "
                           "supported")
    return 0


cdef object _even(Call* c, Tensor t, int d, dim_t size):
    """Return views of `size` elements each along `d`. The last one may be smaller."""
    cdef dim_t total = t.sizes[d], start = 0
    if total == 0 or size >= total:
        return (part(t, d, 0, total),)
    _few(c, total // size)
    out = []
    while start < total:
        out.append(part(t, d, start, min(size, total - start)))
        start += size
    return tuple(out)


cdef int _need_dim(Call* c, Tensor t) except -1:
    if t.ndim == 0:
        raise RuntimeError(f"{op_name(c)}(): at least 1 dimension is needed, got a 0-d tensor")
    return 0


cdef object split_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t size = int_arg(c, 1)
    cdef int d
    _need_dim(c, t)
    d = dim_arg(c, 2, t.ndim)
    if size < 0 or (size == 0 and t.sizes[d]):
        raise RuntimeError(f"{op_name(c)}(): cannot split dimension {d} of shape {shape_str(t)} into pieces of {size}")
    return _even(c, t, d, size)


cdef object split_sizes_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t start = 0, size
    cdef int d
    _need_dim(c, t)
    d = dim_arg(c, 2, t.ndim)
    out = []
    for item in arg(c, 1):
        size = item
        if size < 0 or size > t.sizes[d] - start:
            raise RuntimeError(f"{op_name(c)}(): the sizes {list(arg(c, 1))} must not be negative and must add up to the "
                               f"size of dimension {d}, {t.sizes[d]}, of shape {shape_str(t)}")
        out.append(part(t, d, start, size))
        start += size
    if start != t.sizes[d]:
        raise RuntimeError(f"{op_name(c)}(): the sizes {list(arg(c, 1))} add up to {start}, not to the size of dimension "
                           f"{d}, {t.sizes[d]}, of shape {shape_str(t)}")
    return tuple(out)


cdef object chunk_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t n = int_arg(c, 1)
    cdef int d
    _need_dim(c, t)
    if n <= 0:
        raise RuntimeError(f"{op_name(c)}(): the number of chunks must be positive, got {n}")
    d = dim_arg(c, 2, t.ndim)
    if t.sizes[d] == 0:
        _few(c, n)
        return tuple([part(t, d, 0, 0) for _ in range(n)])
    return _even(c, t, d, (t.sizes[d] - 1) // n + 1)


cdef object _sections(Call* c, Tensor t, int d, dim_t n):
    """Return n views along `d` whose sizes differ by at most one. The larger views come first."""
    cdef dim_t small, large, i, start = 0, size
    if n <= 0:
        raise RuntimeError(f"{op_name(c)}(): the number of sections must be positive, got {n}")
    _few(c, n)
    small, large = t.sizes[d] // n, t.sizes[d] % n
    out = []
    for i in range(n):
        size = small + (1 if i < large else 0)
        out.append(part(t, d, start, size))
        start += size
    return tuple(out)


cdef object _at_indices(Tensor t, int d, object indices):
    """Return views of the parts between the indices. The indices are clipped like the bounds of a slice."""
    cdef Layout lay
    cdef dim_t start = 0, stop
    out = []
    for item in indices:
        stop = item
        read_layout(t, &lay)
        slice_dim(&lay, d, start, stop, 1)
        out.append(view_of(t, &lay))
        start = stop
    read_layout(t, &lay)
    slice_dim(&lay, d, start, DIM_MAX, 1)
    out.append(view_of(t, &lay))
    return tuple(out)


cdef object by_tensor_meta(Call* c):
    """Split at the indices in an int64 vector, or in as many sections as a 0-d tensor says."""
    cdef Tensor t = tensor_arg(c, 0), given = tensor_arg(c, 1)
    if given.ndim > 1 or given.dtype.code != I64:
        raise RuntimeError(f"{op_name(c)}(): a tensor of indices must be an int64 vector, got {given.dtype.name} of shape "
                           f"{shape_str(given)}")
    _need_dim(c, t)
    if given.ndim == 0:
        return _sections(c, t, dim_arg(c, 2, t.ndim), given.item())
    return _at_indices(t, dim_arg(c, 2, t.ndim), given.tolist())


cdef object sections_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    _need_dim(c, t)
    return _sections(c, t, dim_arg(c, 2, t.ndim), int_arg(c, 1))


cdef object indices_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    _need_dim(c, t)
    return _at_indices(t, dim_arg(c, 2, t.ndim), arg(c, 1))


cdef int _fixed_dim(Call* c, Tensor t) except -1:
    """Return the dimension that hsplit, vsplit or dsplit splits."""
    cdef str name = op_name(c)
    cdef int least = 1 if name == "hsplit" else 2 if name == "vsplit" else 3
    if t.ndim < least:
        raise RuntimeError(f"{name}(): at least {least} dimensions are needed, got shape {shape_str(t)}")
    if name == "hsplit":
        return 0 if t.ndim == 1 else 1
    return 0 if name == "vsplit" else 2


cdef object fixed_sections_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef int d = _fixed_dim(c, t)
    cdef dim_t n = int_arg(c, 1)
    if n == 0 or t.sizes[d] % n:
        raise RuntimeError(f"{op_name(c)}(): dimension {d} of shape {shape_str(t)} cannot be split in {n} equal sections")
    return _sections(c, t, d, n)


cdef object fixed_indices_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    return _at_indices(t, _fixed_dim(c, t), arg(c, 1))


cdef object unbind_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef int d
    cdef dim_t i
    if t.ndim == 0:
        raise IndexError(f"{op_name(c)}(): a 0-d tensor has no dimension to unbind")
    d = dim_arg(c, 1, t.ndim)
    _few(c, t.sizes[d])
    return tuple([selected(t, d, i) for i in range(t.sizes[d])])


define("split(Tensor(a) input, int split_size_or_sections, int dim=0) -> Tensor[]", split_meta, VIEW | MULTI_VIEW,
       "Split along `dim` into views of equal size (the last may be smaller), or of the sizes in a list. Returns a "
       "tuple.")
gradient("split", input=lambda grads, input_meta, split_size_or_sections, dim: _of.pieces(grads, input_meta, split_size_or_sections, dim))
define("split.sizes(Tensor(a) input, int[] split_size_or_sections, int dim=0) -> Tensor[]", split_sizes_meta, VIEW | MULTI_VIEW)
gradient("split.sizes", node="SplitWithSizesBackward0",
         input=lambda grads, input_meta, split_size_or_sections, dim: _of.pieces(grads, input_meta, split_size_or_sections, dim))
define("split.Tensor(Tensor(a) input, int split_size, int dim=0) -> Tensor[]", split_meta, VIEW | MULTI_VIEW)
gradient("split.Tensor", input=lambda grads, input_meta, split_size, dim: _of.pieces(grads, input_meta, split_size, dim))
define("split.size_list(Tensor(a) input, int[] split_size, int dim=0) -> Tensor[]", split_sizes_meta, VIEW | MULTI_VIEW)
gradient("split.size_list", node="SplitWithSizesBackward0",
         input=lambda grads, input_meta, split_size, dim: _of.pieces(grads, input_meta, split_size, dim))
define("split_with_sizes(Tensor(a) input, int[] split_sizes, int dim=0) -> Tensor[]", split_sizes_meta, VIEW | MULTI_VIEW,
       "Split along `dim` into views of the given sizes. Returns a tuple.")
gradient("split_with_sizes", input=lambda grads, input_meta, split_sizes, dim: _of.pieces(grads, input_meta, split_sizes, dim))
define("chunk(Tensor(a) input, int chunks, int dim=0) -> Tensor[]", chunk_meta, VIEW | MULTI_VIEW,
       "Split along `dim` into at most `chunks` views of equal size (the last may be smaller). Returns a tuple.")
gradient("chunk", node="SplitBackward0", input=lambda grads, input_meta, chunks, dim: _of.chunks(grads, input_meta, chunks, dim))
define("unsafe_split(Tensor(a) input, int split_size, int dim=0) -> Tensor[]", split_meta, VIEW, "Like `split`.")
gradient("unsafe_split", input=lambda grads, input_meta, split_size, dim: _of.pieces(grads, input_meta, split_size, dim))
define("unsafe_split_with_sizes(Tensor(a) input, int[] split_sizes, int dim=0) -> Tensor[]", split_sizes_meta, VIEW,
       "Like `split_with_sizes`.")
gradient("unsafe_split_with_sizes", input=lambda grads, input_meta, split_sizes, dim: _of.pieces(grads, input_meta, split_sizes, dim))
define("unsafe_chunk(Tensor(a) input, int chunks, int dim=0) -> Tensor[]", chunk_meta, VIEW, "Like `chunk`.")
gradient("unsafe_chunk", node="UnsafeSplitBackward0",
         input=lambda grads, input_meta, chunks, dim: _of.chunks(grads, input_meta, chunks, dim))
# The overload with a tensor comes first, because a tensor of one element is also accepted as a number.
define("tensor_split(Tensor(a) input, Tensor tensor_indices_or_sections, int dim=0) -> Tensor[]", by_tensor_meta, VIEW | MIXED,
       "Split along `dim` into a number of views whose sizes differ by at most one, or at the given indices. Returns "
       "a tuple.")
gradient("tensor_split", node="SliceBackward0", input=lambda grads, input_meta, tensor_indices_or_sections, dim:
         _of.sections(grads, input_meta, tensor_indices_or_sections.tolist(), dim))
define("tensor_split.number(Tensor(a) input, int indices_or_sections, int dim=0) -> Tensor[]", sections_meta, VIEW)
gradient("tensor_split.number", node="SliceBackward0",
         input=lambda grads, input_meta, indices_or_sections, dim: _of.sections(grads, input_meta, indices_or_sections, dim))
define("tensor_split.indices_or_sections(Tensor(a) input, int[] indices_or_sections, int dim=0) -> Tensor[]",
       indices_meta, VIEW)
gradient("tensor_split.indices_or_sections", node="SliceBackward0",
         input=lambda grads, input_meta, indices_or_sections, dim: _of.sections(grads, input_meta, indices_or_sections, dim))
define("tensor_split.sections(Tensor(a) input, int sections, int dim=0) -> Tensor[]", sections_meta, VIEW)
gradient("tensor_split.sections", node="SliceBackward0",
         input=lambda grads, input_meta, sections, dim: _of.sections(grads, input_meta, sections, dim))
define("tensor_split.indices(Tensor(a) input, int[] indices, int dim=0) -> Tensor[]", indices_meta, VIEW)
gradient("tensor_split.indices", node="SliceBackward0",
         input=lambda grads, input_meta, indices, dim: _of.sections(grads, input_meta, indices, dim))
for name, text in (("hsplit", "dimension 1 (0 for a vector)"), ("vsplit", "dimension 0"), ("dsplit", "dimension 2")):
    define(name + "(Tensor(a) input, int indices_or_sections) -> Tensor[]", fixed_sections_meta, VIEW,
           f"Split along {text} into a number of equal views, or at the given indices. Returns a tuple.")
    define(name + ".indices_or_sections(Tensor(a) input, int[] indices_or_sections) -> Tensor[]", fixed_indices_meta, VIEW)
    define(name + ".sections(Tensor(a) input, int sections) -> Tensor[]", fixed_sections_meta, VIEW)
    define(name + ".indices(Tensor(a) input, int[] indices) -> Tensor[]", fixed_indices_meta, VIEW)
gradient("hsplit", node="SliceBackward0",
         input=lambda grads, input_meta, indices_or_sections: _of.sections(grads, input_meta, indices_or_sections, min(len(input_meta.shape) - 1, 1)))
gradient("hsplit.sections", node="SliceBackward0", input=lambda grads, input_meta, sections: _of.sections(grads, input_meta, sections, min(len(input_meta.shape) - 1, 1)))
gradient("hsplit.indices", node="SliceBackward0", input=lambda grads, input_meta, indices: _of.sections(grads, input_meta, indices, min(len(input_meta.shape) - 1, 1)))
same_gradient("hsplit.indices_or_sections", "hsplit", "SliceBackward0")
gradient("vsplit", node="SliceBackward0",
         input=lambda grads, input_meta, indices_or_sections: _of.sections(grads, input_meta, indices_or_sections, 0))
gradient("vsplit.sections", node="SliceBackward0", input=lambda grads, input_meta, sections: _of.sections(grads, input_meta, sections, 0))
gradient("vsplit.indices", node="SliceBackward0", input=lambda grads, input_meta, indices: _of.sections(grads, input_meta, indices, 0))
same_gradient("vsplit.indices_or_sections", "vsplit", "SliceBackward0")
gradient("dsplit", node="SliceBackward0",
         input=lambda grads, input_meta, indices_or_sections: _of.sections(grads, input_meta, indices_or_sections, 2))
gradient("dsplit.sections", node="SliceBackward0", input=lambda grads, input_meta, sections: _of.sections(grads, input_meta, sections, 2))
gradient("dsplit.indices", node="SliceBackward0", input=lambda grads, input_meta, indices: _of.sections(grads, input_meta, indices, 2))
same_gradient("dsplit.indices_or_sections", "dsplit", "SliceBackward0")
define("unbind(Tensor(a) input, int dim=0) -> Tensor[]", unbind_meta, VIEW | MULTI_VIEW,
       "Return a tuple of views, one for each index of dimension `dim`, without that dimension.")
gradient("unbind", input=lambda grads, input_meta, dim: _of.unbound(grads, input_meta, dim))
