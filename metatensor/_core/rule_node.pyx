"""Nodes of operators: recording a call, and applying its gradient rule."""
cimport cython
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from metatensor._core.accounting cimport chosen_policy, formula
from metatensor._core.device cimport META
from metatensor._core.gradients cimport (
    FROM_GRAD, FROM_GRADS, FROM_META, FROM_SAVED, KEEP_ARGUMENT, KEEP_LAYOUT, KEEP_RESULT, MAX_NAMER, MAX_PARAMETERS, Function,
    Kept, NamedRule, Parameter, Rule, rule_of,
)
from metatensor._core.graph cimport (
    SAVED_INPUT, SAVED_LAYOUT, SAVED_OBJECT, Node, graph_hooks, new_edge, new_node, next_sequence, node_extra, set_edge,
    set_output, set_outputs_room, set_room, track, track_all, wants, where_called,
)
from metatensor._core.history cimport input_outline, node_of, rebase, set_node
from metatensor._core.op cimport COMPOSITE, FUNCTIONAL, IN_PLACE, K_TENSORS, VIEW, Call, Overload, call, make_returns
from metatensor._core.saved cimport Layout, keep, keep_result, keep_tensor, keep_tensors, layout_of, mark_saved, unpack
from metatensor._core.size cimport make_tuple
from metatensor._core.spec cimport Spec
from metatensor._core.tensor cimport Tensor, version_of
from metatensor._core.thread cimport hints, thread_state
from metatensor._core.types cimport (
    KIND_COMPLEX, KIND_FLOAT, T_CONSTANT, T_CONTIGUOUS, T_INFERENCE, T_NONLEAF, T_REQUIRES_GRAD, T_SAVED, T_VIEW,
)
from metatensor._core cimport graph
from metatensor._core.errors import NotDifferentiableError
from metatensor._core.late import later

cdef extern from "Python.h":
    object PyObject_Vectorcall(object callee, PyObject** args, size_t nargsf, PyObject* kwnames)


# Recording ---------------------------------------------------------------------------------------------------

cdef Way way_of(Call* c, Overload ov) except *:
    """Return how a call of an operator is recorded."""
    cdef object rule = rule_of(ov)
    if rule is False:
        return AS_IT_IS
    if (<Rule>rule).through is not None and (c.variant == FUNCTIONAL or not (<Rule>rule).n_slots):
        if not (<Rule>rule).strided or not (<Tensor>c.args[0]).flags & (<Tensor>c.args[1]).flags & T_CONTIGUOUS:
            return BY_OTHERS
    return AS_UNIT if ov.flags & COMPOSITE and c.variant == FUNCTIONAL else AS_IT_IS


cdef object by_others(Call* c, Overload ov):
    """Compute an operator by calling others, which are recorded.

    For an in-place call they get a copy of the target, because they may save it.
    """
    cdef int i
    if hints.policies and c.variant == FUNCTIONAL:
        result = _by_policy(c, ov)
        if result is not NotImplemented:
            return make_returns(c, result) if type(result) is tuple else result
    if c.variant != IN_PLACE:
        result = PyObject_Vectorcall((<Rule>ov.gradient).through, c.args, ov.nslots, NULL)
    elif (<Rule>ov.gradient).through_write is not None:
        return PyObject_Vectorcall((<Rule>ov.gradient).through_write, c.args, ov.nslots, NULL)
    else:
        args = [<object>c.args[i] for i in range(ov.nslots)]
        args[0] = call("clone", (args[0],))
        result = (<Rule>ov.gradient).through(*args)
        if result is not NotImplemented:
            return <object>c.args[0] if result is args[0] else call("copy_", (<object>c.args[0], result))
    return make_returns(c, result) if type(result) is tuple else result


