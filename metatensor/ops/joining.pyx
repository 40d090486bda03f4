"""Joining tensors (cat, stack and similar ops), and functions of several tensors such as meshgrid and block_diag."""
import warnings

from cpython.object cimport PyObject
from metatensor._core.device cimport META
from metatensor._core.dtype cimport DType, can_cast_to, promote
from metatensor._core.layout cimport (
    Layout, add_dims, broadcast_into, copy_dims, mul_dims, set_format, suggest_format, view_strides,
)
from metatensor._core.op cimport (
    NO_OVERLAP, COMPOSITE, FUNCTION_ONLY, MIXED, OUT, Call, Overload, alias_op, arg, call, define, int_arg, is_none,
    op_name, result_device, tensor_arg, tensors_arg, wrap,
)
from metatensor._core.tensor cimport Tensor, new_contiguous, new_strided, shape_str
from metatensor._core.types cimport FORMAT_CONTIGUOUS, MAX_DIMS, dim_t
from metatensor.ops.view cimport dims_tuple, insert_dim, read_layout, reshape_to
from metatensor._core.gradient_parts import Bodies
from metatensor._core.gradients import gradient

_of = Bodies("views")


# cat --------------------------------------------------------------------------------------

cdef inline bint _skipped(Tensor t) noexcept:
    """Return whether cat ignores a tensor. Tensors of shape (0,) may be joined with any shape, for compatibility."""
    return t.ndim == 1 and t.sizes[0] == 0


cdef DType _joined_dtype(list tensors):
    cdef DType d = (<Tensor>tensors[0]).dtype
    for t in tensors:
        if (<Tensor>t).dtype is not d:
            d = promote(d, (<Tensor>t).dtype)
    return d


cdef int _check_cat(Call* c, Tensor first, Tensor t, int d, Py_ssize_t position) except -1:
    cdef int i
    if t.ndim != first.ndim:
        raise RuntimeError(f"{op_name(c)}(): all tensors must have the same number of dimensions: tensor {position} "
                           f"of shape {shape_str(t)} does not match shape {shape_str(first)}")
    for i in range(t.ndim):
        if i != d and t.sizes[i] != first.sizes[i]:
            raise RuntimeError(f"{op_name(c)}(): sizes must match except in dimension {d}: tensor {position} of shape "
                               f"{shape_str(t)} does not match shape {shape_str(first)}")
    return 0


cdef int _cat_layout(Call* c, list tensors, Layout* lay, int* dim) except -1:
    """Compute the sizes and strides of cat. Return 0 if every tensor is skipped, else 1."""
    cdef Tensor t, first = None
    cdef Py_ssize_t k
    cdef int d = 0, fmt = -1, own
    for k in range(len(tensors)):
        t = <Tensor>tensors[k]
        if t.ndim == 0:
            raise RuntimeError(f"{op_name(c)}(): tensor {k} is 0-d and cannot be joined; stack() them instead")
        own = FORMAT_CONTIGUOUS if t.ndim < 4 else suggest_format(t.ndim, t.sizes, t.strides)
        fmt = own if fmt < 0 or fmt == own else FORMAT_CONTIGUOUS
        if _skipped(t):
            continue
        if first is None:
            first = t
            d = dim[0] = wrap(c, int_arg(c, 1), t.ndim)
            lay.ndim = t.ndim
            copy_dims(lay.sizes, t.sizes, t.ndim)
            continue
        _check_cat(c, first, t, d, k)
        lay.sizes[d] = add_dims(lay.sizes[d], t.sizes[d])
    if first is None:
        return 0
    set_format(lay.ndim, lay.sizes, lay.strides, fmt)
    return 1


cdef int _check_out(Call* c, list tensors) except -1:
    """Raise TypeError if the joined dtype cannot be cast to that of out=. On meta, check nothing."""
    cdef DType d
    if c.out == NULL or c.device == <PyObject*>META or not isinstance(<object>c.out, Tensor):
        return 0
    d = _joined_dtype(tensors)
    if not can_cast_to(d, (<Tensor><object>c.out).dtype):
        raise TypeError(f"{op_name(c)}(): the joined dtype {d.name} cannot be cast to the dtype of out=, "
                        f"{(<Tensor><object>c.out).dtype.name}")
    return 0


cdef int _need_some(Call* c, list tensors) except -1:
    if not tensors:
        raise ValueError(f"{op_name(c)}(): at least one tensor is needed, got an empty list")
    return 0


cdef Tensor _first_counted(list tensors):
    """Return the first tensor that cat does not skip, or the first of all if it skips them all."""
    cdef Tensor t
    for t in tensors:
        if t.ndim != 1 or t.total:
            return t
    return <Tensor>tensors[0]


