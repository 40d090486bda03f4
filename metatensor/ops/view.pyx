"""Views of all elements in other shapes: view, reshape, flatten, squeeze, unsqueeze, expand and similar ops."""
from cpython.object cimport PyObject
from metatensor._core.device cimport META
from metatensor._core.dtype cimport DType
from metatensor._core.rule_node cimport renamed
from metatensor._core.layout cimport (
    MT_MUL_OVERFLOW, Layout, add_dims, copy_dims, count, infer_size, mul_dims, view_strides,
)
from metatensor._core.op cimport (
    COMPOSITE, FUNCTION_ONLY, INPLACE, METHOD_ONLY, MIXED, NO_GRAD, VIEW, Call, Op, arg, as_declared, call, define, dim_arg, dim_list,
    dims_arg, int_arg, op_name, tensor_arg,
)
from metatensor._core.size cimport make_tuple
from metatensor._core.tensor cimport Tensor, alias, hooks, new_view, shape_str
from metatensor._core.types cimport (
    MAX_DIMS, T_CONJ, T_CONTIGUOUS, T_FIXED_VIEW, T_MULTI_VIEW, T_NEG, T_REQUIRES_GRAD, T_VIEW, dim_t,
)

from metatensor._core.formats import contiguous_format
from metatensor._core.gradient_parts import reshaped
from metatensor._core.gradients import gradient


cdef object dims_tuple(int n, const dim_t* dims):
    return make_tuple(n, dims)


cdef int insert_dim(Layout* lay, int d) except -1:
    """Insert a dimension of size 1 before dimension `d`, with the stride that keeps the layout contiguous."""
    cdef int i
    if lay.ndim >= MAX_DIMS:
        raise RuntimeError(f"at most {MAX_DIMS} dimensions are supported")
    for i in range(lay.ndim, d, -1):
        lay.sizes[i] = lay.sizes[i - 1]
        lay.strides[i] = lay.strides[i - 1]
    lay.strides[d] = mul_dims(lay.sizes[d + 1], lay.strides[d + 1]) if d < lay.ndim else 1
    lay.sizes[d] = 1
    lay.ndim += 1
    return 0


cdef int slice_dim(Layout* lay, int d, dim_t start, dim_t stop, dim_t step) except -1:
    """Restrict dimension `d` to start:stop:step. Bounds are clipped as in Python. `step` must be positive."""
    cdef dim_t n = lay.sizes[d], stride = lay.strides[d]
    if start < 0:
        start = max(start + n, 0)
    elif start > n:
        start = n
    if stop < 0:
        stop += n
    if stop < start:
        stop = start
    elif stop > n:
        stop = n
    # The usual (stop - start + step - 1) // step would overflow for a huge step.
    lay.sizes[d] = (stop - start - 1) // step + 1 if stop > start else 0
    if start:
        lay.offset = add_dims(lay.offset, mul_dims(start, stride))
    # If the stride overflows, at most one element is left and the stride does not matter.
    if step != 1 and not MT_MUL_OVERFLOW(stride, step, &stride):
        lay.strides[d] = stride
    return 0


# view -------------------------------------------------------------------------------

cdef int _resolve(Call* c, Tensor t, int n, dim_t* sizes) except -1:
    """Replace a size of -1 and check that the product of the sizes is the number of elements."""
    cdef int verdict = infer_size(n, sizes, t.total)
    if verdict:
        wanted = list(dims_tuple(n, sizes))
        if verdict == 2:
            raise RuntimeError(f"{op_name(c)}(): only one size can be -1, got {wanted}")
        if verdict == 3:
            raise RuntimeError(f"{op_name(c)}(): invalid shape {wanted}: a size is negative")
        if verdict == 4:
            raise RuntimeError(f"{op_name(c)}(): the size -1 in {wanted} is ambiguous, because the tensor of shape "
                               f"{shape_str(t)} has no elements")
        raise RuntimeError(f"{op_name(c)}(): shape {wanted} is invalid for a tensor of shape {shape_str(t)} "
                           f"with {t.total} elements")
    return 0


