"""Forward mode: tensors with tangents, and how operators compute the tangents of their results.

A tensor may have a tangent for each *level*. Levels are numbered; later ones have larger numbers and are inside earlier
ones. The tangent at a level is a tensor that may itself have tangents at outer levels.

A call whose arguments have tangents runs once as if they had none, and is recorded with the arguments as they are. Then,
from the outermost level to the innermost, the tangents of the results are computed from those of the arguments. The
arguments then have no tangents at that level or inside it, so levels do not mix. How, is derived from what the operator
declares:

- a view, or an operator that is linear: the operator itself, applied to the tangents;
- an element-wise operator of real numbers: its rule for gradients, which multiplies by the derivative;
- an operator with a function of its own for tangents: that function;
- any other operator with a rule: the rule is linear in the gradient, so its own gradient is the tangent;
- a composite operator without a rule: its parts.

``gradient(..., linear="input+bias weight")`` says that an operator is linear in the arguments of each group, the others
unchanged. Arguments joined by + are summands: they are left out when another group is computed.

``gradient(..., tangent=function)`` gives a function. Its parameters are names of arguments, those names with ``_tangent``
(None if there is none), and ``result``.
"""
cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.string cimport memset
from metatensor._core.dispatch cimport dispatch, run_plain
from metatensor._core.rule_node cimport BY_OTHERS, Way, by_others, record, way_of
from metatensor._core.graph cimport SAVED_RESULT, Node, next_sequence, set_edge, set_output, set_room
from metatensor._core.history cimport AccumulateGrad, node_of, part_of, set_node, forget
from metatensor._core.layout cimport extent, is_dense
from metatensor._core.modes cimport run_modes
from metatensor._core.op cimport (
    COMPOSITE, ELEMENTWISE, FUNCTIONAL, HOST, IN_PLACE, K_TENSORS, NO_GRAD, RANDOM, VIEW, WITH_OUT, Call, Op, Overload, call,
    op_name,
)
from metatensor._core.overriding cimport CALLED_AS_METHOD
from metatensor._core.execute cimport python_meta
from metatensor._core.size cimport make_tuple
from metatensor._core.tensor cimport Tensor, TensorExtra, extra_of, shape_str
from metatensor._core.thread cimport ThreadState, hints, thread_state
from metatensor._core.types cimport (
    KIND_COMPLEX, KIND_FLOAT, MAX_ARGS, T_CONJ, T_DUAL, T_NEG, T_NONLEAF, T_OVERRIDES, T_REQUIRES_GRAD, T_VIEW,
)
from metatensor._core.versions cimport carrying, detached
from metatensor._core.gradients import linear_in, tangents as tangent_functions
from metatensor._core.late import found_body, later

# Operators whose results may be written over an argument, although an element depends on several elements.
_MIXING = frozenset((
    "addbmm", "addmm", "addmv", "addr", "baddbmm", "cumprod", "cumsum", "index_add", "index_copy", "index_fill", "index_reduce",
    "masked_scatter", "put", "renorm", "scatter", "scatter.value", "scatter.reduce", "scatter.value_reduce", "scatter_add",
    "scatter_reduce",
))

cdef set _active = set()                    # the numbers of the levels in effect
cdef unsigned long long _last = 0


def enter_level():
    """Begin a new level, and return its number."""
    global _last
    _last += 1
    _active.add(_last)
    hints.duals += 1
    return _last


def leave_level(level):
    """End a level. Tangents at it do not count any more."""
    _active.discard(level)
    hints.duals -= 1


def set_limit(limit):
    """Ignore, in this thread, tangents of the levels from `limit` on; None means no limit. Return the limit before."""
    cdef ThreadState state = thread_state()
    was = state.dual_limit
    state.dual_limit = <unsigned long long>-1 if limit is None else limit
    return was


# Nodes that stand for arguments ------------------------------------------------------------------------------

@cython.trashcan(True)
cdef class Stand(Node):
    """Passes the gradient of a tensor on, or ends the graph there if it is not linked."""

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
    cdef public bint active         # the transform is running its function


cdef Stand _stand(type cls, Tensor t):
    cdef Stand s = <Stand>cls.__new__(cls)
    set_room(s, 1, 0, 1)
    set_output(s, 0, t)
    s.sequence = next_sequence()
    return s