cdef object recorded_directly(Call* c, Overload ov):
    """Compute a call on meta, and record it as a call of the operator that computes it. This avoids the second call.

    Return NotImplemented if `by_others` has to compute it.
    """
    cdef Rule rule = <Rule>ov.gradient
    cdef Overload direct = rule.direct
    cdef int i
    if direct is None or c.variant != FUNCTIONAL or c.device != <PyObject*>META or c.flags & T_CONSTANT or direct.meta == NULL or (
            hints.modes | hints.trackers | hints.policies):
        return NotImplemented
    for i in range(2 if rule.direct_ndim else 0):
        if (<Tensor>c.args[i]).ndim != rule.direct_ndim:
            return NotImplemented
    result = ov.meta(c) if rule.direct_result < 0 else None
    c.overload = <PyObject*>direct
    for i in range(ov.nslots, direct.nslots):
        c.args[i] = direct.slots[i].default
    try:
        if rule.direct_result < 0:
            record(c, direct, result)
            return result
        results = direct.meta(c)
        record(c, direct, results)
        return (<tuple?>results)[rule.direct_result]
    finally:
        c.overload = <PyObject*>ov


cdef object _by_policy(Call* c, Overload ov):
    """Compute an operator by the others that the thread's kernel policy records. Return NotImplemented if it names none."""
    policy = chosen_policy()
    body = None if policy is None else policy.recorded_as(ov.qualname)
    return NotImplemented if body is None else PyObject_Vectorcall(body, c.args, ov.nslots, NULL)


cdef inline int _link(Node node, int i, Tensor t) except -1:
    """Set edge `i` if the tensor requires grad.

    Return 0 if it does not, 3 if the garbage collector tracks its node, and 1 otherwise.
    """
    cdef int output
    cdef Node to
    if not t.flags & T_REQUIRES_GRAD:
        return 0
    to = node_of(t, &output)
    set_edge(node, i, to, output)
    return 1 if to.untracked else 3


cdef int _link_all(Node node, Rule rule, Call* c) except -1:
    """Set the edges of a node, and the functions of its rule that are wanted.

    Return a true value if the garbage collector tracks one of the nodes at the other end of the edges.
    """
    cdef Overload ov = <Overload>c.overload
    cdef Tensor t
    cdef int i = 0, k, linked, tracked = 0, edges = rule.n_slots
    if rule.lists:
        edges = 0
        for k in range(rule.n_slots):
            edges += len(<object>c.args[rule.slots[k]]) if ov.slots[rule.slots[k]].kind == K_TENSORS else 1
    set_room(node, edges, rule.n_kept, 0)
    for k in range(rule.n_slots):
        value = <object>c.args[rule.slots[k]]
        if isinstance(value, list):
            for t in value:
                linked = _link(node, i, t)
                if linked:
                    node.functions |= 1ULL << rule.function_of[k]
                    tracked |= linked & 2
                i += 1
            continue
        if isinstance(value, Tensor):
            linked = _link(node, i, <Tensor>value)
            if linked:
                node.functions |= 1ULL << rule.function_of[k]
                tracked |= linked & 2
        i += 1
    return tracked


cdef inline unsigned long long _given(Rule rule, Call* c) noexcept:
    """Return the bit set of the functions whose argument is not a number."""
    cdef unsigned long long given = 0
    cdef object value
    cdef int k
    if not rule.numbers:
        return <unsigned long long>-1
    for k in range(rule.n_slots):
        value = <object>c.args[rule.slots[k]]
        if value is None or isinstance(value, (Tensor, list)):
            given |= 1ULL << rule.function_of[k]
    return given


cdef int _link_missing(Node node, Call* c, Overload ov) except -1:
    """Set edges to all tensor arguments of an operator without a rule. Backward through its node raises.

    The operator has no rule, or its function that calls others could not be used.
    """
    cdef list given = []
    cdef int i, tracked = 0
    for i in range(ov.nslots):
        value = <object>c.args[i]
        given.extend([t for t in value if isinstance(t, Tensor)] if isinstance(value, list) else
                     [value] if isinstance(value, Tensor) else [])
    node.rule = _Missing(ov)
    set_room(node, <int>len(given), 0, 0)
    for i, t in enumerate(given):
        tracked |= _link(node, i, <Tensor>t) & 2
    return tracked


cdef inline bint _is_kept(Rule rule, int k, unsigned long long given, unsigned long long functions) noexcept:
    """Return whether a node keeps an argument.

    As in PyTorch, an argument that only one gradient needs is not kept if that gradient is not wanted.
    """
    cdef unsigned long long users = rule.kept[k].wanted_by & given
    return users & functions or users & (users - 1) and not rule.sparing