cdef object cat_meta(Call* c):
    cdef list tensors = tensors_arg(c, 0)
    cdef Layout lay
    cdef Tensor first
    cdef int d
    _need_some(c, tensors)
    if c.out != NULL:
        first = _first_counted(tensors)
        if first.ndim:
            if not _skipped(first):
                wrap(c, int_arg(c, 1), first.ndim)
            _check_out(c, tensors)
    if not _cat_layout(c, tensors, &lay, &d):
        lay.ndim = 1
        lay.sizes[0] = 0
        lay.strides[0] = 1
    return new_strided(lay.ndim, lay.sizes, lay.strides, _joined_dtype(tensors), result_device(c))


define("cat(Tensor[] tensors, int dim=0) -> Tensor", cat_meta, OUT | NO_OVERLAP,
       "Concatenate tensors along `dim`. Their shapes must agree in the other dimensions. Tensors of shape (0,) are "
       "ignored. The dtypes are promoted.")
gradient("cat", linear="tensors", tensors=lambda grad, tensors_layout, dim: _of.concatenated(grad, tensors_layout, dim))
alias_op("concat", "cat")
alias_op("concatenate", "cat")


# stack ----------------------------------------------------------------------------------------

cdef object stack_meta(Call* c):
    """Compute the result of stack. Its strides are those of cat along `dim`, after splitting that dimension. If the new
    dimension is the last one, they are those of cat of the unsqueezed tensors."""
    cdef list tensors = tensors_arg(c, 0)
    cdef Tensor t, first
    cdef Layout lay
    cdef Layout joined
    cdef int d, i, fmt = -1, own
    cdef Py_ssize_t k
    if not tensors:
        raise RuntimeError(f"{op_name(c)}(): at least one tensor is needed, got an empty list")
    first = <Tensor>tensors[0]
    d = wrap(c, int_arg(c, 1), first.ndim + 1)
    if first.ndim >= MAX_DIMS:
        raise RuntimeError(f"{op_name(c)}(): at most {MAX_DIMS} dimensions are supported")
    for k in range(len(tensors)):
        t = <Tensor>tensors[k]
        if t.ndim != first.ndim:
            raise RuntimeError(f"{op_name(c)}(): all tensors must have the same shape: tensor {k} has {shape_str(t)}, but "
                               f"the first one has {shape_str(first)}")
        for i in range(t.ndim):
            if t.sizes[i] != first.sizes[i]:
                raise RuntimeError(f"{op_name(c)}(): all tensors must have the same shape: tensor {k} has "
                                   f"{shape_str(t)}, but the first one has {shape_str(first)}")
        if t.ndim < 3:
            own = FORMAT_CONTIGUOUS
        else:
            read_layout(t, &lay)
            if d == t.ndim:
                insert_dim(&lay, d)
            own = suggest_format(lay.ndim, lay.sizes, lay.strides)
        fmt = own if fmt < 0 or fmt == own else FORMAT_CONTIGUOUS
    _check_out(c, tensors)
    read_layout(first, &lay)
    insert_dim(&lay, d)
    lay.sizes[d] = len(tensors)
    if d == first.ndim or fmt == FORMAT_CONTIGUOUS:
        set_format(lay.ndim, lay.sizes, lay.strides, fmt)
    else:
        read_layout(first, &joined)
        joined.sizes[d] = mul_dims(joined.sizes[d], len(tensors))
        set_format(joined.ndim, joined.sizes, joined.strides, fmt)
        view_strides(joined.ndim, joined.sizes, joined.strides, lay.ndim, lay.sizes, lay.strides)
    return new_strided(lay.ndim, lay.sizes, lay.strides, _joined_dtype(tensors), result_device(c))


define("stack(Tensor[] tensors, int dim=0) -> Tensor", stack_meta, OUT | NO_OVERLAP,
       "Stack tensors of the same shape along a new dimension `dim`. The dtypes are promoted.")
gradient("stack", linear="tensors", tensors=lambda grad, dim: grad.unbind(dim))


cdef object _at_least(Tensor t, int n):
    """Return a tensor with at least n dimensions. For n=3, shapes (), (i,), (i, j) become (1, 1, 1), (1, i, 1),
    (i, j, 1)."""
    cdef dim_t sizes[3]
    cdef int i
    if t.ndim >= n:
        return t
    for i in range(3):
        sizes[i] = 1
    if t.ndim == 1:
        sizes[1] = t.sizes[0]
    elif t.ndim == 2:
        sizes[0], sizes[1] = t.sizes[0], t.sizes[1]
    return reshape_to(t, n, sizes)