def fresh(Tensor t not None, bint linked):
    """Return an alias of `t` with a node of its own, and that node. If `linked`, gradients pass on to `t`."""
    cdef Tensor made = carrying(detached(t), t)
    cdef TransformInput stand = <TransformInput>_stand(TransformInput, t)
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
    """Return whether tensors depend on a leaf, or on the argument of a running transform, besides those whose nodes are `own`."""
    cdef int output, i
    cdef Node node
    cdef list queue = []
    cdef set seen = set([<size_t><PyObject*>stand for stand in own])
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


cdef inline bint _maybe(Tensor t) noexcept:
    return t.flags & T_DUAL or (t.base is not None and (<Tensor>t.base).flags & T_DUAL)


cdef list _levels(Call* c, Overload ov):
    """Return the levels of the arguments, outermost first."""
    cdef unsigned long long limit = thread_state().dual_limit
    cdef set found = set()
    cdef int i
    if limit == 0:
        return []
    for i in range(ov.nslots):
        value = <object>c.args[i]
        if isinstance(value, Tensor):
            if _maybe(<Tensor>value):
                _collect(<Tensor>value, limit, found)
        elif ov.slots[i].kind == K_TENSORS and value is not None:
            for t in value:
                if _maybe(<Tensor>t):
                    _collect(<Tensor>t, limit, found)
    return sorted(found)


cdef bint has_duals(Call* c) except -1:
    if not c.flags & (T_DUAL | T_VIEW):
        return False
    return len(_levels(c, <Overload>c.overload)) != 0


cdef Tensor _tangent(Tensor t, object level):
    """Return the tangent of `t`, or None. That of a view is a view of the tangent of its base."""
    cdef Tensor found, part
    if t.flags & T_DUAL:
        found = <Tensor>(<TensorExtra>t.extra).tangents.get(level)
        if found is not None:
            return found
    if t.base is not None and (<Tensor>t.base).flags & T_DUAL:
        found = <Tensor>(<TensorExtra>(<Tensor>t.base).extra).tangents.get(level)
        if found is not None:
            part = part_of(found, <Tensor>t.base, t)
            _put(t, level, part)
            return part
    return None


cdef int _put(Tensor t, object level, Tensor tangent) except -1:
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


cdef bint _same_shape(Tensor a, Tensor b) noexcept:
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
    if not _same_shape(tangent, t):
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


cdef int _attach(Tensor t, object level, Tensor tangent) except -1:
    _put(t, level, _fitted(tangent, t))
    return 0


cdef Tensor _stripped(Tensor t, object level):
    """Return an alias of `t`, with its history, that has no tangents at `level` or inside it."""
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
        _put(made, outer, _tangent(t, outer))
    return made


def make_dual(Tensor t not None, Tensor tangent not None, level):
    """Return an alias of `t` with a tangent at `level`."""
    cdef Tensor made = _stripped(t, level)
    cdef set found = set()
    if _maybe(tangent):
        _collect(tangent, <unsigned long long>-1, found)
        if [inner for inner in found if inner >= level]:
            tangent = _stripped(tangent, level)
    _attach(made, level, tangent)
    return made


def tangent_of(Tensor t not None, level):
    """Return the tangent of `t` at a level, or None."""
    return _tangent(t, level)


def primal_of(Tensor t not None, level):
    """Return an alias of `t` without the tangents at `level` and inside it."""
    return _stripped(t, level)


def tangents(Tensor t not None):
    """Return the tangents of `t` that count, by level."""
    cdef set found = set()
    if _maybe(t):
        _collect(t, <unsigned long long>-1, found)
    return {level: _tangent(t, level) for level in found}


def without_history(Tensor t not None):
    """Return an alias of `t` that has its tangents and no node."""
    return carrying(detached(t), t)


def copy_tangents(Tensor copy not None, Tensor t not None):
    """Give a copy of a tensor that is about to be changed copies of its tangents."""
    for level, tangent in tangents(t).items():
        _put(copy, level, <Tensor>call("clone", (tangent,)))


def is_plain(Tensor t not None):
    """Return whether operators on `t` run without asking its class."""
    return not t.flags & T_OVERRIDES


def in_use():
    """Return whether there is a level."""
    return hints.duals != 0


def put_tangents(Tensor t not None, dict given):
    """Give `t` tangents, by level, and return it."""
    for level, tangent in given.items():
        _put(t, level, <Tensor?>tangent)
    return t


# A call -------------------------------------------------------------------------------------------------------