cdef int _refuse(Call* c, Rule rule) except -1:
    """Raise RuntimeError if an argument that has no gradient requires grad."""
    cdef int k
    for k in range(rule.n_constant):
        value = <object>c.args[rule.constant[k]]
        for t in value if isinstance(value, list) else (value,):
            if isinstance(t, Tensor) and (<Tensor>t).flags & T_REQUIRES_GRAD:
                raise NotDifferentiableError(rule.overload.qualname, <object>rule.overload.slots[rule.constant[k]].name)
    return 0


cdef Node begin(Call* c, Overload ov):
    """Return a node with the edges and saved arguments of a call. Its outputs are set later."""
    cdef Node node = new_node()
    cdef Rule rule
    cdef Kept* kept
    cdef unsigned long long given
    cdef int k, tracked
    if rule_of(ov) is False or not (<Rule>ov.gradient).n_slots:
        tracked = _link_missing(node, c, ov)
    else:
        rule = <Rule>ov.gradient
        if c.variant == IN_PLACE and rule.written is not None:
            rule = rule.written
        if rule.n_constant:
            _refuse(c, rule)
        node.rule = rule
        if rule.in_place is not None and c.variant == IN_PLACE or rule.namer is not None and (
                rule.named_by < 0 or <object>c.args[rule.named_by] is not None):
            node.rule = _named(rule, c)
        tracked = _link_all(node, rule, c)
        if rule.n_kept:
            given = _given(rule, c)
            for k in range(rule.n_kept):
                kept = &rule.kept[k]
                if kept.what != KEEP_RESULT and _is_kept(rule, k, given, node.functions):
                    _keep_argument(c, node, k, kept)
    node.sequence = next_sequence()     # after the nodes of its inputs, some of which may just have been created for views
    if tracked or hints.saved_hooks:
        track(node)
    if hints.anomaly:
        call_stack = later("call_stack")
        node_extra(node).forward_stack = call_stack()
    return node


@cython.final
cdef class _Missing:
    """Takes the place of the rule of an operator that has none."""
    cdef readonly str name
    cdef readonly str op

    def __init__(self, Overload ov):
        self.op, self.name = ov.qualname, "torch::autograd::NotImplemented"

    def saved_value(self, node, name):
        raise AttributeError(f"{self.name} has no attribute '_saved_{name}'")


cdef object _named(Rule rule, Call* c):
    cdef PyObject* args[MAX_NAMER]
    cdef bint default = True
    cdef int i
    if rule.in_place is not None and c.variant == IN_PLACE:
        return rule.called(rule.in_place)
    for i in range(rule.n_namer):
        args[i] = c.args[rule.namer_slots[i]]
        default = default and <object>args[i] is (None if rule.overload.slots[rule.namer_slots[i]].optional else False)
    if default and rule.default_named is not None:
        return rule.default_named
    named = rule.called(<str?>PyObject_Vectorcall(rule.namer, args, rule.n_namer, NULL))
    if default:
        rule.default_named = named
    return named


cpdef object renamed(object t, str name):
    """Rename the node of a new tensor to PyTorch's name, if the tensor has a node. Return the tensor."""
    cdef Node node
    if (<Tensor>t).flags & T_NONLEAF and (<Tensor>t).node != NULL:
        node = <Node>(<Tensor>t).node
        if isinstance(node.rule, NamedRule):
            node.rule = (<NamedRule>node.rule).rule.called(name)
        elif isinstance(node.rule, Rule):
            node.rule = (<Rule>node.rule).called(name)
    return t


cdef list _layouts(list tensors):
    cdef list made = PyList_New(len(tensors))
    cdef Layout layout
    cdef Py_ssize_t i
    for i in range(len(made)):
        layout = layout_of(<Tensor>tensors[i])
        Py_INCREF(layout)
        PyList_SET_ITEM(made, i, layout)
    return made


cdef int _keep_argument(Call* c, Node node, int k, Kept* kept) except -1:
    value = <object>c.args[kept.index]
    if kept.what == KEEP_LAYOUT:
        if isinstance(value, list):
            return keep(node, k, _layouts(<list>value), SAVED_OBJECT)
        return keep(node, k, layout_of(<Tensor>value) if isinstance(value, Tensor) else value, SAVED_OBJECT)
    if isinstance(value, Tensor):
        if c.variant == IN_PLACE and kept.index == 0 or (<Overload>c.overload).slots[kept.index].mutated:
            value = _before_write(<Tensor>value)
        return keep_tensor(node, k, <Tensor>value)
    if isinstance(value, list) and (<Overload>c.overload).slots[kept.index].kind == K_TENSORS:
        return keep_tensors(node, k, value)
    return keep(node, k, value, SAVED_OBJECT)


