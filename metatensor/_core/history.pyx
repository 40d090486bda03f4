"""The histories of tensors: nodes of leaves, of results, and of views and bases that were changed in place."""
from _thread import RLock

cimport cython
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from metatensor._core.device cimport META
from metatensor._core.graph cimport (
    Node, NodeExtra, Output, next_sequence, node_extra, set_edge, set_output, set_room, track, track_all, untrack,
    where_called,
)
from metatensor._core.late import later
from metatensor._core.layout cimport is_dense, is_row_major
from metatensor._core.op cimport call
from metatensor._core.size cimport make_tuple
from metatensor._core.storage cimport has_values, new_storage
from metatensor._core.tensor cimport Tensor, TensorExtra, extra_of, hooks, over_storage, version_of
from metatensor._core.thread cimport thread_state
from metatensor._core.types cimport (
    KIND_COMPLEX, KIND_FLOAT, T_CONJ, T_DISTRIBUTED, T_FIXED_VIEW, T_NEG, T_NONLEAF, T_REQUIRES_GRAD, T_RETAINS_GRAD, T_VIEW, dim_t,
)
from metatensor._core.versions cimport detached

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject* o) noexcept

_accumulating = RLock()


# Leaves ---------------------------------------------------------------------------------------

@cython.final
@cython.no_gc_clear         # clearing `variable` would leave the leaf with a dangling pointer to this object
cdef class AccumulateGrad(Node):
    """The node of a leaf. It adds gradients to the leaf's ``grad``."""

    def __cinit__(self, *args):
        set_room(self, 0, 0, 1)
        self.sequence = <unsigned long long>-1      # gradients of leaves are accumulated as soon as they are complete

    def __dealloc__(self):
        if self.variable is not None:
            (<TensorExtra>self.variable.extra).accumulator = NULL

    cdef str node_name(self):
        return "torch::autograd::AccumulateGrad"

    cdef int release(self) except -1:
        return 0

    cdef int apply(self, PyObject** grads, const char* wanted, PyObject** to) except -1:
        cdef TensorExtra extra
        if grads[0] == NULL:
            return 0
        if self.variable is None:
            raise TypeError("AccumulateGrad: a node that no operator made cannot be applied")
        _accumulate(self.variable, <Tensor>grads[0])
        extra = <TensorExtra>self.variable.extra
        if extra.hooks is not None:
            for hook in list(extra.hooks.get("accumulated", {}).values()):
                result = hook(self.variable)
                if result is not None:
                    raise TypeError(f"register_post_accumulate_grad_hook: the hook of a leaf of shape {list(self.variable.shape)} returned "
                                    f"{type(result).__name__}; it must return None")
        return 0


cdef Node accumulator_of(Tensor t):
    """Return the node of a leaf that requires grad."""
    cdef TensorExtra extra = extra_of(t)
    cdef AccumulateGrad node
    if extra.accumulator != NULL:
        return <Node>extra.accumulator
    node = AccumulateGrad.__new__(AccumulateGrad)
    set_output(node, 0, t)
    node.variable = t
    extra.accumulator = <PyObject*>node
    untrack(node)
    return node


cdef bint _laid_out_for(Tensor g, Tensor variable) except -1:
    """Return whether `g` has the right strides: those of `variable` if it is dense, else row-major strides."""
    cdef int i
    if not is_dense(variable.ndim, variable.sizes, variable.strides):
        return is_row_major(g.ndim, g.sizes, g.strides)
    for i in range(variable.ndim):
        if g.sizes[i] != 1 and g.strides[i] != variable.strides[i]:
            return False
    return is_dense(g.ndim, g.sizes, g.strides)


cdef Tensor _copied_for(Tensor g, Tensor variable):
    cdef Tensor made
    if g.flags & T_DISTRIBUTED:         # the copy has the placements of `g`
        if is_row_major(variable.ndim, variable.sizes, variable.strides):
            return <Tensor>call("clone", (g,), {"memory_format": _contiguous_format()})
        return <Tensor>call("clone", (g,))
    if is_dense(variable.ndim, variable.sizes, variable.strides):
        made = <Tensor>call("empty_strided", (make_tuple(variable.ndim, variable.sizes),
                                              make_tuple(variable.ndim, variable.strides)),
                            {"dtype": g.dtype, "device": g.storage.device})
        return <Tensor>call("copy_", (made, g))
    return <Tensor>call("clone", (g,), {"memory_format": _contiguous_format()})


