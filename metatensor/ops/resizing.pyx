"""Replace the shape or storage of a tensor in place: resize_, resize_as_, set_."""
from metatensor._core.device cimport backend_of
from metatensor._core.execute cimport resize_tensor
from metatensor._core.graph cimport Node, set_output
from metatensor._core.history cimport set_node
from metatensor._core.layout cimport Layout, add_dims, copy_dims, count, extent, mul_dims, row_major, set_format, suggest_format
from metatensor._core.op cimport (
    HOST, METHOD_ONLY, MIXED, Call, Overload, arg, define, dims_arg, int_arg, is_none, op_name, tensor_arg,
)
from metatensor._core.rule_node cimport begin
from metatensor._core.storage cimport Storage, new_storage, resize_storage
from metatensor._core.storage_views cimport check_bounds
from metatensor._core.tensor cimport Tensor, mark_changed, over_storage, set_layout
from metatensor._core.thread cimport thread_state
from metatensor._core.types cimport (
    FORMAT_CONTIGUOUS, FORMAT_PRESERVE, MAX_DIMS, T_NONLEAF, T_REQUIRES_GRAD, T_VIEW, dim_t,
)
from metatensor._core.versions cimport own_versions
from metatensor.ops.factory cimport format_arg, read_sizes
from metatensor.ops.view cimport dims_tuple

from metatensor._core.errors import leaf_inplace
from metatensor._core.late import later

cdef enum:
    NO_FORMAT = 100     # no memory format was requested


cdef int _no_grad(Call* c, Tensor t) except -1:
    if t.flags & T_REQUIRES_GRAD:
        raise RuntimeError(f"{op_name(c)}(): a tensor that requires gradients cannot be resized")
    return 0


cdef object _resize(Call* c, Tensor t, int n, const dim_t* sizes, int memory_format):
    """Set new sizes and dense strides. The storage grows if it is too small.

    If `t` already has these sizes and no memory format is requested, `t` is left unchanged.
    """
    cdef dim_t strides[MAX_DIMS]
    cdef dim_t before, first, added, one = 1
    cdef int i
    cdef bint same = n == t.ndim
    _no_grad(c, t)
    for i in range(n):
        same = same and sizes[i] == t.sizes[i]
    if same and memory_format == NO_FORMAT:
        return t
    set_format(n, sizes, strides, FORMAT_CONTIGUOUS if memory_format == NO_FORMAT else memory_format)
    before = t.storage.size_bytes
    resize_tensor(t, n, sizes, strides)
    mark_changed(t)
    if t.storage.size_bytes > before and t.storage.data is not None:
        first = before // t.dtype.itemsize
        added = t.storage.size_bytes // t.dtype.itemsize - first
        later("fill_new_memory")(over_storage(t.storage, t.dtype, 1, &added, &one, first))
    return t


cdef object resize_host(Call* c):
    cdef dim_t sizes[MAX_DIMS]
    cdef int n = read_sizes(c, 1, sizes), fmt = format_arg(c, 2, NO_FORMAT)
    if fmt == FORMAT_PRESERVE:
        raise RuntimeError(f"{op_name(c)}(): preserve_format is not supported, because it does not name a memory "
                           "format")
    return _resize(c, tensor_arg(c, 0), n, sizes, fmt)


cdef object resize_as_host(Call* c):
    cdef Tensor template = tensor_arg(c, 1)
    cdef dim_t sizes[MAX_DIMS]
    cdef int fmt = format_arg(c, 2, NO_FORMAT)
    if fmt == FORMAT_PRESERVE:
        fmt = suggest_format(template.ndim, template.sizes, template.strides)
    copy_dims(sizes, template.sizes, template.ndim)
    return _resize(c, tensor_arg(c, 0), template.ndim, sizes, fmt)


define("resize_(Tensor(a!) input, int[] size, *, memory_format? memory_format=None) -> Tensor", resize_host,
       HOST | METHOD_ONLY,
       "Resize the tensor in place, with dense strides. The storage grows if it is too small. New elements have "
       "arbitrary values.")
define("resize_as_(Tensor(a!) input, Tensor the_template, *, memory_format? memory_format=None) -> Tensor", resize_as_host,
       HOST | MIXED,
       "Resize the tensor in place to the sizes of `the_template`, like `resize_`.")


# set_ ---------------------------------------------------------------------------------------------

