"""Forward-mode differentiation: calls whose arguments have tangents.

A tensor may have one tangent for each *level*. Levels are numbered and nested: inner levels begin later and have larger
numbers. The tangent at a level is a tensor, which may itself have tangents at outer levels.

A call first runs as if its arguments had no tangents, and is recorded with the original arguments. Then the tangents
of the results are computed level by level, from the outermost to the innermost. For the computation at one level, the
tangents of the arguments at that level and at inner levels are removed, so that levels do not mix. The first of these
ways that applies is used:

- an operator that declares a function for tangents: that function;
- a view: the same view of the tangent;
- an element-wise operator of real numbers: its gradient rule, which multiplies by the derivative, applied to the
  tangents;
- an operator that is declared linear: the operator itself, applied to the tangents;
- any other operator with a gradient rule: the transpose of the rule, which is linear in the gradient;
- a composite operator without a rule: the operators that its body calls.

``gradient(..., linear="input+bias weight")`` declares that an operator is linear in each group of arguments while the
others are constant. Arguments joined by + form one group. Those after a + are summands, which are replaced by zero when
the tangent of another group is computed.

``gradient(..., tangent=function)`` declares a function for tangents. The names of its parameters determine what it
receives: an argument, its tangent (the name followed by ``_tangent``; None if there is none), or ``result``.
"""
from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF
from metatensor._core.dispatch cimport dispatch, run_plain
from metatensor._core.duals cimport attach, levels_of, maybe_dual, put_tangent, same_shape, stripped, tangent_at
from metatensor._core.execute cimport python_meta
from metatensor._core.graph cimport SAVED_RESULT, Node
from metatensor._core.history cimport node_of, part_of, set_node
from metatensor._core.modes cimport run_modes
from metatensor._core.op cimport (
    COMPOSITE, FUNCTIONAL, HOST, IN_PLACE, K_TENSORS, NO_GRAD, RANDOM, VIEW, WITH_OUT, Call, Op, Overload, call, op_name,
)
from metatensor._core.overriding cimport CALLED_AS_METHOD
from metatensor._core.rule_node cimport BY_OTHERS, Way, by_others, way_of
from metatensor._core.size cimport make_tuple
from metatensor._core.tangents cimport Arguments, differentiable, tangents_of
from metatensor._core.tensor cimport Tensor
from metatensor._core.thread cimport ThreadState, hints, thread_state
from metatensor._core.types cimport T_DISTRIBUTED, T_DUAL, T_NONLEAF, T_OVERRIDES, T_REQUIRES_GRAD
from metatensor._core.versions cimport carrying, detached

# A call -------------------------------------------------------------------------------------------------------

cdef object _primal(Call* c):
    """Run a call as if its arguments had no tangents."""
    cdef ThreadState state = thread_state()
    cdef unsigned long long was = state.dual_limit
    cdef Call own = c[0]        # a copy, because a meta kernel may change the arguments of a call
    own.keep = NULL
    state.dual_limit = 0
    try:
        if hints.modes or own.flags & (T_OVERRIDES | T_DISTRIBUTED):
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
    levels = levels_of(c, ov)
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
    """Run a composite operator. The operators that it calls compute the tangents."""
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
    """Attach the tangents of the results to the aliases that their node saved."""
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
    """Fill `f` with a call of the functional variant, with the same arguments."""
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


cdef Arguments _at_level(Call* c, Overload ov, object level, Call* to, bint overwritten):
    """Fill `to` with the call, without tangents at `level` and inner levels. Return the tangents at `level`.

    If `overwritten`, the call overwrites its first argument, which is therefore copied.
    """
    cdef Arguments a = Arguments.__new__(Arguments)
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
            if maybe_dual(<Tensor>value) or (overwritten and i == 0):
                tangent = tangent_at(<Tensor>value, level) if differentiable(value) else None
                value = stripped(<Tensor>value, level)
                if overwritten and i == 0 and grad:
                    value = _copied(<Tensor>value)
                    if tangent is not None:
                        tangent = call("clone", (tangent,))
            to.flags |= (<Tensor>value).flags
            a.recorded = a.recorded or (grad and ((<Tensor>value).flags | (0 if tangent is None else (<Tensor>tangent).flags))
                                        & T_REQUIRES_GRAD)
        elif ov.slots[i].kind == K_TENSORS and value is not None:
            tangent = [tangent_at(<Tensor>x, level) if differentiable(x) and maybe_dual(x) else None for x in value]
            value = [stripped(<Tensor>x, level) if maybe_dual(x) else x for x in value]
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
    """Return a copy of the values with the same history."""
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
    cdef Arguments a
    cdef int i
    values = [result] if isinstance(result, Tensor) else result if isinstance(result, (tuple, list)) else []
    if not any([differentiable(v) for v in values]):
        return 0
    a = _at_level(c, ov, level, &at, overwritten)
    try:
        if not any([t is not None for t in a.tangents]):
            return 0
        made = tangents_of(&at, ov, result, a)
    finally:
        Py_XDECREF(at.keep)
    if made is None:
        return 0
    if isinstance(result, Tensor):
        made = [made]
    for i in range(min(len(values), len(made))):
        if made[i] is not None and differentiable(values[i]):
            attach(<Tensor>values[i], level, <Tensor>made[i] if ov.flags & VIEW else _own(<Tensor>made[i], a))
    return 0