cdef inline bint _differentiable(object value) noexcept:
    return isinstance(value, Tensor) and ((<Tensor>value).dtype.kind == KIND_FLOAT or (<Tensor>value).dtype.kind == KIND_COMPLEX)


cdef object _primal(Call* c):
    """Run a call as if its arguments had no tangents."""
    cdef ThreadState state = thread_state()
    cdef unsigned long long was = state.dual_limit
    cdef Call own = c[0]        # a meta kernel may exchange arguments
    own.keep = NULL
    state.dual_limit = 0
    try:
        if hints.modes or own.flags & T_OVERRIDES:
            return run_modes(&own)
        return run_plain(&own)
    finally:
        state.dual_limit = was
        Py_XDECREF(own.keep)


cdef object run_duals(Call* c):
    """Run a call whose arguments have tangents."""
    cdef Overload ov = <Overload>c.overload
    cdef list levels
    cdef Way way
    if ov.flags & (NO_GRAD | HOST):
        return _primal(c)
    way = way_of(c, ov)
    if ov.flags & COMPOSITE and ov.gradient is False:
        return _composite(c, ov)
    if c.out != NULL:
        raise NotImplementedError(f"{op_name(c)}(): functions with out= do not compute tangents, but one of the arguments has one")
    if way == BY_OTHERS:
        if not ov.flags & (RANDOM | COMPOSITE):
            result = ov.meta(c) if ov.meta != NULL else python_meta(c)      # checks the arguments
        result = by_others(c, ov)
        if result is not NotImplemented:
            return result
    levels = _levels(c, ov)
    if c.variant == IN_PLACE or (ov.nslots and ov.slots[0].mutated):
        return _write(c, ov, levels)
    result = _primal(c)
    if result is <object>c.args[0]:
        return result
    for level in levels:
        _differentiate(c, ov, result, level, False)
    if c.flags & T_REQUIRES_GRAD:
        _save_tangents(result)
    return result


cdef object _composite(Call* c, Overload ov):
    """Run a composite operator, whose parts compute the tangents."""
    cdef Call f
    if c.variant == IN_PLACE and not ov.mutates:
        _functional(c, &f)
        made = dispatch(&f)
        Py_XDECREF(f.keep)
        return call("copy_", (<object>c.args[0], made))
    if c.variant == WITH_OUT:
        raise NotImplementedError(f"{op_name(c)}(): functions with out= do not compute tangents, but one of the arguments has one")
    return run_plain(c)


cdef int _save_tangents(object result) except -1:
    """Give the results that a node saved the tangents that the results have now."""
    cdef Node node
    cdef int k, output
    cdef Tensor t
    values = [result] if isinstance(result, Tensor) else result if isinstance(result, (tuple, list)) else []
    node = None
    for t in values:
        if isinstance(t, Tensor) and t.flags & T_NONLEAF and t.node != NULL:
            node = <Node>t.node
            break
    if node is None:
        return 0
    for k in range(node.n_saved):
        if node.saved[k].kind == SAVED_RESULT and node.saved[k].value != NULL:
            output = node.saved[k].output
            if isinstance(values[output], Tensor):
                carrying(<Tensor>node.saved[k].value, <Tensor>values[output])
    return 0


cdef int _functional(Call* c, Call* f) except -1:
    """Fill `f` with the call of the functional variant with the same arguments."""
    cdef Overload ov = <Overload>c.overload
    cdef Op base = (<Op>c.op).base
    f[0] = c[0]
    f.keep = NULL
    f.variant = FUNCTIONAL
    if base is not None:
        f.op = <PyObject*>base
    if ov.inplace_slot >= 0:
        f.args[ov.inplace_slot] = <PyObject*>False
    return 0


@cython.final
cdef class _Arguments:
    """The arguments of a call at a level: without the tangents there, which are kept by slot."""
    cdef list held, tangents
    cdef bint recorded          # whether the computation of the tangents is to be recorded