cdef object hvd_stack_body(Call* c):
    """Compute hstack, vstack and dstack: add dimensions like atleast_1d, atleast_2d or atleast_3d, then concatenate."""
    cdef list tensors = tensors_arg(c, 0)
    cdef str name = op_name(c)
    cdef int n = 1 if name == "hstack" else 3 if name == "dstack" else 2
    if not tensors:
        raise RuntimeError(f"{name}(): at least one tensor is needed, got an empty list")
    _check_out(c, tensors)
    raised = [_at_least(<Tensor>t, n) for t in tensors]
    if name == "hstack":
        return call("cat", (raised, 0 if (<Tensor>raised[0]).ndim == 1 else 1))
    return call("cat", (raised, n - 1 if n == 3 else 0))


cdef object column_stack_body(Call* c):
    """Turn vectors into columns and concatenate along dimension 1."""
    cdef Tensor t
    cdef dim_t sizes[2]
    if not tensors_arg(c, 0):
        raise RuntimeError(f"{op_name(c)}(): at least one tensor is needed, got an empty list")
    _check_out(c, tensors_arg(c, 0))
    columns = []
    for t in tensors_arg(c, 0):
        if t.ndim <= 1:
            sizes[0] = t.total
            sizes[1] = 1
            t = reshape_to(t, 2, sizes)
        columns.append(t)
    return call("cat", (columns, 1))


define("hstack(Tensor[] tensors) -> Tensor", hvd_stack_body, COMPOSITE | OUT | NO_OVERLAP,
       "Concatenate tensors along dimension 1, or along dimension 0 if the first has at most 1 dimension.")
define("vstack(Tensor[] tensors) -> Tensor", hvd_stack_body, COMPOSITE | OUT | NO_OVERLAP,
       "Concatenate tensors along dimension 0, after turning vectors into matrices of one row.")
define("dstack(Tensor[] tensors) -> Tensor", hvd_stack_body, COMPOSITE | OUT | NO_OVERLAP,
       "Concatenate tensors along dimension 2, after giving them at least 3 dimensions like `atleast_3d`.")
alias_op("row_stack", "vstack")
define("column_stack(Tensor[] tensors) -> Tensor", column_stack_body, COMPOSITE | OUT | NO_OVERLAP,
       "Concatenate tensors along dimension 1, after turning vectors into columns.")


# Tensors as separate arguments -------------------------------------------------------------------

cdef enum:
    SEVERAL = 22

cdef str ARGUMENTS = ", ".join([f"Tensor? tensor{i}=None" for i in range(SEVERAL)])


cdef list _given(Call* c):
    """Return the tensors of a call, which are passed as one list or as separate arguments."""
    cdef int i
    if isinstance(arg(c, 0), (list, tuple)):
        return tensors_arg(c, 0)
    return [arg(c, i) for i in range(SEVERAL) if not is_none(c, i)]


cdef object broadcast_tensors_body(Call* c):
    cdef list tensors = _given(c)
    cdef Layout lay
    cdef Tensor t
    lay.ndim = 0
    for t in tensors:
        if broadcast_into(&lay, t.ndim, t.sizes):
            raise RuntimeError(f"{op_name(c)}(): shapes do not broadcast: " + ", ".join([shape_str(s) for s in tensors]))
    size = dims_tuple(lay.ndim, lay.sizes)
    return tuple([call("expand", (t, size)) for t in tensors])


cdef object atleast_body(Call* c):
    cdef int n = int(op_name(c)[8:9])
    if isinstance(arg(c, 0), Tensor) and is_none(c, 1):
        return _raised(tensor_arg(c, 0), n)
    return tuple([_raised(<Tensor>t, n) for t in _given(c)])


cdef object _raised(Tensor t, int n):
    """Do the same as `_at_least`, but with unsqueeze, which keeps the strides."""
    if t.ndim >= n:
        return t
    if t.ndim == 0:
        return _at_least(t, n)
    if t.ndim == 1:
        t = <Tensor>call("unsqueeze", (t, 0))
    return call("unsqueeze", (t, -1)) if n == 3 else t


cdef object meshgrid_body(Call* c):
    """Give each vector its own dimension and expand it over the others."""
    cdef list tensors = _given(c)
    cdef object indexing = arg(c, (<Overload>c.overload).nslots - 1)
    cdef Tensor t, first
    cdef dim_t sizes[MAX_DIMS]
    cdef int n = <int>len(tensors), i, k
    if n == 0 or n > MAX_DIMS:
        raise RuntimeError(f"{op_name(c)}(): 1 to {MAX_DIMS} tensors are needed, got {n}")
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f"{op_name(c)}(): indexing must be 'ij' or 'xy', got {indexing!r}")
    if indexing is None:
        warnings.warn(f"{op_name(c)}(): pass indexing='ij' or 'xy'; it defaults to 'ij' now and will be required later",
                      stacklevel=2)
    first = <Tensor>tensors[0]
    for t in tensors:
        if t.ndim > 1:
            raise RuntimeError(f"{op_name(c)}(): vectors or 0-d tensors are needed, got shape {shape_str(t)}")
        if t.dtype is not first.dtype:
            raise RuntimeError(f"{op_name(c)}(): all tensors must have the same dtype, got {first.dtype.name} and "
                               f"{t.dtype.name}")
    swap = indexing == "xy" and n > 1
    order = list(range(n))
    if swap:
        order[0], order[1] = 1, 0
    full = tuple([(<Tensor>tensors[<object>i]).total for i in order])
    grids = []
    for i in range(n):
        t = <Tensor>tensors[i]
        for k in range(n):
            sizes[k] = 1
        sizes[order.index(i)] = t.total
        grids.append(call("expand", (reshape_to(t, n, sizes), full)))
    return tuple(grids)


