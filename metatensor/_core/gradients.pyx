"""Rules for gradients: what an operator's node saves and computes.

A rule is declared beside the operator's `define`, as one function for each argument that has a gradient::

    gradient("mul", input=lambda grad, other: grad * other.conj(), other=lambda grad, input: grad * input.conj())

The names of a function's parameters say what it receives, and so what the node keeps:

``grad``
    The gradient of the first output. An output without a gradient counts as zeros.
``grads``
    The gradients of all outputs, a tuple with None for absent ones.
``result``
    The first output. The name of an output in the schema stands for that output; outputs without a name are ``result``,
    ``result1``, ``result2`` and so on.
an argument's name
    The argument. A tensor is saved.
an argument's name and ``_meta``
    A Spec with the shape, dtype and device of a tensor argument. Nothing is kept of the tensor.
an argument's name and ``_layout``
    Shape, strides, storage offset, dtype and device. Nothing is kept of the tensor.
``wanted``
    For a joint rule, which computes several gradients: a tuple that says which are wanted.
"""
cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from metatensor._core.graph cimport (
    SAVED_INPUT, SAVED_OBJECT, SAVED_PACKED, SAVED_RESULT, Node, Saved, next_sequence, node_extra, set_edge,
    is_tracked, set_output, set_room, unpack, untrack, wants, where_called, graph_hooks,
)
from metatensor._core.history cimport node_of, rebase, set_node
from metatensor._core.op cimport COMPOSITE, FUNCTIONAL, IN_PLACE, K_OPERAND, K_TENSOR, K_TENSORS, VIEW, Call, Overload, call, find
from metatensor._core.size cimport make_tuple
from metatensor._core.spec cimport Spec
from metatensor._core.tensor cimport Tensor, version_of
from metatensor._core.thread cimport hints, innermost_hooks, thread_state
from metatensor._core.types cimport KIND_COMPLEX, KIND_FLOAT, MAX_ARGS, T_NONLEAF, T_REQUIRES_GRAD, dim_t
from metatensor._core.versions cimport carrying, detached
from metatensor._core cimport graph
from metatensor._core.late import found_body, later

cdef extern from "Python.h":
    object PyObject_Vectorcall(object callee, PyObject** args, size_t nargsf, PyObject* kwnames)
    Py_ssize_t PyTuple_GET_SIZE(object o) noexcept

cdef enum:
    MAX_PARAMETERS = 24

cdef enum Source:
    FROM_GRAD, FROM_GRADS, FROM_SAVED, FROM_RESULTS, FROM_META, FROM_WANTED

cdef enum What:
    KEEP_ARGUMENT, KEEP_RESULT, KEEP_LAYOUT


cdef struct Parameter:
    Source source
    int index               # of the saved value, the output, or the argument


# Something that the nodes of a rule save.
cdef struct Kept:
    What what
    int index               # of the argument or the result
    unsigned long long wanted_by   # the functions that take it


@cython.final
cdef class _Function:
    """A function of a rule."""
    cdef object body
    cdef int n_parameters, slot         # slot: the argument whose gradient it returns, or -1 for a joint function
    cdef Parameter parameters[MAX_PARAMETERS]


@cython.final
cdef class Rule:
    """The gradient of an overload."""
    cdef readonly str name              # of its nodes
    cdef object through                 # function that computes the operator by others, or None
    cdef str in_place                   # the name of the nodes of the in-place variant, or None
    cdef object namer                   # function of the call's arguments that returns the name, or None
    cdef list functions
    cdef int n_slots, n_kept, n_results
    cdef bint lists                     # an argument is a list of tensors
    cdef int slots[MAX_ARGS]            # arguments with a gradient, in order: one edge each, lists one for each member
    cdef int function_of[MAX_ARGS]      # by edge: the number of its function
    cdef Kept kept[MAX_PARAMETERS]
    cdef object outputs                 # the outputs that have gradients, or None for all
    cdef Overload overload

    def saved_value(self, Node node, name):
        """Return the saved value of an argument or output. PyTorch calls the first argument ``self``."""
        cdef int k
        names = self.overload.argument_names
        wanted = names[0] if name == "self" else name
        for k in range(self.n_kept):
            if (self.kept[k].what == KEEP_ARGUMENT and names[self.kept[k].index] == wanted) \
                    or (self.kept[k].what == KEEP_RESULT and name in ("result", _result_names(self.overload)[self.kept[k].index])):
                return unpack(node, &node.saved[k])
        raise AttributeError(f"{self.name} has no attribute '_saved_{name}'")