cdef Tensor _before_write(Tensor t):
    """Return a copy, with its history, of a tensor that the operator is about to overwrite."""
    cdef bint was = thread_state().grad_enabled
    cdef Tensor copy
    cdef Node node
    cdef int output
    thread_state().grad_enabled = False
    try:
        copy = <Tensor>call("clone", (t,))
    finally:
        thread_state().grad_enabled = was
    if hints.modes:
        later("note_copy")(t, copy)
    if hints.duals:
        later("copy_tangents")(copy, t)
    if t.flags & T_REQUIRES_GRAD:
        node = node_of(t, &output)
        set_node(copy, node, output)
    return copy


cdef inline bint _differentiable(Tensor t) noexcept:
    return t.dtype.kind == KIND_FLOAT or t.dtype.kind == KIND_COMPLEX


cdef inline bint _any_differentiable(tuple results):
    for r in results:
        if isinstance(r, Tensor) and _differentiable(<Tensor>r):
            return True
    return False


cdef int record_plain(Call* c, Rule rule, object result) except -1:
    """Record a call whose rule is `plain`: few tensors, no special cases. A faster form of `record`.

    The result is a tensor, or a tuple of which a tensor is differentiable.
    """
    cdef Node node = new_node(), to
    cdef Kept* kept
    cdef PyObject* value
    cdef unsigned long long functions = 0, given = _given(rule, c) if rule.numbers else <unsigned long long>-1
    cdef int k, output
    cdef bint tracked = False
    if rule.n_constant:
        _refuse(c, rule)
    node.rule = rule if rule.namer is None or rule.named_by >= 0 and <object>c.args[rule.named_by] is None else _named(rule, c)
    node.edges, node.n_edges = node.inline_edges, rule.n_slots
    node.saved, node.n_saved = node.inline_saved, rule.n_kept
    for k in range(rule.n_slots):
        value = c.args[rule.slots[k]]
        if not isinstance(<object>value, Tensor) or not (<Tensor>value).flags & T_REQUIRES_GRAD:
            continue
        functions |= 1ULL << rule.function_of[k]
        if (<Tensor>value).node != NULL and (<Tensor>value).flags & (T_NONLEAF | T_VIEW) == T_NONLEAF:
            new_edge(node, k, (<Tensor>value).node, (<Tensor>value).output)
        else:
            to = node_of(<Tensor>value, &output)
            new_edge(node, k, <PyObject*>to, output)
        tracked = tracked or not (<Node>node.edges[k].node).untracked
    node.functions = functions
    node.sequence = next_sequence()
    if isinstance(result, Tensor):
        node.outputs, node.n_outputs = &node.inline_output, 1
        set_output(node, 0, <Tensor>result)
        set_node(<Tensor>result, node, 0)
    else:
        _set_outputs(node, rule, <tuple>result)
    for k in range(rule.n_kept):
        kept = &rule.kept[k]
        if kept.what == KEEP_RESULT:
            if kept.wanted_by & given:
                _keep_one(node, k, kept, result)
        elif _is_kept(rule, k, given, functions):
            value = c.args[kept.index]
            if kept.kept_as >= 0 and _is_kept(rule, kept.kept_as, given, functions) and isinstance(<object>value, Tensor):
                keep(node, k, <object>value, SAVED_LAYOUT)
            elif kept.what == KEEP_ARGUMENT and isinstance(<object>value, Tensor) and not (<Tensor>value).flags & T_INFERENCE:
                Py_INCREF(<object>value)
                mark_saved(<Tensor>value)
                node.saved[k].value = value
                node.saved[k].kind = SAVED_INPUT
                node.saved[k].version = version_of(<Tensor>value)
            else:
                _keep_argument(c, node, k, kept)
    if tracked:
        track(node)
    return 0