cdef object _contiguous_format():
    from metatensor._core.formats import contiguous_format
    return contiguous_format


cdef bint _owned_alone(Tensor g) noexcept:
    """Return whether only the backward pass and the caller refer to the values of `g`.

    If `g` has no values, only references to `g` itself count, not those to its storage. Several leaves may then have
    gradients that are views of one storage, as in PyTorch.
    """
    cdef Py_ssize_t owners = 1
    if not has_values(g.storage):
        return Py_REFCNT(<PyObject*>g) <= 2
    if g.base is not None:
        if Py_REFCNT(<PyObject*>g.base) > 1:
            return False
        owners = 2
    # The backward pass's buffer and the caller's argument are the two references to `g`.
    return Py_REFCNT(<PyObject*>g) <= 2 and Py_REFCNT(<PyObject*>g.storage) <= owners


cdef int _accumulate(Tensor variable, Tensor g) except -1:
    """Add `g` to the gradient of a tensor.

    The first gradient is stored without a copy if nothing else refers to it and it has the right strides. Later ones
    are added in place, unless the computation of gradients is recorded.
    """
    cdef TensorExtra extra = extra_of(variable)
    cdef bint create = thread_state().grad_enabled
    if variable.flags & T_DISTRIBUTED:
        # Adding may communicate with ranks that are threads of this process. If one held the lock meanwhile, they would deadlock.
        _add(extra, variable, g, create)
    else:
        # A kernel may release the GIL, and other threads may add to the same gradient.
        with _accumulating:
            _add(extra, variable, g, create)
    if create and (<Tensor>extra.grad).node != NULL and (<Tensor>extra.grad).flags & T_NONLEAF:
        track_all(<Node>(<Tensor>extra.grad).node)      # the gradient's graph leads to the leaf: a reference cycle
    return 0


cdef int _add(TensorExtra extra, Tensor variable, Tensor g, bint create) except -1:
    if extra.grad is None:
        if not create and _owned_alone(g) and (not g.flags & T_DISTRIBUTED or later("owns_part")(g, True)) and _laid_out_for(g, variable):
            extra.grad = g if not g.flags & T_REQUIRES_GRAD and g.base is None else detached(g)
        else:
            extra.grad = _copied_for(g, variable)
    elif create:
        extra.grad = call("add", (extra.grad, g))
    else:
        call("add_", (extra.grad, g))
    return 0


def accumulate(Tensor variable not None, Tensor gradient not None):
    """Add a gradient to ``variable.grad``."""
    _accumulate(variable, gradient)


# Results ----------------------------------------------------------------------------------------

@cython.final
cdef class Unrecorded(Node):
    """The node of a tensor whose call was not recorded, such as a copy of a result. Backward through it raises."""

    def __cinit__(self, *args):
        set_room(self, 0, 0, 1)
        self.sequence = next_sequence()
        untrack(self)

    cdef str node_name(self):
        return "NotImplemented"

    cdef int apply(self, PyObject** grads, const char* wanted, PyObject** to) except -1:
        raise NotImplementedError("backward: a tensor that requires grad was made by a call that was not recorded, so its gradient is "
                                  f"not known{where_called(self)}")


cdef Node node_of(Tensor t, int* output):
    """Return the node of a tensor that requires grad. Set `output` to the tensor's number among its outputs."""
    cdef Node unrecorded
    if not t.flags & T_NONLEAF:
        output[0] = 0
        return accumulator_of(t)
    if t.node == NULL:
        unrecorded = Unrecorded.__new__(Unrecorded)
        set_output(unrecorded, 0, t)
        set_node(t, unrecorded, 0)
    if t.flags & T_VIEW and (<TensorExtra>t.extra).seen != version_of(t) and (<Tensor>t.base).flags & T_REQUIRES_GRAD:
        _look_again(t)
    output[0] = t.output
    return <Node>t.node


