"""Levels of forward mode, and the tangents of tensors. `forward` computes the tangents of results."""
cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from metatensor._core.graph cimport Node, next_sequence, set_edge, set_output, set_room
from metatensor._core.history cimport AccumulateGrad, node_of, part_of, set_node
from metatensor._core.layout cimport is_dense
from metatensor._core.op cimport K_TENSORS, Call, Overload, call
from metatensor._core.size cimport make_tuple
from metatensor._core.tensor cimport Tensor, TensorExtra, extra_of
from metatensor._core.thread cimport ThreadState, hints, thread_state
from metatensor._core.types cimport KIND_COMPLEX, T_CONJ, T_DISTRIBUTED, T_DUAL, T_NEG, T_OVERRIDES, T_REQUIRES_GRAD, T_VIEW
from metatensor._core.versions cimport carrying, detached

cdef set _active = set()                    # the numbers of the active levels
cdef unsigned long long _last = 0


def enter_level():
    """Begin a new level, and return its number."""
    global _last
    _last += 1
    _active.add(_last)
    hints.duals += 1
    return _last


def leave_level(level):
    """End a level. Tangents at this level are ignored from now on."""
    _active.discard(level)
    hints.duals -= 1


def set_limit(limit):
    """Ignore tangents of level `limit` and all inner levels in this thread. None means no limit. Return the old limit."""
    cdef ThreadState state = thread_state()
    was = state.dual_limit
    state.dual_limit = <unsigned long long>-1 if limit is None else limit
    return was


# Nodes of aliases of arguments -------------------------------------------------------------------------------

@cython.trashcan(True)
cdef class Stand(Node):
    """The node of an alias of a tensor. If it is linked, it passes the gradient on to the tensor's node."""

    cdef str node_name(self):
        return "AliasBackward0"

    cdef int apply(self, PyObject** grads, const char* wanted, PyObject** to) except -1:
        if grads[0] != NULL:
            Py_INCREF(<object>grads[0])
            to[0] = grads[0]
        return 0


@cython.final
@cython.trashcan(True)
cdef class TransformInput(Stand):
    """The node of an argument that a function transform differentiates with respect to."""
    cdef public bint active         # whether the transform is running its function


cdef Stand stand_for(type cls, Tensor t):
    cdef Stand s = <Stand>cls.__new__(cls)
    set_room(s, 1, 0, 1)
    set_output(s, 0, t)
    s.sequence = next_sequence()
    return s


def fresh(Tensor t not None, bint linked):
    """Return an alias of `t` with a node of its own, and that node. If `linked`, gradients are passed on to `t`."""
    cdef Tensor made = carrying(detached(t), t)
    cdef TransformInput stand = <TransformInput>stand_for(TransformInput, t)
    cdef int output
    cdef Node node
    stand.active = True
    if linked and t.flags & T_REQUIRES_GRAD:
        node = node_of(t, &output)
        if node is not None:
            set_edge(stand, 0, node, output)
            stand.sequence = next_sequence()
    set_node(made, stand, 0)
    return made, stand


def reaches_others(list tensors, list own):
    """Return whether tensors depend on a leaf or on an argument of a running transform.

    The nodes in `own` do not count, unless one of them passes gradients on.
    """
    cdef int output, i
    cdef Node node
    cdef list queue = []
    cdef set seen = {<size_t><PyObject*>stand for stand in own}
    for stand in own:
        if (<Node>stand).edges[0].node != NULL:
            return True
    for t in tensors:
        if (<Tensor?>t).flags & T_REQUIRES_GRAD:
            node = node_of(<Tensor>t, &output)
            if node is not None:
                queue.append(node)
    while queue:
        node = <Node>queue.pop()
        if <size_t><PyObject*>node in seen:
            continue
        seen.add(<size_t><PyObject*>node)
        if isinstance(node, AccumulateGrad) or (isinstance(node, TransformInput) and (<TransformInput>node).active):
            return True
        for i in range(node.n_edges):
            if node.edges[i].node != NULL:
                queue.append(<Node>node.edges[i].node)
    return False


# Tangents ----------------------------------------------------------------------------------------------------

cdef int _collect(Tensor t, unsigned long long limit, set found) except -1:
    if t.flags & T_DUAL and t.extra is not None and (<TensorExtra>t.extra).tangents is not None:
        for level in (<TensorExtra>t.extra).tangents:
            if level < limit and level in _active:
                found.add(level)
    if t.base is not None and (<Tensor>t.base).flags & T_DUAL:
        _collect(<Tensor>t.base, limit, found)
    return 0


cdef list levels_of(Call* c, Overload ov):
    """Return the levels at which arguments have tangents, outermost first."""
    cdef unsigned long long limit = thread_state().dual_limit
    cdef set found = set()
    cdef int i
    if limit == 0:
        return []
    for i in range(ov.nslots):
        value = <object>c.args[i]
        if isinstance(value, Tensor):
            if maybe_dual(<Tensor>value):
                _collect(<Tensor>value, limit, found)
        elif ov.slots[i].kind == K_TENSORS and value is not None:
            for t in value:
                if maybe_dual(<Tensor>t):
                    _collect(<Tensor>t, limit, found)
    return sorted(found)