cdef int record(Call* c, Overload ov, object result) except -1:
    """Record a call that wrote to no argument."""
    cdef Node node
    cdef tuple results
    cdef bint plain = (c.variant == FUNCTIONAL and rule_of(ov) is not False and (<Rule>ov.gradient).plain
                       and not hints.saved_hooks | hints.anomaly)
    if isinstance(result, Tensor):
        if not _differentiable(<Tensor>result):
            return 0
        if plain:
            return record_plain(c, <Rule>ov.gradient, result)
        node = begin(c, ov)
        set_outputs_room(node, 1)
        set_output(node, 0, <Tensor>result)
        set_node(<Tensor>result, node, 0)
        return _keep_results(c, node, result)
    if not isinstance(result, (tuple, list)):
        return 0
    results = result if type(result) is tuple else tuple(result)
    if not _any_differentiable(results):
        return 0
    if plain:
        return record_plain(c, <Rule>ov.gradient, results)
    node = begin(c, ov)
    _set_outputs(node, node_rule(node), results)
    return _keep_results(c, node, results)


cdef int _set_outputs(Node node, Rule rule, tuple results) except -1:
    cdef unsigned long long which = <unsigned long long>-1 if rule is None else rule.outputs
    cdef int i = 0
    set_outputs_room(node, <int>len(results))
    for r in results:
        if isinstance(r, Tensor) and _differentiable(<Tensor>r) and (which >> min(i, 63)) & 1:
            set_output(node, i, <Tensor>r)
            set_node(<Tensor>r, node, i)
        i += 1
    return 0


cdef Rule node_rule(Node node):
    """Return the rule of a node, or None if its operator has none."""
    if isinstance(node.rule, Rule):
        return <Rule>node.rule
    return (<NamedRule>node.rule).rule if isinstance(node.rule, NamedRule) else None


cdef int _keep_results(Call* c, Node node, object result) except -1:
    """Save the results that the rule needs."""
    cdef Rule rule = node_rule(node)
    cdef Kept* kept
    cdef unsigned long long given
    cdef int k
    if rule is None or not rule.n_kept:
        return 0
    given = _given(rule, c)
    for k in range(rule.n_kept):
        kept = &rule.kept[k]
        if kept.what != KEEP_RESULT or not kept.wanted_by & given:
            continue
        _keep_one(node, k, kept, result)
    return 0


cdef int _keep_one(Node node, int k, Kept* kept, object result) except -1:
    """Save the result that `kept` names. `result` is a tensor or a tuple."""
    value = result if isinstance(result, Tensor) else (<tuple>result)[kept.index]
    if isinstance(value, Tensor):
        return keep_result(node, k, <Tensor>value, kept.index)
    return keep(node, k, value, SAVED_OBJECT)


cdef int record_write(Call* c, Overload ov, Node node, object target) except -1:
    """Record a call that wrote to `target`. `node` was returned by `begin` before the call."""
    cdef Rule rule = node_rule(node)
    cdef Tensor whole
    cdef int edge = -1
    if not _differentiable(<Tensor>target):
        return 0        # integers and booleans have no gradient, whatever is written to them
    set_outputs_room(node, 1)
    set_output(node, 0, <Tensor>target)
    if rule is not None and rule.n_slots and rule.slots[0] == 0:
        edge = 0
    if ov.flags & VIEW and (<Tensor>target).base is not None:
        set_node(<Tensor>target, node, 0)       # the shape of the view was changed; the values of its base were not
    else:
        rebase(<Tensor>target, node, edge)
    whole = <Tensor>target if (<Tensor>target).base is None else <Tensor>(<Tensor>target).base
    if whole.flags & T_SAVED and whole.node != NULL:
        track_all(<Node>whole.node)     # it may lead to a node that saved the target
    return _keep_results(c, node, target)


# Applying a rule -------------------------------------------------------------------------------------------------

cdef object _spec_of(graph.Output* o):
    """Return the Spec of a tensor, given the metadata that a node stores."""
    cdef Spec s = Spec.__new__(Spec)
    s.shape = make_tuple(o.ndim, o.sizes)
    s.dtype = <object>o.dtype
    s.device = <object>o.device
    return s


cdef object _zeros(graph.Output* o):
    return call("zeros", (make_tuple(o.ndim, o.sizes),), {"dtype": <object>o.dtype, "device": <object>o.device})