linear_in = {}              # qualified name of an overload -> the arguments in which it is linear
tangents = {}               # qualified name of an overload -> function that computes its tangent
cdef dict _through = {}     # qualified name of an overload -> function that computes it by other operators
cdef dict _in_place = {}    # qualified name of an overload -> name of the nodes of its in-place variant
cdef dict _declared = {}    # qualified name of an overload -> (name of the node, joint function, outputs, functions by argument)


def gradient(str name not None, /, *, node=None, in_place=None, joint=None, outputs=None, through=None, linear=None,
             tangent=None, **rules):
    """Declare the gradient of an operator. See the module's docstring for the functions.

    A composite operator with a rule is recorded as one node.

    Parameters
    ----------
    name : str
        The operator, ``"mul"``, or an overload of it, ``"max.dim"``.
    node : str or callable, optional
        The name of the nodes, or a function of arguments of the call that returns it. Default: ``MulBackward0`` for "mul".
    in_place : str, optional
        The name of the nodes of the in-place variant, if it has another.
    joint : callable, optional
        Returns the gradients of several arguments as a tuple. Then each of `rules` is True for an argument that has one.
    outputs : sequence of int, optional
        The outputs that have a gradient. Default: all that are floating-point or complex.
    through : callable, optional
        Computes the operator by others, given its arguments, when gradients are recorded. If it returns NotImplemented,
        the rules are used. The meta kernel checks the arguments first, except for operators that draw random numbers.
    linear : str, optional
        The arguments in which the operator is linear, for forward mode: see `forward` in this package.
    tangent : callable, optional
        Returns the tangent of the result in forward mode: see `forward` in this package.
    **rules : callable
        For each differentiable argument, the function that returns its gradient.

    In place of a function there may be its place in `metatensor.rules.gradients`, ``"losses.nll_loss"``.
    """
    if linear is not None:
        linear_in[name] = linear
    if tangent is not None:
        tangents[name] = tangent
    if through is not None:
        _through[name] = through
        if not rules:
            return
    _declared[name] = (node, joint, outputs, rules)
    if in_place is not None:
        _in_place[name] = in_place


DECOMPOSITION = object()


def recorded_as(str name not None, through=DECOMPOSITION):
    """Compute an operator by others when gradients are recorded. The default is its decomposition. See `gradient`."""
    _through[name] = through


def same_gradient(str name not None, str other not None, str node not None):
    """Declare that operator `name` has the rules of `other`, and nodes of the name `node`."""
    _, joint, outputs, rules = _declared[other]
    _declared[name] = (node, joint, outputs, rules)
    if other in linear_in:
        linear_in[name] = linear_in[other]


class Operators:
    """The operators of a namespace as attributes, found when they are first used. For rules, which are declared earlier."""

    def __init__(self, prefix=""):
        self._prefix = prefix

    def __getattr__(self, name):
        found = find(self._prefix + name)
        setattr(self, name, found)
        return found


ops = Operators()
functional = Operators("nn.functional.")
linalg = Operators("linalg.")
special = Operators("special.")


def declared():
    """Return the names of the overloads that have a rule."""
    return sorted([*_declared, *_through])


cdef str _default_name(str name):
    base = name.rpartition("::")[2]
    parts = base.replace(".", "_").strip("_").split("_")
    return "".join([part[:1].upper() + part[1:] for part in parts]) + "Backward0"


cdef tuple _result_names(Overload ov):
    if ov.returns is not None:
        return tuple(ov.returns)
    return ("result", *[f"result{i}" for i in range(1, ov.nreturns)])


# Preparing a rule, on first use --------------------------------------------------------------------------