cdef bint has_duals(Call* c) except -1:
    if not c.flags & (T_DUAL | T_VIEW):
        return False
    return len(levels_of(c, <Overload>c.overload)) != 0


cdef Tensor tangent_at(Tensor t, object level):
    """Return the tangent of `t` at `level`, or None. The tangent of a view is a view of its base's tangent."""
    cdef Tensor found, part
    if t.flags & T_DUAL:
        found = <Tensor>(<TensorExtra>t.extra).tangents.get(level)
        if found is not None:
            return found
    if t.base is not None and (<Tensor>t.base).flags & T_DUAL:
        found = <Tensor>(<TensorExtra>(<Tensor>t.base).extra).tangents.get(level)
        if found is not None:
            part = part_of(found, <Tensor>t.base, t)
            put_tangent(t, level, part)
            return part
    return None


cdef int put_tangent(Tensor t, object level, Tensor tangent) except -1:
    cdef TensorExtra extra = extra_of(t)
    if extra.tangents is None:
        extra.tangents = {}
    extra.tangents[level] = tangent
    t.flags |= T_DUAL
    return 0


cdef bint _same_layout(Tensor a, Tensor b) noexcept:
    cdef int i
    if (a.flags ^ b.flags) & (T_CONJ | T_NEG):
        return False
    for i in range(a.ndim):
        if a.sizes[i] != 1 and a.strides[i] != b.strides[i]:
            return False
    return True


cdef bint same_shape(Tensor a, Tensor b) noexcept:
    cdef int i
    if a.ndim != b.ndim:
        return False
    for i in range(a.ndim):
        if a.sizes[i] != b.sizes[i]:
            return False
    return True


cdef Tensor _fitted(Tensor tangent, Tensor t):
    """Return `tangent` with the shape, dtype and strides of `t`."""
    cdef Tensor made
    if not same_shape(tangent, t):
        tangent = <Tensor>call("expand", (tangent, t.shape))
    if tangent.dtype is not t.dtype:
        if tangent.dtype.kind == KIND_COMPLEX and t.dtype.kind != KIND_COMPLEX:
            tangent = <Tensor>call("real", (tangent,))
        if tangent.dtype is not t.dtype:
            tangent = <Tensor>call("to", (tangent,), {"dtype": t.dtype})
    if _same_layout(tangent, t) or not is_dense(t.ndim, t.sizes, t.strides):
        return tangent
    made = <Tensor>call("new_empty_strided", (tangent, t.shape, make_tuple(t.ndim, t.strides)))
    return <Tensor>call("copy_", (made, tangent))


cdef int attach(Tensor t, object level, Tensor tangent) except -1:
    put_tangent(t, level, _fitted(tangent, t))
    return 0


cdef Tensor stripped(Tensor t, object level):
    """Return an alias of `t` that keeps its history, but not its tangents at `level` and inner levels."""
    cdef Tensor made = detached(t)
    cdef Node node
    cdef int output
    cdef set found = set()
    if t.flags & T_REQUIRES_GRAD:
        node = node_of(t, &output)
        if node is not None:
            set_node(made, node, output)
    _collect(t, level, found)
    for outer in found:
        put_tangent(made, outer, tangent_at(t, outer))
    return made


def make_dual(Tensor t not None, Tensor tangent not None, level):
    """Return an alias of `t` with a tangent at `level`."""
    cdef Tensor made = stripped(t, level)
    cdef set found = set()
    if maybe_dual(tangent):
        _collect(tangent, <unsigned long long>-1, found)
        if [inner for inner in found if inner >= level]:
            tangent = stripped(tangent, level)
    attach(made, level, tangent)
    return made


def tangent_of(Tensor t not None, level):
    """Return the tangent of `t` at a level, or None."""
    return tangent_at(t, level)


def primal_of(Tensor t not None, level):
    """Return an alias of `t` without its tangents at `level` and inner levels."""
    return stripped(t, level)


def tangents(Tensor t not None):
    """Return the tangents of `t` at active levels, by level."""
    cdef set found = set()
    if maybe_dual(t):
        _collect(t, <unsigned long long>-1, found)
    return {level: tangent_at(t, level) for level in found}


def without_history(Tensor t not None):
    """Return an alias of `t` that keeps its tangents but has no node."""
    return carrying(detached(t), t)


def copy_tangents(Tensor copy not None, Tensor t not None):
    """Give `copy` copies of the tangents of `t`. `copy` was made because `t` is about to be changed in place."""
    for level, tangent in tangents(t).items():
        put_tangent(copy, level, <Tensor>call("clone", (tangent,)))


def is_plain(Tensor t not None):
    """Return whether the class of `t` does not override operators."""
    return not t.flags & (T_OVERRIDES | T_DISTRIBUTED)


def in_use():
    """Return whether a forward-mode level is active."""
    return hints.duals != 0


def put_tangents(Tensor t not None, dict given):
    """Attach tangents to `t`, given by level, and return `t`."""
    for level, tangent in given.items():
        put_tangent(t, level, <Tensor?>tangent)
    return t