cdef object block_diag_body(Call* c):
    cdef list tensors = _given(c)
    if not tensors:
        return call("empty", ((1, 0),), {"dtype": _float32})
    return call("_block_diag", (tensors,))


cdef object block_diag_meta(Call* c):
    cdef list tensors = tensors_arg(c, 0)
    cdef dim_t sizes[2]
    cdef Tensor t
    cdef Py_ssize_t k
    sizes[0] = sizes[1] = 0
    if not tensors:
        raise RuntimeError(f"{op_name(c)}(): at least one tensor is needed")
    for k in range(len(tensors)):
        t = <Tensor>tensors[k]
        if t.ndim > 2:
            raise RuntimeError(f"block_diag(): at most 2 dimensions are allowed, tensor {k} has shape {shape_str(t)}")
        sizes[0] = add_dims(sizes[0], t.sizes[0] if t.ndim == 2 else 1)
        sizes[1] = add_dims(sizes[1], 1 if t.ndim == 0 else t.sizes[t.ndim - 1])
    return new_contiguous(2, sizes, _joined_dtype(tensors), result_device(c))


from metatensor._core.dtype import dtype_by_name

_float32 = dtype_by_name("float32")


cdef object cartesian_prod_body(Call* c):
    cdef list tensors = _given(c)
    cdef Tensor t
    if not tensors:
        raise RuntimeError(f"{op_name(c)}(): at least one vector is needed")
    for t in tensors:
        if t.ndim != 1:
            raise RuntimeError(f"{op_name(c)}(): vectors are needed, got shape {shape_str(t)}")
    if len(tensors) == 1:
        return tensors[0]
    return call("stack", ([call("flatten", (grid,)) for grid in call("meshgrid", (tensors,), {"indexing": "ij"})], 1))


define("broadcast_tensors(Tensor[] tensors) -> Tensor[]", broadcast_tensors_body, COMPOSITE | MIXED,
       "Views of the tensors, each expanded to their broadcast shape.")
define(f"broadcast_tensors.several({ARGUMENTS}) -> Tensor[]", broadcast_tensors_body, COMPOSITE | MIXED)
for n in (1, 2, 3):
    define(f"atleast_{n}d(Tensor[] tensors) -> Tensor[]", atleast_body, COMPOSITE,
           f"View each tensor as one that has at least {n} dimension{'s' if n > 1 else ''}. The result is one view for one "
           "tensor, and a tuple of views for a list of tensors.")
    define(f"atleast_{n}d.several({ARGUMENTS}) -> Tensor[]", atleast_body, COMPOSITE)
define("meshgrid(Tensor[] tensors, *, str? indexing=None) -> Tensor[]", meshgrid_body, COMPOSITE,
       "Coordinate grids of N vectors, as N views of the same N-dimensional shape. With `indexing` 'ij', dimension i "
       "belongs to vector i. 'xy' exchanges the first two dimensions. If `indexing` is None, a warning is issued and "
       "'ij' is used.")
define(f"meshgrid.several({ARGUMENTS}, *, str? indexing=None) -> Tensor[]", meshgrid_body, COMPOSITE)
define("block_diag(Tensor[] tensors) -> Tensor", block_diag_body, COMPOSITE,
       "Block-diagonal matrix with the given matrices as blocks. Vectors count as rows and 0-d tensors as 1 x 1 "
       "matrices.")
define(f"block_diag.several({ARGUMENTS}) -> Tensor", block_diag_body, COMPOSITE)
define("_block_diag(Tensor[] tensors) -> Tensor", block_diag_meta, FUNCTION_ONLY)
gradient("_block_diag", linear="tensors", node="BlockDiagBackward0", tensors=lambda grad, tensors_layout: _of.blocks(grad, tensors_layout))
define("cartesian_prod(Tensor[] tensors) -> Tensor", cartesian_prod_body, COMPOSITE,
       "Cartesian product of N vectors: a matrix whose rows are all combinations of one element of each vector. A "
       "single vector is returned unchanged.")
define(f"cartesian_prod.several({ARGUMENTS}) -> Tensor", cartesian_prod_body, COMPOSITE)
