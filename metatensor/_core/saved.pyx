"""The values that nodes save, and how they are restored for rules.

An argument is saved as it is, with its history. A result is saved without its history, so that its node does not refer
to itself. If its layout follows from its sizes, only its storage is saved, else an alias of it. The node is attached
again when the result is unpacked. Unpacking a tensor that has been changed in place since raises an error. Under `saved_tensors_hooks`, a
node holds the object that the pack hook returned, and the node of the packed tensor.
"""
cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from metatensor._core.graph cimport (
    SAVED_INPUT, SAVED_LAYOUT, SAVED_OBJECT, SAVED_RESULT, SAVED_STORAGE, Node, Output, Saved, SavedKind, where_called,
)
from metatensor._core.history cimport node_of, set_node
from metatensor._core.layout cimport copy_dims, row_major
from metatensor._core.op cimport call
from metatensor._core.size cimport make_tuple
from metatensor._core.dtype cimport DType
from metatensor._core.storage cimport Storage
from metatensor._core.tensor cimport Tensor, over_storage, version_of
from metatensor._core.thread cimport ThreadState, hints, innermost_hooks, thread_state
from metatensor._core.types cimport INLINE_DIMS, MAX_DIMS, T_CONSTANT, T_CONTIGUOUS, T_INFERENCE, T_NONLEAF, T_REQUIRES_GRAD, dim_t
from metatensor._core.versions cimport carrying, detached


# Layouts --------------------------------------------------------------------------------------------------

@cython.final
@cython.freelist(256)
cdef class Layout:
    def __dealloc__(self):
        if self.sizes != self.inline_sizes:
            PyMem_Free(self.sizes)

    @property
    def shape(self):
        return make_tuple(self.ndim, self.sizes)

    @property
    def strides(self):
        return make_tuple(self.ndim, self.sizes + self.ndim)

    @property
    def dtype(self):
        return <object>self._dtype

    @property
    def device(self):
        return <object>self._device


cdef Layout layout_of(Tensor t):
    cdef Layout s = Layout.__new__(Layout)
    s.sizes = s.inline_sizes
    if t.ndim > INLINE_DIMS:
        s.sizes = <dim_t*>PyMem_Malloc(2 * t.ndim * sizeof(dim_t))
        if s.sizes == NULL:
            raise MemoryError()
    s.ndim, s.offset = t.ndim, t.offset
    copy_dims(s.sizes, t.sizes, t.ndim)
    copy_dims(s.sizes + t.ndim, t.strides, t.ndim)
    s._dtype = <PyObject*>t.dtype
    s._device = <PyObject*>t.storage.device
    return s


# Saving ---------------------------------------------------------------------------------------------------

cdef int keep(Node node, int k, object value, SavedKind kind) except -1:
    """Save a value as number `k` of a node."""
    Py_INCREF(value)
    node.saved[k].value = <PyObject*>value
    node.saved[k].kind = kind
    return 0


cdef inline bint _packing():
    return hints.saved_hooks and thread_state().saved_hooks


cdef object _inference_saved(str what):
    return RuntimeError(f"{what}: a tensor made in inference mode cannot be saved to compute gradients; clone() it outside first")


cdef int keep_tensor(Node node, int k, Tensor t) except -1:
    """Save an argument."""
    if t.flags & T_INFERENCE:
        raise _inference_saved(node.node_name())
    if _packing():
        return keep(node, k, saved_tensor(t, False, 0), SAVED_OBJECT)
    mark_saved(t)
    node.saved[k].version = version_of(t)
    return keep(node, k, t, SAVED_INPUT)


cdef int keep_tensors(Node node, int k, list tensors) except -1:
    """Save a list of tensors given as one argument."""
    return keep(node, k, _Several(tuple([saved_tensor(<Tensor>t, False, 0) for t in tensors])), SAVED_OBJECT)


cdef bint _is_plain(Tensor t) noexcept:
    """Return whether the layout of a tensor follows from its sizes. Strides of dimensions of size 1 may be any."""
    cdef dim_t expected = 1
    cdef int i
    for i in range(t.ndim - 1, -1, -1):
        if t.strides[i] != expected:
            return False
        expected *= max(t.sizes[i], 1)
    return t.offset == 0


cdef int keep_result(Node node, int k, Tensor t, int output) except -1:
    """Save output `output` of the node. The outputs of the node must have been set."""
    if _packing():
        return keep(node, k, saved_tensor(t, True, output), SAVED_OBJECT)
    if (t.flags & ~T_CONSTANT == T_CONTIGUOUS | T_REQUIRES_GRAD | T_NONLEAF and t.extra is None and type(t) is Tensor and not hints.duals
            and _is_plain(t)):
        node.saved[k].version = t.storage.version - t.storage.uncounted
        node.saved[k].output = output
        return keep(node, k, t.storage, SAVED_STORAGE)
    if node.outputs[output].dtype == NULL and not t.flags & T_REQUIRES_GRAD:    # it does not refer to the node
        return keep_tensor(node, k, t)
    t = alias_of_result(t)
    node.saved[k].version = version_of(t)
    node.saved[k].output = output
    return keep(node, k, t, SAVED_RESULT)