cdef Tensor _own(Tensor tangent, Arguments a):
    """Return `tangent`, or a copy of it if it shares memory with the tangent of an argument."""
    for t in a.tangents:
        for one in (t if isinstance(t, list) else (t,)):
            if one is not None and (<Tensor>one).storage is tangent.storage:
                return <Tensor>call("clone", (tangent,))
    return tangent


# In-place calls ----------------------------------------------------------------------------------------------------

cdef object _write(Call* c, Overload ov, list levels):
    """Run a call that changes its first argument, and change the tangents of this argument accordingly."""
    cdef Tensor target = <Tensor>c.args[0]
    cdef Call f
    cdef dict new = {}
    cdef bint was
    cdef ThreadState state = thread_state()
    if ov.flags & VIEW:
        _functional(c, &f)
        for level in levels:
            tangent = tangent_at(target, level)
            if tangent is not None:
                f.args[0] = <PyObject*>tangent
                f.flags = (c.flags & CALLED_AS_METHOD) | (<Tensor>tangent).flags
                new[level] = dispatch(&f)
        result = _primal(c)
        for level, tangent in new.items():
            put_tangent(target, level, <Tensor>tangent)
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
        if not same_shape(<Tensor>value, target):
            return _primal(c)       # it raises
        for level in levels:
            _differentiate(&f, ov, value, level, True)
            new[level] = tangent_at(<Tensor>value, level) if (<Tensor>value).flags & T_DUAL else None
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
    """Return the new tangent of a tensor that an operator writes to, or NotImplemented if it was updated in place."""
    cdef Call at
    cdef Arguments a
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
        if differentiable(<object>at.args[i]):
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
    """Return zeros with the layout of `t`, in a tensor of the class of `like`."""
    if like is not None and (<Tensor>like).flags & T_OVERRIDES:
        return <Tensor>call("new_zeros", (like, t.shape), {"dtype": t.dtype})
    made = call("empty_strided", (t.shape, make_tuple(t.ndim, t.strides)), {"dtype": t.dtype, "device": t.storage.device})
    return <Tensor>call("zero_", (made,))


cdef Tensor _writable(Tensor target, object level, object like):
    """Return a tangent of `target` that can be written to. If there is none, attach zeros to `target` and its base."""
    cdef Tensor tangent = tangent_at(target, level), base
    cdef bint mixed = like is not None and (<Tensor>like).flags & T_OVERRIDES
    if tangent is not None and (not mixed or tangent.flags & T_OVERRIDES):
        return tangent
    base = target if target.base is None else <Tensor>target.base
    whole = tangent_at(base, level)
    made = _zeros_for(base, like)
    if whole is not None:
        call("copy_", (made, whole))
    elif tangent is not None:
        call("copy_", (part_of(made, base, target), tangent))
    put_tangent(base, level, made)
    if base is not target:
        put_tangent(target, level, part_of(made, base, target))
    return tangent_at(target, level)


cdef int _write_tangent(Tensor target, object level, object tangent) except -1:
    cdef Tensor old = tangent_at(target, level)
    if old is None and tangent is None:
        return 0
    if old is None and target.base is None:
        return attach(target, level, <Tensor>tangent)
    if old is not None and old.flags & T_REQUIRES_GRAD and not old.flags & (T_NONLEAF | T_OVERRIDES):
        return attach(target, level, _zeros_for(target, None) if tangent is None else <Tensor>tangent)
    old = _writable(target, level, tangent)
    if tangent is None:
        call("zero_", (old,))
    elif old is not tangent:
        call("copy_", (old, tangent))
    return 0