cdef bint _has_history(Tensor t) except -1:
    """Return whether a tensor requires grad. This may have become true for a view when its base was changed in place."""
    cdef Tensor base
    if (t.flags & (T_REQUIRES_GRAD | T_VIEW | T_FIXED_VIEW)) != T_VIEW:
        return t.flags & T_REQUIRES_GRAD != 0
    base = <Tensor>t.base
    if not base.flags & T_REQUIRES_GRAD or not base.flags & T_NONLEAF:
        return False
    if t.dtype is not base.dtype and not (t.dtype.kind == KIND_COMPLEX and base.dtype.kind == KIND_FLOAT
                                          or t.dtype.kind == KIND_FLOAT and base.dtype.kind == KIND_COMPLEX):
        return False        # a view of the bytes as another dtype
    _look_again(t)
    return True


hooks.has_history = _has_history


cdef int set_node(Tensor t, Node node, int output) except -1:
    """Make `t` the output `output` of `node`."""
    cdef PyObject* old = t.node
    Py_INCREF(node)
    t.node = <PyObject*>node
    t.output = output
    Py_XDECREF(old)
    t.flags |= T_REQUIRES_GRAD | T_NONLEAF
    if t.flags & T_VIEW:
        extra_of(t).seen = version_of(t)
    return 0


def attach(Tensor t not None, Node node not None, int output):
    """Make `t` the output `output` of `node`, and return it."""
    set_node(t, node, output)
    return t


cdef Output* input_outline(Node node, int i) except NULL:
    """Return the metadata of the tensor that edge `i` of a node stands for.

    For a leaf it is updated first, because the leaf's data may have been replaced.
    """
    cdef AccumulateGrad leaf
    if isinstance(<object>node.edges[i].node, AccumulateGrad):
        leaf = <AccumulateGrad><object>node.edges[i].node
        set_output(leaf, 0, leaf.variable)
    return &(<Node>node.edges[i].node).outputs[node.edges[i].output]


cdef int forget(Tensor t) except -1:
    """Make `t` a tensor without history."""
    cdef PyObject* old = t.node
    t.node = NULL
    Py_XDECREF(old)
    t.flags &= ~(T_NONLEAF | T_RETAINS_GRAD)
    return 0


# Writes ---------------------------------------------------------------------------------------------

cdef Tensor part_of(Tensor whole, Tensor base, Tensor view):
    """Return the part of `whole` that `view` is of `base`, as a view. `whole` has the layout of `base`."""
    cdef dim_t offset = view.offset - base.offset
    cdef int i
    if view.dtype is base.dtype:
        part = call("as_strided", (whole, make_tuple(view.ndim, view.sizes), make_tuple(view.ndim, view.strides),
                                   whole.offset + offset))
        if (view.flags ^ base.flags) & T_CONJ:
            part = call("conj", (part,))
        if (view.flags ^ base.flags) & T_NEG:
            part = call("_neg_view", (part,))
        return <Tensor>part
    if view.dtype.kind != base.dtype.kind and base.dtype.itemsize == 2 * view.dtype.itemsize:
        whole = <Tensor>call("view_as_real", (whole,))
        return <Tensor>call("as_strided", (whole, make_tuple(view.ndim, view.sizes), make_tuple(view.ndim, view.strides),
                                           whole.offset + view.offset - 2 * base.offset))
    if view.dtype.kind != base.dtype.kind and view.dtype.itemsize == 2 * base.dtype.itemsize:
        # In the base, the real and the imaginary part of a number are adjacent.
        whole = <Tensor>call("as_strided", (
            whole, (*make_tuple(view.ndim, view.sizes), 2), (*[2 * view.strides[i] for i in range(view.ndim)], 1),
            whole.offset + 2 * view.offset - base.offset))
        return <Tensor>call("view_as_complex", (whole,))
    raise NotImplementedError(f"a view of {base.dtype.name} as {view.dtype.name} that requires grad was changed in place")


cdef int _look_again(Tensor t) except -1:
    """Set the node of a view to one that computes it from its base, which has been changed in place since."""
    cdef bint was = thread_state().grad_enabled
    cdef Tensor again
    thread_state().grad_enabled = True
    try:
        again = part_of(<Tensor>t.base, <Tensor>t.base, t)
    finally:
        thread_state().grad_enabled = was
    if again.node == NULL:
        raise NotImplementedError(f"a view of {t.dtype.name} has a base of {(<Tensor>t.base).dtype.name} that was changed in place, "
                                  "and no gradient leads from one to the other")
    set_node(t, <Node>again.node, again.output)
    return 0