cdef _Arguments _at_level(Call* c, Overload ov, object level, Call* to, bint overwritten):
    """Fill `to` with the call without the tangents at `level` and inside it.

    If the call overwrites its first argument, which is then copied, `overwritten` is True.
    """
    cdef _Arguments a = _Arguments.__new__(_Arguments)
    cdef bint grad = thread_state().grad_enabled
    cdef int i
    cdef Tensor x
    to[0] = c[0]
    to.keep = NULL
    to.flags = c.flags & CALLED_AS_METHOD
    a.held, a.tangents = [], []
    for i in range(ov.nslots):
        value = <object>c.args[i]
        tangent = None
        if isinstance(value, Tensor):
            if _maybe(<Tensor>value) or (overwritten and i == 0):
                tangent = _tangent(<Tensor>value, level) if _differentiable(value) else None
                value = _stripped(<Tensor>value, level)
                if overwritten and i == 0 and grad:
                    value = _copied(<Tensor>value)
                    if tangent is not None:
                        tangent = call("clone", (tangent,))
            to.flags |= (<Tensor>value).flags
            a.recorded = a.recorded or (grad and ((<Tensor>value).flags | (0 if tangent is None else (<Tensor>tangent).flags))
                                        & T_REQUIRES_GRAD)
        elif ov.slots[i].kind == K_TENSORS and value is not None:
            tangent = [_tangent(<Tensor>x, level) if _differentiable(x) and _maybe(x) else None for x in value]
            value = [_stripped(<Tensor>x, level) if _maybe(x) else x for x in value]
            for k, x in enumerate(value):
                to.flags |= x.flags
                a.recorded = a.recorded or (grad and (x.flags | (0 if tangent[k] is None else (<Tensor>tangent[k]).flags))
                                            & T_REQUIRES_GRAD)
            if not any([t is not None for t in tangent]):
                tangent = None
        a.held.append(value)
        a.tangents.append(tangent)
        to.args[i] = <PyObject*>value
    return a


cdef Tensor _copied(Tensor t):
    """Return a copy with the same history."""
    cdef ThreadState state = thread_state()
    cdef bint was = state.grad_enabled
    cdef Tensor made
    cdef Node node
    cdef int output
    state.grad_enabled = False
    try:
        made = <Tensor>call("clone", (t,))
    finally:
        state.grad_enabled = was
    if t.flags & T_REQUIRES_GRAD:
        node = node_of(t, &output)
        if node is not None:
            set_node(made, node, output)
    return made


cdef int _differentiate(Call* c, Overload ov, object result, object level, bint overwritten) except -1:
    """Compute the tangents of the results at `level`, and attach them."""
    cdef Call at
    cdef _Arguments a
    cdef int i
    values = [result] if isinstance(result, Tensor) else result if isinstance(result, (tuple, list)) else []
    if not any([_differentiable(v) for v in values]):
        return 0
    a = _at_level(c, ov, level, &at, overwritten)
    try:
        if not any([t is not None for t in a.tangents]):
            return 0
        made = _tangents(&at, ov, result, a)
    finally:
        Py_XDECREF(at.keep)
    if made is None:
        return 0
    if isinstance(result, Tensor):
        made = [made]
    for i in range(min(len(values), len(made))):
        if made[i] is not None and _differentiable(values[i]):
            _attach(<Tensor>values[i], level, <Tensor>made[i] if ov.flags & VIEW else _own(<Tensor>made[i], a))
    return 0


cdef Tensor _own(Tensor tangent, _Arguments a):
    """Return `tangent`, or a copy of it if it shares memory with the tangent of an argument."""
    for t in a.tangents:
        for one in (t if isinstance(t, list) else (t,)):
            if one is not None and (<Tensor>one).storage is tangent.storage:
                return <Tensor>call("clone", (tangent,))
    return tangent


cdef object _tangents(Call* c, Overload ov, object result, _Arguments a):
    """Return the tangent of the result, a sequence if there are several, or None."""
    function = tangent_functions.get(ov.qualname)
    if function is not None:
        return _by_function(c, ov, result, a, found_body(function))
    if ov.flags & VIEW:
        return _on_tangents(c, ov, a, (0,), ())
    groups = linear_in.get(ov.qualname)
    if groups is not None and not _is_real_elementwise(c, ov, result):
        return _by_linearity(c, ov, a, groups)
    if ov.gradient is False:
        raise NotImplementedError(f"{op_name(c)}(): metatensor has no rule for the gradient of this operator, so it cannot compute "
                                  "the tangent of the result")
    return _by_rule(c, ov, result, a)


# By the operator itself ------------------------------------------------------------------------------------------

cdef object _zero(Call* c, Overload ov, int i):
    """Return what stands for an argument that does not contribute."""
    value = <object>c.args[i]
    if isinstance(value, Tensor):
        return None if ov.slots[i].optional else call("zeros_like", (value,))
    return None if value is None or ov.slots[i].optional else 0