cdef int _apply(Node node, PyObject** grads, const char* wanted, PyObject** to) except -1:
    cdef Rule rule = node_rule(node)
    cdef Function f
    cdef int i, k
    cdef list cache = [None] * node.n_saved if node.n_saved else None
    if rule is None:
        raise NotImplementedError(f"{(<_Missing?>node.rule).op}: metatensor has no rule for the gradient of this operator"
                                  f"{where_called(node)}")
    for i in range(node.n_outputs):
        if grads[i] != NULL:
            break
    else:
        return 0
    if rule.functions and (<Function>rule.functions[0]).slot < 0:
        made = _run(node, rule, <Function>rule.functions[0], -1, grads, wanted, cache)
        if not isinstance(made, (tuple, list)):
            made = (made,)
        made = _flat(made)
        if len(made) != node.n_edges:
            raise RuntimeError(f"{node.node_name()}: the rule returned {len(made)} gradients for {node.n_edges} arguments")
        for i in range(node.n_edges):
            _give(node, i, made[i], wanted, to)
        return 0
    if hints.trackers and not rule.lists and rule.n_slots > 1:
        for k in _order_of(rule):
            if wants(node, wanted, k):
                _give(node, k, _run(node, rule, <Function>rule.functions[rule.function_of[k]], k, grads, wanted, cache), wanted, to)
        return 0
    i = 0
    for k in range(rule.n_slots):
        f = <Function>rule.functions[rule.function_of[k]]
        if rule.overload.slots[f.slot].kind == K_TENSORS:
            made = _run(node, rule, f, i, grads, wanted, cache)
            for g in made:
                if i == node.n_edges:
                    raise RuntimeError(f"{node.node_name()}: there are more gradients than arguments; the gradient passed must have the "
                                       "shape of the result")
                _give(node, i, g, wanted, to)
                i += 1
            continue
        if wants(node, wanted, i):
            _give(node, i, _run(node, rule, f, i, grads, wanted, cache), wanted, to)
        i += 1
    return 0


cdef dict _orders = {}      # rule -> order of its arguments


cdef tuple _order_of(Rule rule):
    """Return the order in which PyTorch computes the gradients of arguments, by their names: it decides what is alive at once."""
    cdef tuple found = _orders.get(rule)
    if found is None:
        names = ["self" if rule.slots[k] == 0 else <object>rule.overload.slots[rule.slots[k]].name for k in range(rule.n_slots)]
        found = _orders[rule] = tuple(sorted(range(rule.n_slots), key=lambda k: names[k]))
    return found


cdef list _flat(object values):
    cdef list out = []
    for v in values:
        if isinstance(v, (list, tuple)):
            out.extend(v)
        else:
            out.append(v)
    return out


cdef inline int _give(Node node, int i, object g, const char* wanted, PyObject** to) except -1:
    if g is None or not wants(node, wanted, i):
        return 0
    Py_INCREF(g)
    to[i] = <PyObject*>g
    return 0


cdef object _run(Node node, Rule rule, Function f, int edge, PyObject** grads, const char* wanted, list cache):
    """Call one function of a rule."""
    cdef PyObject* args[MAX_PARAMETERS]
    cdef list held = []
    cdef Parameter* p
    cdef int i, k
    for i in range(f.n_parameters):
        p = &f.parameters[i]
        if p.source == FROM_GRAD:
            if grads[p.index] != NULL:
                args[i] = grads[p.index]
                continue
            value = _zeros(&node.outputs[p.index])
        elif p.source == FROM_SAVED:
            value = cache[p.index]
            if value is None:
                value = cache[p.index] = unpack(node, &node.saved[p.index])
            args[i] = <PyObject*>value      # borrowed; `cache` owns the reference
            continue
        elif p.source == FROM_META:
            value = _spec_of(input_outline(node, edge))
        elif p.source == FROM_GRADS:
            value = tuple([None if grads[k] == NULL else <object>grads[k] for k in range(node.n_outputs)])
        else:
            value = tuple([bool(wants(node, wanted, k)) for k in range(node.n_edges)])
        held.append(value)
        args[i] = <PyObject*>value
    if hints.trackers:
        return formula(f.body, args, f.n_parameters, rule.overload, f.slot)
    return PyObject_Vectorcall(f.body, args, f.n_parameters, NULL)


graph_hooks.apply_rule = _apply