cdef Tensor _outline(Tensor t):
    """Return a tensor with the layout of `t` and no values."""
    cdef Tensor made = over_storage(new_storage(META, 0), t.dtype, t.ndim, t.sizes, t.strides, t.offset)
    made.flags |= t.flags & (T_CONJ | T_NEG)
    return made


cdef int rebase(Tensor t, Node node, int target) except -1:
    """Make `node` the node of `t`, which was changed in place. Edge `target` of `node` stands for the old value of `t`."""
    cdef CopySlices slices
    cdef Tensor base
    cdef Node old
    cdef int i, output
    if not (t if t.base is None else <Tensor>t.base).flags & T_REQUIRES_GRAD:
        hooks.late_views = True
    if t.base is None:
        _move_retained(t, node, 0)
        return set_node(t, node, 0)
    base = <Tensor>t.base
    slices = CopySlices.__new__(CopySlices)
    set_room(slices, node.n_edges if target >= 0 else node.n_edges + 1, 0, 1)
    set_output(slices, 0, base)
    slices.sequence = next_sequence()
    slices.function = node
    track(node)
    slices.target = target
    slices.base = _outline(base)
    slices.view = _outline(t)
    if base.flags & T_REQUIRES_GRAD:
        old = node_of(base, &output)
        set_edge(slices, 0, old, output)
    for i in range(node.n_edges):
        if i != target and node.edges[i].node != NULL:
            set_edge(slices, slices.place_of(i), <Node>node.edges[i].node, node.edges[i].output)
    _move_retained(base, slices, 0)
    set_node(base, slices, 0)
    set_node(t, slices, 0)
    extra_of(t).seen = version_of(t) - 1        # outdated, so that the node is determined when it is first needed
    return 0


cdef int _move_retained(Tensor t, Node to, int output) except -1:
    """If `retain_grad` was called on `t`, move the entry to the tensor's new node."""
    cdef NodeExtra extra
    if not t.flags & T_RETAINS_GRAD or t.node == NULL or (<Node>t.node).extra is None:
        return 0
    extra = (<Node>t.node).extra
    if extra.retained is not None and t.output in extra.retained:
        kept = extra.retained.pop(t.output)
        if node_extra(to).retained is None:
            node_extra(to).retained = {}
        node_extra(to).retained[output] = kept
    return 0


@cython.final
cdef class CopySlices(Node):
    """The node of a tensor after an operator changed a view of it."""

    cdef int place_of(self, int i) noexcept:
        """Return the edge for edge `i` of the operator's node. Edge 0 stands for the old value of the tensor."""
        if self.target < 0:
            return i + 1
        return 0 if i == self.target else i + 1 if i < self.target else i

    cdef str node_name(self):
        return "torch::autograd::CopySlices"

    cdef int release(self) except -1:
        self.released = True
        return self.function.release()

    cdef int apply(self, PyObject** grads, const char* wanted, PyObject** to) except -1:
        cdef PyObject* given[1]
        cdef PyObject** made = NULL
        cdef Tensor whole, part
        cdef int i
        if grads[0] == NULL:
            return 0
        if self.function is None:
            raise TypeError("CopySlices: a node that no operator made cannot be applied")
        whole = <Tensor>call("copy_", (call("new_empty_strided", (
            <Tensor>grads[0], make_tuple(self.base.ndim, self.base.sizes), make_tuple(self.base.ndim, self.base.strides))),
            <Tensor>grads[0]))
        part = part_of(whole, self.base, self.view)
        sliced = call("clone", (part,))
        given[0] = <PyObject*>sliced
        made = <PyObject**>PyMem_Calloc(max(self.function.n_edges, 1), sizeof(PyObject*))
        if made == NULL:
            raise MemoryError()
        try:
            self.function.apply(given, NULL, made)
            for i in range(self.function.n_edges):
                if i == self.target or made[i] == NULL:
                    continue
                to[self.place_of(i)] = made[i]
                made[i] = NULL
            if self.edges[0].node != NULL:
                if self.target >= 0 and made[self.target] != NULL:
                    call("copy_", (part, <Tensor>made[self.target]))
                else:
                    call("zero_", (part,))
                Py_INCREF(whole)
                to[0] = <PyObject*>whole
        finally:
            for i in range(self.function.n_edges):
                Py_XDECREF(made[i])
            PyMem_Free(made)
        return 0