cdef Rule _prepare(Overload ov):
    """Return the rule of an overload, or None if it has none."""
    cdef Rule rule
    cdef int i
    found = _declared.get(ov.qualname, (None, None, None, {}))
    through = _through.get(ov.qualname)
    if not found[3] and through is None:
        return None
    node, joint, outputs, rules = found
    if isinstance(node, str) and "." in node:
        node = found_body(node)
    rule = Rule.__new__(Rule)
    rule.overload = ov
    rule.through = later("decompositions")()[ov.qualname] if through is DECOMPOSITION else found_body(through)
    rule.in_place = _in_place.get(ov.qualname)
    rule.outputs = None if outputs is None else frozenset(outputs)
    rule.functions = []
    if callable(node):
        rule.namer = node
        rule.name = _default_name(ov.qualname)
    else:
        rule.name = _default_name(ov.op.name) if node is None else node
    names = ov.argument_names
    for name in rules:
        if name not in names:
            raise TypeError(f"gradient of {ov.qualname}: there is no argument {name!r}; the arguments are {', '.join(names)}")
    if joint is not None:
        rule.functions.append(_function(rule, ov, joint, -1, 0))
    for i in range(ov.nslots):
        name = <object>ov.slots[i].name
        if name not in rules:
            continue
        if ov.slots[i].kind not in (K_TENSOR, K_OPERAND, K_TENSORS):
            raise TypeError(f"gradient of {ov.qualname}: argument {name!r} is no tensor")
        rule.lists = rule.lists or ov.slots[i].kind == K_TENSORS
        rule.slots[rule.n_slots] = i
        if joint is None:
            rule.function_of[rule.n_slots] = len(rule.functions)
            rule.functions.append(_function(rule, ov, rules[name], i, len(rule.functions)))
        rule.n_slots += 1
    return rule


cdef _Function _function(Rule rule, Overload ov, object body, int slot, int number):
    cdef _Function f = _Function.__new__(_Function)
    cdef Parameter* p
    cdef int i
    body = found_body(body)
    if getattr(body, "__closure__", None):
        raise TypeError(f"gradient of {ov.qualname}: the function must not capture variables; what it needs are its parameters")
    code = body.__code__
    f.body, f.slot = body, slot
    f.n_parameters = code.co_argcount
    names = ov.argument_names
    results = _result_names(ov)
    if f.n_parameters > MAX_PARAMETERS:
        raise TypeError(f"gradient of {ov.qualname}: more than {MAX_PARAMETERS} parameters")
    for i, name in enumerate(code.co_varnames[:f.n_parameters]):
        p = &f.parameters[i]
        p.index = 0
        if name in names:
            p.source, p.index = FROM_SAVED, _kept(rule, KEEP_ARGUMENT, names.index(name), number)
        elif name == "grad":
            p.source = FROM_GRAD
        elif name.startswith("grad_") and name[5:] in results:
            p.source, p.index = FROM_GRAD, results.index(name[5:])
        elif name == "grads":
            p.source = FROM_GRADS
        elif name == "wanted":
            p.source = FROM_WANTED
        elif name == "result":
            p.source, p.index = FROM_SAVED, _kept(rule, KEEP_RESULT, 0, number)
        elif name in results:
            p.source, p.index = FROM_SAVED, _kept(rule, KEEP_RESULT, results.index(name), number)
        elif name.endswith("_meta") and name[:-5] in names:
            p.source, p.index = FROM_META, names.index(name[:-5])
        elif name.endswith("_layout") and name[:-7] in names:
            p.source, p.index = FROM_SAVED, _kept(rule, KEEP_LAYOUT, names.index(name[:-7]), number)
        else:
            raise TypeError(f"gradient of {ov.qualname}: no argument or output is called {name!r}")
        if p.source == FROM_META and slot != p.index:
            p.source, p.index = FROM_SAVED, _kept(rule, KEEP_LAYOUT, p.index, number)
    return f


cdef int _kept(Rule rule, What what, int index, int number) except -1:
    cdef int k
    for k in range(rule.n_kept):
        if rule.kept[k].what == what and rule.kept[k].index == index:
            break
    else:
        k = rule.n_kept
        if k == MAX_PARAMETERS:
            raise TypeError("gradient: too many saved values")
        rule.n_kept += 1
        rule.kept[k].what = what
        rule.kept[k].index = index
        rule.kept[k].wanted_by = 0
    rule.kept[k].wanted_by |= 1ULL << number
    return k


# Recording ---------------------------------------------------------------------------------------------------