cdef Tensor alias_of_result(Tensor t):
    """Return an alias without history. For a subclass, its ``__torch_dispatch__`` creates the alias."""
    return carrying(detached(t), t) if type(t) is Tensor else <Tensor>call("detach", (t,))


cdef SavedTensor saved_tensor(Tensor t, bint is_result, int output):
    """Return a `SavedTensor` of an argument, or of output `output` of the node that saves it."""
    cdef SavedTensor s = SavedTensor.__new__(SavedTensor)
    cdef ThreadState state = thread_state()
    cdef bint was = state.grad_enabled
    s.is_result, s.output = is_result, output
    if t is None:
        return s
    if t.flags & T_INFERENCE:
        raise _inference_saved("save_for_backward")
    s.version = version_of(t)
    if not _packing():
        s.value = alias_of_result(t) if is_result else t
        mark_saved(<Tensor>s.value)
        return s
    pack, s.unpack_hook = innermost_hooks(state)
    if not is_result and t.flags & T_REQUIRES_GRAD:
        s.made_by = node_of(t, &s.output)
    state.grad_enabled = False
    try:
        s.value = pack(t)
    finally:
        state.grad_enabled = was
    if version_of(t) != s.version:
        raise RuntimeError("saved_tensors_hooks: the pack hook changed the tensor in place")
    return s


# Unpacking ---------------------------------------------------------------------------------------------------

@cython.final
cdef class SavedTensor:
    cdef object unpacked(self, Node node):
        cdef Tensor t
        if self.unpack_hook is None:
            if self.value is None:
                return None
            t = <Tensor>self.value
            _check_unchanged(node, t, self.version)
            return _with_node(t, node, self.output) if self.is_result and _wanted_again(node, self.output) else t
        value = self.unpack_hook(self.value)
        if not isinstance(value, Tensor):
            raise TypeError(f"{node.node_name()}: the unpack hook returned {type(value).__name__}, not a Tensor")
        t = <Tensor>value
        if self.is_result:
            return _with_node(t, node, self.output) if _wanted_again(node, self.output) else t
        if self.made_by is not None:
            return _with_node(t, self.made_by, self.output)
        return t

    def __call__(self, Node node not None):
        """Return the tensor for `node`, which saved it."""
        return self.unpacked(node)


@cython.final
cdef class _Several:
    """A saved list of tensors."""
    cdef tuple members

    def __init__(self, tuple members):
        self.members = members


def save(t, output=None):
    """Return a `SavedTensor` of an argument, or of the output number `output`. `t` may be None."""
    return saved_tensor(<Tensor?>t if t is not None else None, output is not None, output or 0)


cdef inline bint _wanted_again(Node node, int output):
    """Return whether an unpacked result needs its node, because its gradient will be differentiated again."""
    return thread_state().grad_enabled and output < node.n_outputs and node.outputs[output].dtype != NULL


cdef Tensor _with_node(Tensor t, Node node, int output):
    t = alias_of_result(t)
    set_node(t, node, output)
    return t


cdef int _check_unchanged(Node node, Tensor t, unsigned long long version) except -1:
    if version_of(t) != version:
        raise RuntimeError(f"{node.node_name()}: a tensor of shape {list(t.shape)} that was saved to compute gradients has been "
                           f"changed in place since: it had version {version} and has version {version_of(t)} now. Change a "
                           f"clone() of it, or use an operator that returns a new tensor{where_called(node)}")
    return 0


cdef Tensor _over(Node node, Storage storage, int output):
    """Return a contiguous alias of a result, over its storage."""
    cdef Output* o = &node.outputs[output]
    cdef dim_t strides[MAX_DIMS]
    row_major(o.ndim, o.sizes, strides)
    return over_storage(storage, <DType>o.dtype, o.ndim, o.sizes, strides, 0)


cdef object unpack(Node node, Saved* s):
    """Return a saved value. Raise RuntimeError if it was freed, or if the tensor has been changed since."""
    cdef Tensor t
    if node.released:
        raise RuntimeError(f"{node.node_name()}: the saved values have been freed, because backward was run already; pass "
                           f"retain_graph=True the first time{where_called(node)}")
    if s.value == NULL:
        return None
    value = <object>s.value
    if s.kind == SAVED_OBJECT:
        if isinstance(value, SavedTensor):
            return (<SavedTensor>value).unpacked(node)
        if isinstance(value, _Several):
            return [(<SavedTensor>member).unpacked(node) for member in (<_Several>value).members]
        return value
    if s.kind == SAVED_LAYOUT:
        return layout_of(<Tensor>value)
    if s.kind == SAVED_STORAGE:
        t = _over(node, <Storage>value, s.output)
    else:
        t = <Tensor>value
    if version_of(t) != s.version:
        _check_unchanged(node, t, s.version)
    if s.kind == SAVED_STORAGE and _wanted_again(node, s.output):
        set_node(t, node, s.output)
        return t
    if s.kind == SAVED_RESULT and _wanted_again(node, s.output):
        return _with_node(t, node, s.output)
    return t
