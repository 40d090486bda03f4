"""Computation of the tangents of a call's results from those of its arguments. See `forward`."""
cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF
from libc.string cimport memset
from metatensor._core.dispatch cimport dispatch
from metatensor._core.duals cimport Stand, same_shape, stand_for
from metatensor._core.graph cimport Node, set_edge
from metatensor._core.history cimport forget, node_of, set_node
from metatensor._core.layout cimport extent
from metatensor._core.op cimport ELEMENTWISE, FUNCTIONAL, K_TENSORS, VIEW, Call, Overload, call, op_name
from metatensor._core.overriding cimport CALLED_AS_METHOD
from metatensor._core.rule_node cimport record
from metatensor._core.size cimport make_tuple
from metatensor._core.tensor cimport Tensor
from metatensor._core.thread cimport ThreadState, thread_state
from metatensor._core.types cimport KIND_COMPLEX, KIND_FLOAT, T_REQUIRES_GRAD
from metatensor._core.versions cimport carrying, detached
from metatensor._core.gradients import linear_in, tangents as tangent_functions
from metatensor._core.late import found_body, later

# Operators that have the flag ELEMENTWISE, because their result may overwrite an argument, although one element of the
# result depends on several elements of the argument.
_MIXING = frozenset((
    "addbmm", "addmm", "addmv", "addr", "baddbmm", "cumprod", "cumsum", "index_add", "index_copy", "index_fill", "index_reduce",
    "masked_scatter", "put", "renorm", "scatter", "scatter.value", "scatter.reduce", "scatter.value_reduce", "scatter_add",
    "scatter_reduce",
))


@cython.final
cdef class Arguments:
    pass


cdef object tangents_of(Call* c, Overload ov, object result, Arguments a):
    """Return the tangent of the result, a sequence of tangents if there are several results, or None."""
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
    """Return a zero to pass for argument `i`, or None if the argument is optional."""
    value = <object>c.args[i]
    if isinstance(value, Tensor):
        return None if ov.slots[i].optional else call("zeros_like", (value,))
    return None if value is None or ov.slots[i].optional else 0


cdef object _on_tangents(Call* c, Overload ov, Arguments a, object group, object left_out):
    """Call the operator with tangents in place of the arguments in `group`, and zeros in place of those in `left_out`."""
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
    """Return the storage offset of the tangent of a strided part of `t`, or None if the part reaches beyond `t`."""
    start = t.offset if offset is None else offset
    reach = sum([(n - 1) * s for n, s in zip(sizes, strides)])
    if start < t.offset or start + reach >= t.offset + max(extent(t.ndim, t.sizes, t.strides), 1):
        return None
    return tangent.offset + start - t.offset


cdef Tensor _in_storage(Tensor tangent, Tensor t):
    """Return a copy of `tangent` in a new storage, at the same offset and with the same strides as `t`."""
    whole = call("zeros", (t.storage.size_bytes // t.dtype.itemsize,), {"dtype": t.dtype, "device": t.storage.device})
    part = call("as_strided", (whole, t.shape, make_tuple(t.ndim, t.strides), t.offset))
    return <Tensor>call("copy_", (part, tangent))


cdef dict _parsed = {}      # qualified name of an overload -> its groups and its summands, as argument numbers


cdef object _by_linearity(Call* c, Overload ov, Arguments a, str groups):
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


cdef object _by_function(Call* c, Overload ov, object result, Arguments a, object function):
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


# By the gradient rule --------------------------------------------------------------------------------------------

@cython.final
cdef class _Linked:
    """An argument of a call that is recorded again: its `Stand`, which is linked to `node` afterwards, and its tangent."""
    cdef Stand stand
    cdef Node node
    cdef int output, edge
    cdef Tensor tangent


cdef Tensor _with_stand(Tensor t, object tangent, bint recorded, list links, list marked):
    """Return an alias of an argument whose node is a new `Stand`, or `t` itself if it needs no derivative."""
    cdef _Linked link
    cdef Tensor made
    if not differentiable(t) or (tangent is None and not (recorded and t.flags & T_REQUIRES_GRAD)):
        return t
    link = _Linked.__new__(_Linked)
    link.tangent, link.edge = tangent, -1
    made = carrying(detached(t), t)
    if recorded and t.flags & T_REQUIRES_GRAD:
        link.node = node_of(t, &link.output)
    else:
        marked.append(made)
    link.stand = stand_for(Stand, made)
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


cdef object _recorded_again(Call* c, Overload ov, object result, Arguments a, list links):
    """Return aliases of the results, with a new node for the call. The arguments of `c` are replaced by aliases."""
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


cdef object _by_rule(Call* c, Overload ov, object result, Arguments a):
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
    """Return the gradients that `node` computes for the given edges, with None for an absent gradient."""
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
    """Apply the rule of an element-wise operator to the tangents. Return None if a result has another shape."""
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
            if not same_shape(tangent, result):
                tangent = <Tensor>call("expand", (tangent, result.shape))
            if tangent.dtype is not result.dtype:
                tangent = <Tensor>call("to", (tangent,), {"dtype": result.dtype})
            term = _apply(node, [tangent], [link.edge])[0]
            if term is None:
                continue
            if not same_shape(<Tensor>term, result):
                return None
            total = term if total is None else call("add", (total, term))
    finally:
        state.grad_enabled = was
    return call("zeros_like", (result,)) if total is None else total


cdef object _transposed(Node node, list results, list links, bint recorded):
    """Return the tangents as the transpose of the rule.

    The rule is linear in the gradients of the results. Its derivative with respect to them is applied to the tangents.
    """
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
            if not same_shape(<Tensor>tangent, <Tensor>g):
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