cdef object _on_tangents(Call* c, Overload ov, _Arguments a, object group, object left_out):
    """Call the operator with the tangents of the arguments in `group`, without those in `left_out`."""
    cdef Call f = c[0]
    cdef int i
    cdef list held = []
    f.keep = NULL
    f.flags = c.flags & CALLED_AS_METHOD
    f.mixed = False
    f.variant = FUNCTIONAL
    for i in range(ov.nslots):
        value = <object>c.args[i]
        if i in group:
            value = a.tangents[i]
            if isinstance(value, list):
                value = [call("zeros_like", (x,)) if t is None else t for t, x in zip(value, <object>c.args[i])]
            elif value is None:
                value = _zero(c, ov, i)
        elif i in left_out:
            value = _zero(c, ov, i)
        held.append(value)
        f.args[i] = <PyObject*>value
        if isinstance(value, Tensor):
            f.flags |= (<Tensor>value).flags
        elif ov.slots[i].kind == K_TENSORS and value is not None:
            for t in value:
                f.flags |= (<Tensor>t).flags
    if ov.qualname == "as_strided":
        start = _start_in_storage(<Tensor>c.args[0], <Tensor>f.args[0], <object>c.args[1], <object>c.args[2], <object>c.args[3])
        if start is None:
            value = _in_storage(<Tensor>f.args[0], <Tensor>c.args[0])
            f.args[0] = <PyObject*>value
        else:
            f.args[3] = <PyObject*>start
    try:
        return dispatch(&f)
    finally:
        Py_XDECREF(f.keep)


cdef object _start_in_storage(Tensor t, Tensor tangent, object sizes, object strides, object offset):
    """Return the offset in the storage of the tangent of a part of `t`, or None if the part has other elements than `t`."""
    start = t.offset if offset is None else offset
    reach = sum([(n - 1) * s for n, s in zip(sizes, strides)])
    if start < t.offset or start + reach >= t.offset + max(extent(t.ndim, t.sizes, t.strides), 1):
        return None
    return tangent.offset + start - t.offset