cdef Way way_of(Call* c, Overload ov) except *:
    """Return how a call of an operator is recorded."""
    if ov.gradient is None:
        found = _prepare(ov)
        ov.gradient = False if found is None else found
    if ov.gradient is False:
        return AS_IT_IS
    if (<Rule>ov.gradient).through is not None and (c.variant == FUNCTIONAL or not (<Rule>ov.gradient).n_slots):
        return BY_OTHERS
    return AS_UNIT if ov.flags & COMPOSITE and c.variant == FUNCTIONAL else AS_IT_IS


cdef object by_others(Call* c, Overload ov):
    """Compute an operator by others, which are recorded."""
    cdef int i
    result = (<Rule>ov.gradient).through(*[<object>c.args[i] for i in range(ov.nslots)])
    if c.variant == IN_PLACE and result is not NotImplemented and result is not <object>c.args[0]:
        return call("copy_", (<object>c.args[0], result))
    return result


cdef inline bint _wants(PyObject* p) noexcept:
    return isinstance(<object>p, Tensor) and (<Tensor><object>p).flags & T_REQUIRES_GRAD


cdef int _link(Node node, int i, Tensor t) except -1:
    """Set edge `i` for a tensor that requires grad. Return 0 if it does not, 1, or 3 if its node is tracked for cycles."""
    cdef int output
    cdef Node to
    if t.flags & T_REQUIRES_GRAD:
        to = node_of(t, &output)
        if to is not None:
            set_edge(node, i, to, output)
            return 3 if is_tracked(<PyObject*>to) else 1
    return 0


cdef Node begin(Call* c, Overload ov):
    """Return a node with the edges and saved arguments of a call. Its outputs are set later."""
    cdef Node node = Node.__new__(Node)
    cdef Rule rule
    cdef Kept* kept
    cdef Tensor t
    cdef int i, k, edges, linked, tracked = 0
    cdef unsigned long long wanted = 0
    if ov.gradient is None:
        found = _prepare(ov)
        ov.gradient = False if found is None else found
    if ov.gradient is False:
        return _without_rule(c, ov, node)
    rule = <Rule>ov.gradient
    node.rule = rule if rule.namer is None and (rule.in_place is None or c.variant != IN_PLACE) else _named(rule, c, ov)
    edges = rule.n_slots
    if rule.lists:
        edges = 0
        for k in range(rule.n_slots):
            edges += len(<object>c.args[rule.slots[k]]) if ov.slots[rule.slots[k]].kind == K_TENSORS else 1
    set_room(node, edges, rule.n_kept, 0)
    i = 0
    for k in range(rule.n_slots):
        value = <object>c.args[rule.slots[k]]
        if isinstance(value, Tensor):
            linked = _link(node, i, <Tensor>value)
            if linked:
                wanted |= 1ULL << rule.function_of[k]
                tracked |= linked & 2
            i += 1
        elif isinstance(value, list):
            for t in value:
                linked = _link(node, i, t)
                if linked:
                    wanted |= 1ULL << rule.function_of[k]
                    tracked |= linked & 2
                i += 1
        else:
            i += 1
    node.sequence = next_sequence()     # after those of its inputs, of which some may just have been made, for views
    for k in range(rule.n_kept):
        kept = &rule.kept[k]
        if kept.wanted_by & wanted and kept.what != KEEP_RESULT:
            _keep_argument(c, node, k, kept)
    if not tracked and not hints.saved_hooks:
        untrack(node)
    if hints.anomaly:
        call_stack = later("call_stack")
        node_extra(node).forward_stack = call_stack()
    return node


cdef Node _without_rule(Call* c, Overload ov, Node node):
    """Return the node of an operator without a rule: backward through it raises. It has edges to all tensor arguments."""
    cdef list given = []
    cdef int i
    for i in range(ov.nslots):
        value = <object>c.args[i]
        given.extend([t for t in value if isinstance(t, Tensor)] if isinstance(value, list) else
                     [value] if isinstance(value, Tensor) else [])
    node.rule = _Missing(ov.qualname, _default_name(ov.op.name))
    set_room(node, <int>len(given), 0, 0)
    for i, t in enumerate(given):
        _link(node, i, <Tensor>t)
    node.sequence = next_sequence()
    return node


@cython.final
cdef class _Missing:
    """Stands for the rule of an operator that has none."""
    cdef readonly str name
    cdef readonly str op

    def __init__(self, op, name):
        self.op, self.name = op, name

    def saved_value(self, node, name):
        raise AttributeError(f"{self.name} has no attribute '_saved_{name}'")