cdef object view_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t sizes[MAX_DIMS]
    cdef dim_t strides[MAX_DIMS]
    cdef int n = dims_arg(c, 1, sizes)
    _resolve(c, t, n, sizes)
    if not view_strides(t.ndim, t.sizes, t.strides, n, sizes, strides):
        raise RuntimeError(
            f"{op_name(c)}(): a tensor of shape {shape_str(t)} with strides {dims_tuple(t.ndim, t.strides)} cannot be "
            f"viewed as {list(dims_tuple(n, sizes))} without a copy; use reshape() instead")
    return new_view(t, n, sizes, strides, t.offset)


cdef object view_dtype(Call* c):
    """Reinterpret the bytes as another dtype. The last dimension is scaled by the ratio of the item sizes."""
    cdef Tensor t = tensor_arg(c, 0), out
    cdef DType dtype = <DType>arg(c, 1)
    cdef Layout lay
    cdef dim_t old = t.dtype.itemsize, new = dtype.itemsize, ratio
    cdef int i, last = t.ndim - 1
    if dtype is not t.dtype and t.flags & (T_CONJ | T_NEG):
        raise RuntimeError(f"{op_name(c)}(): a conjugate or negative view of {t.dtype.name} cannot be viewed as "
                           f"{dtype.name}; call resolve_conj() or resolve_neg() first")
    read_layout(t, &lay)
    if old != new:
        what = f"{op_name(c)}(): {t.dtype.name} of shape {shape_str(t)} cannot be viewed as {dtype.name}"
        if t.ndim == 0:
            raise RuntimeError(f"{what}: a 0-d tensor can be viewed only as a dtype of the same item size")
        if lay.strides[last] != 1:
            raise RuntimeError(f"{what}: the last dimension must have stride 1, got {lay.strides[last]}")
        if old > new:
            ratio = old // new
            for i in range(last):
                lay.strides[i] = mul_dims(lay.strides[i], ratio)
            lay.sizes[last] = mul_dims(lay.sizes[last], ratio)
            lay.offset = mul_dims(lay.offset, ratio)
        else:
            ratio = new // old
            if lay.sizes[last] % ratio or lay.offset % ratio:
                raise RuntimeError(f"{what}: the last size, {lay.sizes[last]}, and the storage offset, {lay.offset}, "
                                   f"must be multiples of {ratio}")
            for i in range(last):
                if lay.strides[i] % ratio:
                    raise RuntimeError(f"{what}: the stride of dimension {i}, {lay.strides[i]}, must be a multiple "
                                       f"of {ratio}")
                lay.strides[i] //= ratio
            lay.sizes[last] //= ratio
            lay.offset //= ratio
    out = view_of(t, &lay)
    out.dtype = dtype
    return out


cdef Op VIEW_OP = define("view(Tensor(a) input, int[] size) -> Tensor", view_meta, VIEW | METHOD_ONLY,
                         "Return a view of the same elements in another shape. One size may be -1. Raise RuntimeError "
                         "if the strides do not allow it. With a dtype, reinterpret the bytes.")
gradient("view", input=lambda grad, input_meta: grad.reshape(input_meta.shape))
define("view.dtype(Tensor(a) input, dtype dtype) -> Tensor", view_dtype, VIEW | METHOD_ONLY | NO_GRAD)


cdef object _view(Tensor t, int n, const dim_t* sizes):
    """Call `view`. The caller has checked the sizes."""
    cdef PyObject* args[2]
    cdef dim_t strides[MAX_DIMS]
    if is_plain(t) and view_strides(t.ndim, t.sizes, t.strides, n, sizes, strides):
        return new_view(t, n, sizes, strides, t.offset)
    cdef object size = dims_tuple(n, sizes)
    args[0] = <PyObject*>t
    args[1] = <PyObject*>size
    return as_declared(VIEW_OP, hooks.invoke(<PyObject*>VIEW_OP, args, 2))


cdef dict _CONTIGUOUS = {"memory_format": contiguous_format}