cdef int _adopt(Call* c, Tensor t, Storage s, Layout* lay) except -1:
    cdef dim_t need
    cdef int i
    cdef bint same = lay.ndim == t.ndim
    cdef Node node = None
    if t.flags & T_REQUIRES_GRAD and thread_state().grad_enabled:
        if not t.flags & T_NONLEAF:
            raise leaf_inplace(op_name(c))
        node = begin(c, <Overload>c.overload)   # without a rule: backward through it raises
    if s.device is not t.storage.device:
        raise RuntimeError(f"{op_name(c)}(): storage and tensor must be on the same device, got {s.device} and "
                           f"{t.storage.device}")
    for i in range(lay.ndim):
        same = same and lay.sizes[i] == t.sizes[i]
    if not same and s.device is t.storage.device:
        need = mul_dims(add_dims(lay.offset, extent(lay.ndim, lay.sizes, lay.strides)), t.dtype.itemsize)
        if need > s.size_bytes and count(lay.ndim, lay.sizes):      # a tensor of another shape needs a larger storage
            resize_storage(s, need)
    check_bounds(s, t.dtype, lay, op_name(c))
    own_versions(t)
    mark_changed(t)
    t.storage = s
    set_layout(t, lay.ndim, lay.sizes, lay.strides, lay.offset)
    t.base = None
    t.flags &= ~T_VIEW
    if node is not None:
        node.n_outputs = 1
        node.outputs = &node.inline_output
        set_output(node, 0, t)
        set_node(t, node, 0)
    return 0


cdef object set_nothing_host(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef Storage empty = new_storage(t.storage.device, 0)
    cdef Layout lay
    if t.storage.data is not None:
        empty.data = backend_of(empty.device).allocate(0, empty.device.number)
    lay.ndim = 1
    lay.offset = lay.sizes[0] = 0
    lay.strides[0] = 1
    _adopt(c, t, empty, &lay)
    return t


cdef object set_tensor_host(Call* c):
    cdef Tensor t = tensor_arg(c, 0), source = tensor_arg(c, 1)
    cdef Layout lay
    if source.dtype is not t.dtype:
        raise RuntimeError(f"{op_name(c)}(): source and tensor must have the same dtype, got {source.dtype.name} and "
                           f"{t.dtype.name}")
    if is_none(c, 2):
        lay.ndim = source.ndim
        lay.offset = source.offset
        copy_dims(lay.sizes, source.sizes, source.ndim)
        copy_dims(lay.strides, source.strides, source.ndim)
    else:
        _read_layout(c, &lay)
    _adopt(c, t, source.storage, &lay)
    return t


cdef int _read_layout(Call* c, Layout* lay) except -1:
    """Read storage_offset, size and stride from slots 2 to 4."""
    cdef int i, n
    lay.offset = 0 if is_none(c, 2) else int_arg(c, 2)
    lay.ndim = dims_arg(c, 3, lay.sizes)
    if is_none(c, 4) or (lay.ndim and not arg(c, 4)):
        row_major(lay.ndim, lay.sizes, lay.strides)
    else:
        n = dims_arg(c, 4, lay.strides)
        if n != lay.ndim:
            raise RuntimeError(f"{op_name(c)}(): {lay.ndim} sizes and {n} strides do not match")
    for i in range(lay.ndim):
        if lay.sizes[i] < 0 or lay.strides[i] < 0:
            raise RuntimeError(f"{op_name(c)}(): negative sizes or strides are not supported, got "
                               f"{dims_tuple(lay.ndim, lay.sizes)} and {dims_tuple(lay.ndim, lay.strides)}")
    return 0


cdef object set_storage_host(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef object source = getattr(arg(c, 1), "_untyped_storage", arg(c, 1))
    cdef Layout lay
    if not isinstance(source, Storage):
        raise TypeError(f"{op_name(c)}(): argument 'source' (position 2) must be Tensor or storage, not "
                        f"{type(source).__name__}")
    if source is not arg(c, 1) and arg(c, 1).dtype is not t.dtype:
        raise RuntimeError(f"{op_name(c)}(): storage and tensor must have the same dtype, got {arg(c, 1).dtype.name} "
                           f"and {t.dtype.name}; storage.untyped() has no dtype")
    if is_none(c, 2) and is_none(c, 3):
        lay.ndim = 1
        lay.offset = 0
        lay.strides[0] = 1
        lay.sizes[0] = (<Storage>source).size_bytes // t.dtype.itemsize
    else:
        if is_none(c, 3):
            raise TypeError(f"{op_name(c)}(): storage_offset is given without size")
        _read_layout(c, &lay)
    _adopt(c, t, <Storage>source, &lay)
    return t


define("set_(Tensor(a!) input) -> Tensor", set_nothing_host, HOST | METHOD_ONLY,
       "Replace the tensor's storage by that of `source`, and its offset, size and stride by the given ones or those "
       "of `source`. Without arguments, the tensor becomes empty.")
define("set_.source_Tensor(Tensor(a!) input, Tensor source, int? storage_offset=None, int[]? size=None, int[]? stride=None)"
       " -> Tensor", set_tensor_host, HOST | METHOD_ONLY | MIXED)
define("set_.source_Storage(Tensor(a!) input, any source, int? storage_offset=None, int[]? size=None, int[]? stride=None)"
       " -> Tensor", set_storage_host, HOST | METHOD_ONLY)