@cython.final
cdef class _Named:
    """A rule whose nodes have a name that depends on the call."""
    cdef readonly str name
    cdef readonly Rule rule

    def saved_value(self, node, name):
        return self.rule.saved_value(node, name)


cdef object _named(Rule rule, Call* c, Overload ov):
    cdef _Named named = _Named.__new__(_Named)
    named.rule = rule
    if rule.in_place is not None and c.variant == IN_PLACE:
        named.name = rule.in_place
        return named
    code = rule.namer.__code__
    names = ov.argument_names
    named.name = rule.namer(*[<object>c.args[names.index(p)] for p in code.co_varnames[:code.co_argcount]])
    return named


cdef object renamed(object t, str name):
    """Give the node of a new tensor, if it has one, the name that it has in PyTorch, and return the tensor."""
    cdef _Named named
    cdef Node node
    if not (<Tensor>t).flags & T_NONLEAF or (<Tensor>t).node == NULL:
        return t
    node = <Node>(<Tensor>t).node
    if node is not None and isinstance(node.rule, Rule):
        named = _Named.__new__(_Named)
        named.name, named.rule = name, node.rule
        node.rule = named
    return t


cdef int _keep_argument(Call* c, Node node, int k, Kept* kept) except -1:
    value = <object>c.args[kept.index]
    if kept.what == KEEP_LAYOUT:
        if isinstance(value, list):
            return _keep(node, k, [_spec_of(<Tensor>t) for t in value], SAVED_OBJECT)
        return _keep(node, k, _spec_of(<Tensor>value) if isinstance(value, Tensor) else value, SAVED_OBJECT)
    if isinstance(value, Tensor):
        if c.variant == IN_PLACE and kept.index == 0 or (<Overload>c.overload).slots[kept.index].mutated:
            value = _before_write(<Tensor>value)
        return _keep_tensor(node, k, <Tensor>value, SAVED_INPUT)
    if isinstance(value, list):
        return _keep(node, k, _List([t for t in value]), SAVED_OBJECT)
    return _keep(node, k, value, SAVED_OBJECT)


cdef Tensor _before_write(Tensor t):
    """Return a copy of the values that the operator is about to replace, with their history."""
    cdef bint was = thread_state().grad_enabled
    cdef Tensor copy
    cdef Node node
    cdef int output
    thread_state().grad_enabled = False
    try:
        copy = <Tensor>call("clone", (t,))
    finally:
        thread_state().grad_enabled = was
    if hints.duals:
        later("copy_tangents")(copy, t)
    if t.flags & T_REQUIRES_GRAD:
        node = node_of(t, &output)
        if node is not None:
            set_node(copy, node, output)
    return copy


cdef int _keep(Node node, int k, object value, int kind) except -1:
    Py_INCREF(value)
    node.saved[k].value = <PyObject*>value
    node.saved[k].kind = <graph.SavedKind>kind
    return 0


cdef int _keep_tensor(Node node, int k, Tensor t, int kind) except -1:
    if hints.saved_hooks and thread_state().saved_hooks:
        pack, unpack_hook = innermost_hooks(thread_state())
        return _keep(node, k, (_packed(pack, t), unpack_hook), SAVED_PACKED)
    node.saved[k].version = version_of(t)
    return _keep(node, k, t, kind)


cdef object _packed(object pack, Tensor t):
    """Return what the pack hook makes of a tensor. The hook must not change it."""
    cdef unsigned long long before = version_of(t)
    made = pack(t)
    if version_of(t) != before:
        raise RuntimeError("saved_tensors_hooks: the pack hook changed the tensor in place")
    return made


@cython.final
cdef class _List:
    """A saved list of tensors, with their versions."""
    cdef list tensors, versions
    cdef object unpack_hook             # then `tensors` are what the pack hook made of them

    def __init__(self, list tensors):
        self.tensors = tensors
        if hints.saved_hooks and thread_state().saved_hooks:
            pack, self.unpack_hook = innermost_hooks(thread_state())
            self.tensors = [_packed(pack, <Tensor>t) for t in tensors]
        else:
            self.versions = [version_of(<Tensor>t) for t in tensors]

    cdef list unpacked(self, Node node):
        cdef Tensor t
        cdef int i
        if self.unpack_hook is not None:
            return [self.unpack_hook(packed) for packed in self.tensors]
        for i, t in enumerate(self.tensors):
            if version_of(t) != self.versions[i]:
                raise RuntimeError(f"{node.node_name()}: tensor {i} of the list that was saved to compute gradients has been changed "
                                   f"in place since{where_called(node)}")
        return self.tensors