cdef Tensor _in_storage(Tensor tangent, Tensor t):
    """Return a tangent in a storage of its own in which it is where `t` is in its storage."""
    whole = call("zeros", (t.storage.size_bytes // t.dtype.itemsize,), {"dtype": t.dtype, "device": t.storage.device})
    part = call("as_strided", (whole, t.shape, make_tuple(t.ndim, t.strides), t.offset))
    return <Tensor>call("copy_", (part, tangent))


cdef dict _parsed = {}      # qualified name of an overload -> its groups and its summands, as numbers of arguments


cdef object _by_linearity(Call* c, Overload ov, _Arguments a, str groups):
    found = _parsed.get(ov.qualname)
    if found is None:
        names = list(ov.argument_names)
        parts = [[names.index(name) for name in group.split("+")] for group in groups.split()]
        found = _parsed[ov.qualname] = (parts, {i for part in parts for i in part[1:]})
    total = None
    for group in found[0]:
        if all([a.tangents[i] is None for i in group]):
            continue
        term = _on_tangents(c, ov, a, group, found[1].difference(group))
        total = term if total is None else _plus(total, term)
    return total


cdef object _plus(object x, object y):
    if isinstance(x, Tensor):
        return call("add", (x, y))
    return [_plus(a, b) for a, b in zip(x, y)]


cdef object _by_function(Call* c, Overload ov, object result, _Arguments a, object function):
    cdef list links = []
    cdef _Linked link
    names = list(ov.argument_names)
    given = []
    code = function.__code__
    # The tangent must not refer to the result, which refers to the tangent.
    result = _recorded_again(c, ov, result, a, links) if a.recorded and ov.gradient is not False else _aliases(result)
    for link in links:
        if link.node is not None:
            set_edge(link.stand, 0, link.node, link.output)
    for name in code.co_varnames[:code.co_argcount]:
        if name == "result":
            given.append(result)
        elif name.endswith("_tangent") and name[:len(name) - 8] in names:
            given.append(a.tangents[names.index(name[:len(name) - 8])])
        else:
            given.append(<object>c.args[<int>names.index(name)])
    return function(*given)


# By the rule for gradients ---------------------------------------------------------------------------------------

@cython.final
cdef class _Linked:
    """An argument of a recorded call: its stand, which is linked to `node` in the end, and its tangent."""
    cdef Stand stand
    cdef Node node
    cdef int output, edge
    cdef Tensor tangent


cdef Tensor _with_stand(Tensor t, object tangent, bint recorded, list links, list marked):
    """Return an alias of an argument that its call records with a stand, or `t` if it needs none."""
    cdef _Linked link
    cdef Tensor made
    if not _differentiable(t) or (tangent is None and not (recorded and t.flags & T_REQUIRES_GRAD)):
        return t
    link = _Linked.__new__(_Linked)
    link.tangent, link.edge = tangent, -1
    made = carrying(detached(t), t)
    if recorded and t.flags & T_REQUIRES_GRAD:
        link.node = node_of(t, &link.output)
    else:
        marked.append(made)
    link.stand = _stand(Stand, made)
    set_node(made, link.stand, 0)
    links.append(link)
    return made


cdef bint _is_real_elementwise(Call* c, Overload ov, object result) except -1:
    cdef int i
    if not ov.flags & ELEMENTWISE or not isinstance(result, Tensor) or (<Tensor>result).dtype.kind != KIND_FLOAT \
            or ov.qualname in _MIXING:
        return False
    for i in range(ov.nslots):
        if ov.slots[i].kind == K_TENSORS or (isinstance(<object>c.args[i], Tensor) and (<Tensor>c.args[i]).dtype.kind == KIND_COMPLEX):
            return False
    return True


cdef object _aliases(object result):
    """Return the results of a call as detached aliases."""
    if isinstance(result, Tensor):
        return carrying(detached(<Tensor>result), <Tensor>result)
    return [carrying(detached(<Tensor>r), <Tensor>r) if isinstance(r, Tensor) else r for r in result]


cdef object _recorded_again(Call* c, Overload ov, object result, _Arguments a, list links):
    """Return aliases of the results, made by a node of their own for the arguments of `c`, which are replaced by aliases."""
    cdef ThreadState state = thread_state()
    cdef list marked = [], held = a.held
    cdef Tensor t
    cdef int i, k
    for i in range(ov.nslots):
        value = <object>c.args[i]
        if isinstance(value, Tensor):
            value = _with_stand(<Tensor>value, a.tangents[i], a.recorded, links, marked)
        elif ov.slots[i].kind == K_TENSORS and value is not None:
            value = [_with_stand(<Tensor>x, None if a.tangents[i] is None else a.tangents[i][k], a.recorded, links, marked)
                     for k, x in enumerate(value)]
        held.append(value)
        c.args[i] = <PyObject*>value
    aliases = _aliases(result)
    hooks = state.saved_hooks
    state.saved_hooks = None
    try:
        record(c, ov, aliases)
    finally:
        state.saved_hooks = hooks
    for t in marked:
        forget(t)
        t.flags &= ~T_REQUIRES_GRAD
    return aliases


cdef object _by_rule(Call* c, Overload ov, object result, _Arguments a):
    cdef list links = []
    cdef _Linked link
    cdef Node node = None
    cdef int i
    cdef bint real = _is_real_elementwise(c, ov, result), many = not isinstance(result, Tensor)
    aliases = _recorded_again(c, ov, result, a, links)
    for value in (aliases if many else (aliases,)):
        if isinstance(value, Tensor) and (<Tensor>value).node != NULL:
            node = <Node>(<Tensor>value).node
            break
    if node is None:
        return None
    for link in links:
        for i in range(node.n_edges):
            if node.edges[i].node == <PyObject*>link.stand:
                link.edge = i
    made = None
    try:
        if real:
            made = _times_derivative(node, <Tensor>aliases, links, a.recorded)
        if made is None:
            made = _transposed(node, aliases if many else [aliases], links, a.recorded)
            if not many and made is not None:
                made = made[0]
    finally:
        for link in links:
            if link.node is not None:
                set_edge(link.stand, 0, link.node, link.output)
    return made


cdef object _apply(Node node, list grads, list edges):
    """Return the gradients of the given edges, with None where there is none."""
    cdef PyObject* few[8]
    cdef PyObject* many[256]
    cdef PyObject* given[64]
    cdef char wanted[256]
    cdef PyObject** made = many
    cdef int i
    if node.n_edges > 256 or node.n_outputs > 64:
        raise NotImplementedError(f"{node.node_name()}: tangents of an operator with more than 256 tensors or 64 results")
    memset(many, 0, sizeof(many))
    memset(wanted, 0, sizeof(wanted))
    for i in edges:
        wanted[i] = 1
    for i in range(node.n_outputs):
        given[i] = NULL if i >= len(grads) or grads[i] is None else <PyObject*>grads[i]
    try:
        node.apply(given, wanted, made)
        return [None if made[<int>i] == NULL else <object>made[<int>i] for i in edges]
    finally:
        for i in range(node.n_edges):
            Py_XDECREF(made[i])


cdef object _times_derivative(Node node, Tensor result, list links, bint recorded):
    """Apply the rule of an element-wise operator to the tangents. Return None if it does more than multiply."""
    cdef ThreadState state = thread_state()
    cdef bint was = state.grad_enabled
    cdef _Linked link
    cdef Tensor tangent
    total = None
    state.grad_enabled = recorded
    try:
        for link in links:
            if link.tangent is None or link.edge < 0:
                continue
            tangent = link.tangent
            if not _same_shape(tangent, result):
                tangent = <Tensor>call("expand", (tangent, result.shape))
            if tangent.dtype is not result.dtype:
                tangent = <Tensor>call("to", (tangent,), {"dtype": result.dtype})
            term = _apply(node, [tangent], [link.edge])[0]
            if term is None:
                continue
            if not _same_shape(<Tensor>term, result):
                return None
            total = term if total is None else call("add", (total, term))
    finally:
        state.grad_enabled = was
    return call("zeros_like", (result,)) if total is None else total


cdef object _transposed(Node node, list results, list links, bint recorded):
    """Differentiate the rule, which is linear in the gradients of the results, with respect to these."""
    cdef ThreadState state = thread_state()
    cdef bint was = state.grad_enabled
    cdef _Linked link
    cdef Tensor v
    cdef list grads = [], wanted = [link for link in links if link.tangent is not None and link.edge >= 0], roots = [], given = []
    run_backward, gradient_edge = later("run_backward"), later("gradient_edge")
    for r in results:
        v = None
        if isinstance(r, Tensor) and (<Tensor>r).node != NULL:
            v = <Tensor>call("ones", (r.shape,), {"dtype": r.dtype, "device": r.device})
            v.flags |= T_REQUIRES_GRAD
        grads.append(v)
    if not wanted:
        return [None if v is None else call("zeros_like", (v,)) for v in grads]
    state.grad_enabled = True
    try:
        found = _apply(node, grads, [link.edge for link in wanted])
        for link, g in zip(wanted, found):
            if g is None or not (<Tensor>g).flags & T_REQUIRES_GRAD:
                continue
            tangent = link.tangent
            if not _same_shape(<Tensor>tangent, <Tensor>g):
                tangent = call("expand", (tangent, g.shape))
            if tangent.dtype is not g.dtype:
                tangent = call("to", (tangent,), {"dtype": g.dtype})
            roots.append(gradient_edge(g))
            given.append(tangent)
        state.grad_enabled = was
        inputs = [gradient_edge(v) for v in grads if v is not None]
        made = run_backward(roots, given, recorded, recorded, inputs) if roots else [None] * len(inputs)
    finally:
        state.grad_enabled = was
    made = iter(made)
    out = []
    for v in grads:
        t = None if v is None else next(made)
        out.append(call("zeros_like", (v.detach(),)) if v is not None and t is None else t)
    return out


# Writes ------------------------------------------------------------------------------------------------------------

cdef object _write(Call* c, Overload ov, list levels):
    """Run a call that changes its first argument, and change the tangents of that, too."""
    cdef Tensor target = <Tensor>c.args[0]
    cdef Call f
    cdef dict new = {}
    cdef bint was
    cdef ThreadState state = thread_state()
    if ov.flags & VIEW:
        _functional(c, &f)
        for level in levels:
            tangent = _tangent(target, level)
            if tangent is not None:
                f.args[0] = <PyObject*>tangent
                f.flags = (c.flags & CALLED_AS_METHOD) | (<Tensor>tangent).flags
                new[level] = dispatch(&f)
        result = _primal(c)
        for level, tangent in new.items():
            _put(target, level, <Tensor>tangent)
        return result
    if c.variant == IN_PLACE:
        _functional(c, &f)
        was = state.grad_enabled
        state.grad_enabled = False
        try:
            value = _primal(&f)
        finally:
            state.grad_enabled = was
            Py_XDECREF(f.keep)
            f.keep = NULL
        if value is target:
            value = detached(target)
        if not _same_shape(<Tensor>value, target):
            return _primal(c)       # it raises
        for level in levels:
            _differentiate(&f, ov, value, level, True)
            new[level] = _tangent(<Tensor>value, level) if (<Tensor>value).flags & T_DUAL else None
    else:
        for level in levels:
            new[level] = _written_to(c, ov, target, level)
    result = _primal(c)
    for level in levels:
        if new[level] is not NotImplemented:
            _write_tangent(target, level, new[level])
    if c.flags & T_REQUIRES_GRAD and target.base is None:
        _save_tangents(target)
    return result


cdef object _written_to(Call* c, Overload ov, Tensor target, object level):
    """Return the new tangent of a tensor that an operator writes to, or NotImplemented if it has been written."""
    cdef Call at
    cdef _Arguments a
    cdef Tensor own
    cdef int i
    if ov.flags & RANDOM:
        return None
    a = _at_level(c, ov, level, &at, False)
    if ov.qualname == "copy_":
        if a.tangents[1] is None:
            return None
        moved = call("to", (a.tangents[1],), {"dtype": target.dtype, "device": target.storage.device, "copy": True})
        return call("expand", (moved, target.shape))
    if ov.qualname not in ("_index_put_", "_index_put_accumulate_"):
        raise NotImplementedError(f"{op_name(c)}(): metatensor does not compute tangents of this operator")
    given = None
    for i in range(1, ov.nslots):
        if a.tangents[i] is not None:
            given = a.tangents[i]
    own = _writable(target, level, given)
    at.args[0] = <PyObject*>own
    at.flags = c.flags & CALLED_AS_METHOD | own.flags
    for i in range(1, ov.nslots):
        if _differentiable(<object>at.args[i]):
            value = a.tangents[i]
            if value is None:
                value = call("zeros_like", (<object>at.args[i],))
            a.held.append(value)
            at.args[i] = <PyObject*>value
        if isinstance(<object>at.args[i], Tensor):
            at.flags |= (<Tensor>at.args[i]).flags
        elif ov.slots[i].kind == K_TENSORS and <object>at.args[i] is not None:
            for t in <object>at.args[i]:
                at.flags |= (<Tensor>t).flags
    dispatch(&at)
    Py_XDECREF(at.keep)
    return NotImplemented


cdef Tensor _zeros_for(Tensor t, object like):
    """Return zeros with the layout of `t`, a tensor of the class of `like`."""
    if like is not None and (<Tensor>like).flags & T_OVERRIDES:
        return <Tensor>call("new_zeros", (like, t.shape), {"dtype": t.dtype})
    made = call("empty_strided", (t.shape, make_tuple(t.ndim, t.strides)), {"dtype": t.dtype, "device": t.storage.device})
    return <Tensor>call("zero_", (made,))


cdef Tensor _writable(Tensor target, object level, object like):
    """Return the tangent of `target`, to be written to. Zeros are the tangent of a tensor without one, and of its base."""
    cdef Tensor tangent = _tangent(target, level), base
    cdef bint mixed = like is not None and (<Tensor>like).flags & T_OVERRIDES
    if tangent is not None and (not mixed or tangent.flags & T_OVERRIDES):
        return tangent
    base = target if target.base is None else <Tensor>target.base
    whole = _tangent(base, level)
    made = _zeros_for(base, like)
    if whole is not None:
        call("copy_", (made, whole))
    elif tangent is not None:
        call("copy_", (part_of(made, base, target), tangent))
    _put(base, level, made)
    if base is not target:
        _put(target, level, part_of(made, base, target))
    return _tangent(target, level)


cdef int _write_tangent(Tensor target, object level, object tangent) except -1:
    cdef Tensor old = _tangent(target, level)
    if old is None and tangent is None:
        return 0
    if old is None and target.base is None:
        return _attach(target, level, <Tensor>tangent)
    if old is not None and old.flags & T_REQUIRES_GRAD and not old.flags & (T_NONLEAF | T_OVERRIDES):
        return _attach(target, level, _zeros_for(target, None) if tangent is None else <Tensor>tangent)
    old = _writable(target, level, tangent)
    if tangent is None:
        call("zero_", (old,))
    elif old is not tangent:
        call("copy_", (old, tangent))
    return 0