cdef Tensor _copied(Tensor t, int ndim, const dim_t* sizes):
    """Return a contiguous copy of `t` in another shape. Nothing else refers to the copy, so the result is not a view."""
    cdef Tensor copy = <Tensor>call("clone", (t,), _CONTIGUOUS)
    cdef Tensor out = <Tensor>_view(copy, ndim, sizes)
    if out.base is copy:
        out.base = None
        out.flags &= ~T_VIEW
    return out


cdef Tensor reshape_to(Tensor t, int ndim, const dim_t* sizes):
    """Return a view of `t` in another shape, or of a contiguous copy if the strides do not allow one.

    The caller has checked the sizes. This calls the ops `view` and `clone`, so that modes can intercept them.
    """
    cdef dim_t strides[MAX_DIMS]
    if t.flags & T_CONTIGUOUS:
        return <Tensor>_view(t, ndim, sizes)
    if view_strides(t.ndim, t.sizes, t.strides, ndim, sizes, strides):
        if t.storage.device is META:
            return <Tensor>_view(t, ndim, sizes)
        return <Tensor>renamed(_view(t, ndim, sizes), "ReshapeAliasBackward0")
    return <Tensor>renamed(_copied(t, ndim, sizes), "UnsafeViewBackward0")


cdef object reshape_body(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t sizes[MAX_DIMS]
    cdef int n = dims_arg(c, 1, sizes)
    _resolve(c, t, n, sizes)
    return reshape_to(t, n, sizes)


cdef object like_other(Call* c):
    """Compute reshape_as and view_as, whose result has the shape of the second tensor."""
    cdef Tensor t = tensor_arg(c, 0), other = tensor_arg(c, 1)
    cdef dim_t sizes[MAX_DIMS]
    copy_dims(sizes, other.sizes, other.ndim)
    _resolve(c, t, other.ndim, sizes)
    if op_name(c) == "view_as":
        return _view(t, other.ndim, sizes)
    return reshape_to(t, other.ndim, sizes)


cdef object flatten_body(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t sizes[MAX_DIMS]
    cdef int first = dim_arg(c, 1, t.ndim), last = dim_arg(c, 2, t.ndim), i
    cdef dim_t n = 1
    if first > last:
        raise RuntimeError(f"{op_name(c)}(): start_dim {arg(c, 1)} comes after end_dim {arg(c, 2)} in shape {shape_str(t)}")
    if t.ndim == 0:
        sizes[0] = 1
        return reshape_to(t, 1, sizes)
    if first == last:
        return t
    n = count(last - first + 1, t.sizes + first)
    copy_dims(sizes, t.sizes, first)
    sizes[first] = n
    for i in range(last + 1, t.ndim):
        sizes[i - last + first] = t.sizes[i]
    return reshape_to(t, t.ndim - (last - first), sizes)


cdef object ravel_body(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    return _view(t, 1, &t.total) if t.flags & T_CONTIGUOUS else _copied(t, 1, &t.total)


cdef object unflatten_body(Call* c):
    """Split dimension `dim` into several of the given sizes."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t inner[MAX_DIMS]
    cdef dim_t sizes[MAX_DIMS]
    cdef int d, n, i
    n = dims_arg(c, 2, inner)
    if n == 0:
        raise RuntimeError(f"{op_name(c)}(): the sizes must not be empty")
    d = dim_arg(c, 1, t.ndim)
    if t.ndim == 0:
        raise RuntimeError(f"{op_name(c)}(): a 0-d tensor has no dimension to split")
    if infer_size(n, inner, t.sizes[d]):
        raise RuntimeError(f"{op_name(c)}(): the product of the sizes {list(dims_tuple(n, inner))} must be the size of "
                           f"dimension {d}, {t.sizes[d]}, of shape {shape_str(t)}")
    if t.ndim + n - 1 > MAX_DIMS:
        raise RuntimeError(f"{op_name(c)}(): at most {MAX_DIMS} dimensions are supported")
    copy_dims(sizes, t.sizes, d)
    copy_dims(sizes + d, inner, n)
    for i in range(d + 1, t.ndim):
        sizes[i + n - 1] = t.sizes[i]
    return _view(t, t.ndim + n - 1, sizes)


cdef object unsafe_view_meta(Call* c):
    """For autograd the result is a tensor of its own, so that writing to it records what the writing operator is."""
    cdef Tensor t = <Tensor>view_meta(c)
    t.base = None
    t.flags &= ~(T_VIEW | T_MULTI_VIEW | T_FIXED_VIEW)
    return t


define("_unsafe_view(Tensor(a) input, int[] size) -> Tensor", unsafe_view_meta, VIEW | FUNCTION_ONLY,
       "Like `view`, for results that nobody else refers to.")
gradient("_unsafe_view", input=lambda grad, input_meta: grad.reshape(input_meta.shape))
define("reshape(Tensor(a) input, int[] shape) -> Tensor", reshape_body, COMPOSITE,
       "Return the same elements in another shape, as a view if the strides allow it, else as a copy. One size may be "
       "-1.")
define("reshape_as(Tensor(a) input, Tensor other) -> Tensor", like_other, COMPOSITE | METHOD_ONLY | MIXED,
       "Like `reshape`, with the shape of another tensor.")
define("view_as(Tensor(a) input, Tensor other) -> Tensor", like_other, COMPOSITE | METHOD_ONLY | MIXED,
       "Like `view`, with the shape of another tensor.")
define("flatten(Tensor(a) input, int start_dim=0, int end_dim=-1) -> Tensor", flatten_body, COMPOSITE,
       "Combine the dimensions `start_dim` to `end_dim` into one. The result is a view if the strides allow it, else a "
       "copy.")
define("ravel(Tensor(a) input) -> Tensor", ravel_body, COMPOSITE,
       "Return all elements as a vector, as a view if the tensor is contiguous, else as a copy.")
define("unflatten(Tensor(a) input, int dim, int[] sizes) -> Tensor", unflatten_body, COMPOSITE,
       "Return a view with dimension `dim` split into several of the given sizes. One size may be -1.")


# Dimensions of size 1 ---------------------------------------------------------------------

cdef object squeeze_all(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef Layout lay
    cdef int i, n = 0
    for i in range(t.ndim):
        if t.sizes[i] != 1:
            lay.sizes[n] = t.sizes[i]
            lay.strides[n] = t.strides[i]
            n += 1
    return new_view(t, n, lay.sizes, lay.strides, t.offset)


cdef object squeeze_dim(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef Layout lay
    cdef int d = dim_arg(c, 1, t.ndim)
    if t.ndim == 0 or t.sizes[d] != 1:
        return alias(t)
    read_layout(t, &lay)
    drop_dim(&lay, d)
    return view_of(t, &lay)


cdef object squeeze_dims(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef bint chosen[MAX_DIMS]
    cdef dim_t named[MAX_DIMS]
    cdef Layout lay
    cdef int i, n = 0
    if dims_arg(c, 1, named) == 0:      # an empty list means no dimensions
        return alias(t)
    dim_list(c, 1, t.ndim, chosen)
    for i in range(t.ndim):
        if t.sizes[i] != 1 or not chosen[i]:
            lay.sizes[n] = t.sizes[i]
            lay.strides[n] = t.strides[i]
            n += 1
    return new_view(t, n, lay.sizes, lay.strides, t.offset)


cdef object unsqueeze_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t d = int_arg(c, 1)
    cdef Layout lay
    if d < -t.ndim - 1 or d > t.ndim:
        raise IndexError(f"{op_name(c)}(): dimension {d} is out of range for {t.ndim} dimensions; expected "
                         f"{-t.ndim - 1} to {t.ndim}")
    read_layout(t, &lay)
    insert_dim(&lay, <int>(d + t.ndim + 1 if d < 0 else d))
    return view_of(t, &lay)


define("squeeze(Tensor(a) input) -> Tensor", squeeze_all, VIEW | INPLACE,
       "Return a view without the dimensions of size 1: all of them, or only those in `dim`.")
gradient("squeeze", in_place="SqueezeBackward3", input=lambda grad, input_meta: reshaped(grad, input_meta.shape))
define("squeeze.dim(Tensor(a) input, int dim) -> Tensor", squeeze_dim, VIEW | INPLACE)
gradient("squeeze.dim", node="SqueezeBackward1", in_place="SqueezeBackward4",
         input=lambda grad, input_meta: reshaped(grad, input_meta.shape))
define("squeeze.dims(Tensor(a) input, int[] dim) -> Tensor", squeeze_dims, VIEW | INPLACE)
gradient("squeeze.dims", node="SqueezeBackward2", in_place="SqueezeBackward5",
         input=lambda grad, input_meta: reshaped(grad, input_meta.shape))
define("unsqueeze(Tensor(a) input, int dim) -> Tensor", unsqueeze_meta, VIEW | INPLACE,
       "Return a view with a new dimension of size 1 at position `dim`.")
gradient("unsqueeze", in_place="UnsqueezeBackward1", input=lambda grad, dim: grad.squeeze(dim))


# expand -----------------------------------------------------------------------------------

cdef Tensor _expanded(Call* c, Tensor t, int n, dim_t* sizes):
    cdef dim_t strides[MAX_DIMS]
    cdef dim_t size, stride
    cdef int i, old
    if n < t.ndim:
        raise RuntimeError(f"{op_name(c)}(): shape {shape_str(t)} has more dimensions than the {n} sizes "
                           f"{list(dims_tuple(n, sizes))}")
    for i in range(n - 1, -1, -1):
        old = i - (n - t.ndim)
        if old >= 0:
            size, stride = t.sizes[old], t.strides[old]
        else:
            size = 1
            # A new leading dimension gets the stride that a dense layout would have, or 0 if the tensor is 0-d.
            stride = 0 if t.ndim == 0 else mul_dims(sizes[i + 1], strides[i + 1])
        if sizes[i] == -1:
            if old < 0:
                raise RuntimeError(f"{op_name(c)}(): -1 cannot be the size of the new dimension {i} in "
                                   f"{list(dims_tuple(n, sizes))}")
            sizes[i] = size
        elif sizes[i] < 0:
            raise RuntimeError(f"{op_name(c)}(): size {sizes[i]} is negative")
        elif sizes[i] != size:
            if size != 1:
                raise RuntimeError(f"{op_name(c)}(): shape {shape_str(t)} does not expand to "
                                   f"{list(dims_tuple(n, sizes))}: dimension {i} has size {size}, not 1 or {sizes[i]}")
            stride = 0
        strides[i] = stride
    return new_view(t, n, sizes, strides, t.offset)


cdef object expand_meta(Call* c):
    cdef dim_t sizes[MAX_DIMS]
    cdef int n = dims_arg(c, 1, sizes)
    return _expanded(c, tensor_arg(c, 0), n, sizes)


cdef object expand_as_meta(Call* c):
    cdef Tensor other = tensor_arg(c, 1)
    cdef dim_t sizes[MAX_DIMS]
    if not tensor_arg(c, 0).flags & T_REQUIRES_GRAD:
        c.flags &= ~T_REQUIRES_GRAD         # only the shape of `other` is used
    copy_dims(sizes, other.sizes, other.ndim)
    return _expanded(c, tensor_arg(c, 0), other.ndim, sizes)


define("expand(Tensor(a) input, int[] size, *, bool implicit=False) -> Tensor", expand_meta, VIEW | METHOD_ONLY,
       "Return a view with dimensions of size 1 repeated to `size`, with stride 0. -1 keeps a size. Extra leading "
       "sizes add dimensions.")
gradient("expand", input=lambda grad: grad)
define("expand_as(Tensor(a) input, Tensor other) -> Tensor", expand_as_meta, VIEW | METHOD_ONLY | MIXED,
       "Like `expand`, with the shape of another tensor.")
gradient("expand_as", node="ExpandBackward0", ignored=("other",), input=lambda grad: grad)
define("broadcast_to(Tensor(a) input, int[] size) -> Tensor", expand_meta, VIEW,
       "Like `expand`, but also available as a function.")
gradient("broadcast_to", node="ExpandBackward0", input=lambda grad: grad)


cdef object alias_meta(Call* c):
    return alias(tensor_arg(c, 0))


define("alias(Tensor(a) input) -> Tensor", alias_meta, VIEW | FUNCTION_ONLY, "Return a view of the whole tensor.")
gradient("alias", input=lambda grad: grad)