@cython.final
cdef class _Layout:
    """What a rule receives as the layout of an argument."""
    cdef readonly object shape, strides, dtype, device
    cdef readonly dim_t offset


cdef _Layout _spec_of(Tensor t):
    cdef _Layout s = _Layout.__new__(_Layout)
    s.offset = t.offset
    s.shape = make_tuple(t.ndim, t.sizes)
    s.strides = make_tuple(t.ndim, t.strides)
    s.dtype = t.dtype
    s.device = t.storage.device
    return s


cdef inline bint _differentiable(Tensor t) noexcept:
    return t.dtype.kind == KIND_FLOAT or t.dtype.kind == KIND_COMPLEX


cdef int record(Call* c, Overload ov, object result) except -1:
    """Record a call that wrote to no argument."""
    cdef Node node
    if isinstance(result, Tensor):
        if not _differentiable(<Tensor>result):
            return 0
        node = begin(c, ov)
        node.n_outputs = 1
        node.outputs = &node.inline_output
        set_output(node, 0, <Tensor>result)
        set_node(<Tensor>result, node, 0)
        return _keep_results(c, node, result)
    if not isinstance(result, (tuple, list)):
        return 0
    for r in result:
        if isinstance(r, Tensor) and _differentiable(<Tensor>r):
            break
    else:
        return 0
    node = begin(c, ov)
    _set_outputs(node, result)
    return _keep_results(c, node, result)


cdef int _set_outputs(Node node, object results) except -1:
    cdef Rule rule = _rule_of(node)
    cdef int i
    set_outputs_room(node, len(results))
    for i, r in enumerate(results):
        if isinstance(r, Tensor) and _differentiable(<Tensor>r) and (rule is None or rule.outputs is None or i in rule.outputs):
            set_output(node, i, <Tensor>r)
            set_node(<Tensor>r, node, i)
    return 0


cdef int set_outputs_room(Node node, int n) except -1:
    cdef graph.Edge* edges = node.edges
    cdef Saved* saved = node.saved
    cdef int n_edges = node.n_edges, n_saved = node.n_saved
    set_room(node, 0, 0, n)
    node.edges, node.saved, node.n_edges, node.n_saved = edges, saved, n_edges, n_saved
    return 0


cdef Rule _rule_of(Node node):
    if isinstance(node.rule, Rule):
        return <Rule>node.rule
    return (<_Named>node.rule).rule if isinstance(node.rule, _Named) else None


cdef int _keep_results(Call* c, Node node, object result) except -1:
    """Save the results that the rule needs, as detached aliases."""
    cdef Rule rule = _rule_of(node)
    cdef Kept* kept
    cdef Tensor t
    cdef int k
    cdef unsigned long long wanted = 0
    if rule is None:
        return 0
    for k in range(rule.n_kept):
        kept = &rule.kept[k]
        if kept.what != KEEP_RESULT:
            continue
        if not wanted:
            wanted = _wanted(rule, node, c)
        if not kept.wanted_by & wanted:
            continue
        value = result if isinstance(result, Tensor) else result[kept.index]
        if isinstance(value, Tensor):
            t = carrying(detached(<Tensor>value), <Tensor>value)
            _keep_tensor(node, k, t, SAVED_RESULT)
            node.saved[k].output = kept.index
        else:
            _keep(node, k, value, SAVED_OBJECT)
    return 0


cdef unsigned long long _wanted(Rule rule, Node node, Call* c) except *:
    """Return which functions of a rule are wanted."""
    cdef unsigned long long wanted = 0
    cdef int i = 0, k, n, _m
    for k in range(rule.n_slots):
        n = 1
        if rule.lists and rule.overload.slots[rule.slots[k]].kind == K_TENSORS:
            n = len(<object>c.args[rule.slots[k]])
        for _m in range(n):
            if node.edges[i].node != NULL:
                wanted |= 1ULL << rule.function_of[k]
            i += 1
    return wanted


cdef int record_write(Call* c, Overload ov, Node node, object target) except -1:
    """Record a call that wrote to `target`. `node` is what `begin` returned before."""
    cdef Rule rule = _rule_of(node)
    cdef int edge = -1
    node.n_outputs = 1
    node.outputs = &node.inline_output
    set_output(node, 0, <Tensor>target)
    if rule is not None and rule.n_slots and rule.slots[0] == 0:
        edge = 0
    if ov.flags & VIEW and (<Tensor>target).base is not None:
        set_node(<Tensor>target, node, 0)       # a view with another shape now; the values of its base are as before
    else:
        rebase(<Tensor>target, node, edge)
    return _keep_results(c, node, target)


# Applying a rule -------------------------------------------------------------------------------------------------

cdef object _meta_of(Node node, int edge, int slot):
    """Return a Spec of a tensor argument, from what its own node knows of it."""
    cdef graph.Output* o
    cdef Spec s = Spec.__new__(Spec)
    o = &(<Node>node.edges[edge].node).outputs[node.edges[edge].output]
    s.shape = make_tuple(o.ndim, o.sizes)
    s.dtype = <object>o.dtype
    s.device = <object>o.device
    return s


cdef object _zeros(graph.Output* o):
    return call("zeros", (make_tuple(o.ndim, o.sizes),), {"dtype": <object>o.dtype, "device": <object>o.device})


cdef object _saved(Node node, int k):
    """Return a saved value as the rule receives it. A result has its node again if the gradient is to be differentiated."""
    cdef Saved* s = &node.saved[k]
    cdef Tensor t
    value = unpack(node, s)
    if isinstance(value, _List):
        return (<_List>value).unpacked(node)
    if s.kind == SAVED_RESULT and thread_state().grad_enabled and node.outputs[s.output].dtype != NULL:
        t = carrying(detached(<Tensor>value), <Tensor>value)
        set_node(t, node, s.output)
        return t
    return value


cdef int _apply(Node node, PyObject** grads, const char* wanted, PyObject** to) except -1:
    cdef Rule rule = _rule_of(node)
    cdef _Function f
    cdef int i, k
    cdef list cache = [None] * node.n_saved if node.n_saved else None
    if rule is None:
        raise NotImplementedError(f"{(<_Missing>node.rule).op}: metatensor has no rule for the gradient of this operator"
                                  f"{where_called(node)}")
    for i in range(node.n_outputs):
        if grads[i] != NULL:
            break
    else:
        return 0
    if rule.functions and (<_Function>rule.functions[0]).slot < 0:
        made = _run(node, rule, <_Function>rule.functions[0], -1, grads, wanted, cache)
        if not isinstance(made, (tuple, list)):
            made = (made,)
        made = _flat(made)
        if len(made) != node.n_edges:
            raise RuntimeError(f"{node.node_name()}: the rule returned {len(made)} gradients for {node.n_edges} arguments")
        for i in range(node.n_edges):
            _give(node, i, made[i], wanted, to)
        return 0
    i = 0
    for k in range(rule.n_slots):
        f = <_Function>rule.functions[rule.function_of[k]]
        if rule.overload.slots[f.slot].kind == K_TENSORS:
            made = _run(node, rule, f, i, grads, wanted, cache)
            for g in made:
                _give(node, i, g, wanted, to)
                i += 1
            continue
        if wants(node, wanted, i):
            _give(node, i, _run(node, rule, f, i, grads, wanted, cache), wanted, to)
        i += 1
    return 0


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


cdef object _run(Node node, Rule rule, _Function f, int edge, PyObject** grads, const char* wanted, list cache):
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
                value = cache[p.index] = _saved(node, p.index)
            args[i] = <PyObject*>value      # the cache holds it
            continue
        elif p.source == FROM_META:
            value = _meta_of(node, edge, p.index)
        elif p.source == FROM_GRADS:
            value = tuple([None if grads[k] == NULL else <object>grads[k] for k in range(node.n_outputs)])
        else:
            value = tuple([bool(wants(node, wanted, k)) for k in range(node.n_edges)])
        held.append(value)
        args[i] = <PyObject*>value
    return PyObject_Vectorcall(f.body, args, f.n_parameters, NULL)


graph_hooks.apply_rule = _apply


def attach(Tensor t not None, Node node not None, int output):
    """Make `t` the output `output` of `node`, and return it."""
    set_node(t, node, output)
    return t
