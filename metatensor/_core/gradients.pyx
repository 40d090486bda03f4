"""Gradient rules: the values that an operator's node saves, and the functions that compute its gradients.

A rule is declared next to the operator's `define`, with one function for each argument that has a gradient::

    gradient("mul", input=lambda grad, other: grad * other.conj(), other=lambda grad, input: grad * input.conj())

The names of a function's parameters determine what it receives, and therefore what the node keeps:

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
    A Spec with the shape, dtype and device of a tensor argument. The tensor is not kept.
an argument's name and ``_layout``
    A Layout with the shape, strides, storage offset, dtype and device of a tensor argument. The tensor is not kept.
``wanted``
    For a joint function, which computes several gradients: a tuple of bools that states which of them are wanted.
"""
cimport cython
from metatensor._core.graph cimport INLINE_EDGES, INLINE_SAVED, Node
from metatensor._core.op cimport K_OPERAND, K_TENSOR, K_TENSORS, Overload, find, prepare
from metatensor._core.saved cimport unpack
from metatensor._core.late import found_body, later


@cython.final
cdef class Function:
    pass


@cython.final
cdef class Rule:
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

    cdef object called(self, str name):
        """Return this rule with another name for its nodes."""
        cdef NamedRule made = self.named.get(name)
        if made is None:
            made = self.named[name] = NamedRule.__new__(NamedRule)
            made.name, made.rule = name, self
        return made


@cython.final
cdef class NamedRule:
    def saved_value(self, node, name):
        return self.rule.saved_value(node, name)


linear_in = {}              # qualified name of an overload -> the arguments in which it is linear
tangents = {}               # qualified name of an overload -> function that computes its tangent
cdef dict _through = {}     # qualified name of an overload -> function that calls other operators instead, or DECOMPOSITION
cdef set _sparing = set()   # qualified names of overloads that keep only what wanted gradients depend on
cdef dict _direct = {}      # qualified name of an overload -> (operator, number of its result or -1, dimensions or 0)
cdef dict _through_writes = {}  # qualified name of an overload -> the same for its in-place variant
cdef set _last_first = set()    # qualified names of overloads whose last argument gets its gradient first
cdef set _strided = set()   # qualified names of overloads for which `_through` is used only for non-contiguous arguments
cdef dict _in_place = {}    # qualified name of an overload -> name of the nodes of its in-place variant
cdef dict _declared = {}    # qualified name of an overload -> (name of the node, joint function, outputs, functions by argument)
cdef dict _ignored = {}     # qualified name of an overload -> arguments without a gradient that may require grad
cdef dict _written = {}     # qualified name of an overload -> functions by argument, for its in-place variant


def gradient(str name not None, /, *, node=None, in_place=None, written=None, joint=None, outputs=None, bint sparing=False,
             linear=None, tangent=None, ignored=(), bint last_first=False, **rules):
    """Declare the gradient of an operator. The module's docstring describes the functions.

    A composite operator with a rule is recorded as one node.

    Parameters
    ----------
    name : str
        The operator, such as ``"mul"``, or an overload of it, such as ``"max.dim"``.
    node : str or callable, optional
        The name of the nodes, or a function that returns it for arguments of the call. Default: ``MulBackward0`` for
        "mul".
    in_place : str, optional
        The name of the nodes of the in-place variant, if it differs.
    written : dict of callable, optional
        The functions for the in-place variant, if they differ. They may need the result instead of the old value.
    joint : callable, optional
        A function that returns the gradients of several arguments as a tuple. These arguments are then given in
        `rules` with the value True.
    outputs : sequence of int, optional
        The outputs that have a gradient. Default: all that are floating-point or complex.
    sparing : bool
        Keep an argument only if a wanted gradient depends on it. By default, as in PyTorch, an argument on which
        several gradients depend is always kept.
    linear : str, optional
        The arguments in which the operator is linear, for forward mode. See `metatensor._core.forward`.
    tangent : callable, optional
        A function that returns the tangent of the result in forward mode. See `metatensor._core.forward`.
    ignored : sequence of str
        The arguments without a gradient that may require grad. By default the operator raises RuntimeError then.
    last_first : bool
        Pass the gradient of the last argument to its node first. Leaves accumulate in this order. PyTorch has it for operators
        that consist of several, the last of which adds a bias.
    **rules : callable
        For each differentiable argument, the function that returns its gradient.

    A function may also be given by its place in `metatensor.rules.gradients`, such as ``"losses.nll_loss"``.
    """
    if sparing:
        _sparing.add(name)
    if last_first:
        _last_first.add(name)
    if linear is not None:
        linear_in[name] = linear
    if tangent is not None:
        tangents[name] = tangent
    _declared[name] = (node, joint, outputs, rules)
    if ignored:
        _ignored[name] = ignored
    if in_place is not None:
        _in_place[name] = in_place
    if written is not None:
        _written[name] = written


DECOMPOSITION = object()
FORMULA = object()          # the decomposition, without computing float16 and bfloat16 in float32


def recorded_as(str name not None, through=DECOMPOSITION, *, op=None, int result=-1, int ndim=0, written=None, bint strided=False):
    """While gradients are recorded, compute an operator by calling other operators, which are recorded in its place.

    Parameters
    ----------
    name : str
        The operator or overload.
    through : callable, optional
        A function of the operator's arguments that computes it by calling others. If it returns NotImplemented, the
        operator's own rule is used. The meta kernel checks the arguments first, except for operators that draw random
        numbers. Default: `op` if it is given, otherwise the operator's decomposition. FORMULA: the decomposition, computed
        in the dtypes of the arguments.
    op : str, optional
        An operator that computes this one if it receives the same arguments. Its first arguments correspond to those of this
        operator by position.
    result : int
        Which result of `op` is the result of this operator. -1: `op` has a single result.
    ndim : int
        If not 0, `op` computes this operator only if the first two arguments have this number of dimensions.
    written : callable, optional
        A function that computes the in-place variant: it writes to its first argument and returns it. By default the
        result of `through` is copied into the first argument.
    strided : bool
        Do this only if the first two arguments, which are tensors, are not both contiguous.
    """
    if op is not None:
        _direct[name] = op, result, ndim
        if through is DECOMPOSITION:
            through = _calling(op, result)
    _through[name] = through
    if written is not None:
        _through_writes[name] = written
    if strided:
        _strided.add(name)


def _calling(str op, int result):
    def through(*args):
        made = find(op)(*args)
        return made if result < 0 else made[result]

    return through


def parts_of(str name not None):
    """Return the function that computes an overload while gradients are recorded, or None. See `recorded_as`."""
    through = _through.get(name)
    return None if through is DECOMPOSITION or through is None else found_body(through)


def same_gradient(str name not None, str other not None, str node not None):
    """Declare that operator `name` has the gradient rule of `other`, and that its nodes are named `node`."""
    _, joint, outputs, rules = _declared[other]
    _declared[name] = (node, joint, outputs, rules)
    if other in linear_in:
        linear_in[name] = linear_in[other]


def tables():
    """Return the functions declared by `recorded_as` and the declared rules, both by names of overloads."""
    return _through, _declared


def prepare_again(Overload ov not None):
    """Prepare the rule of an overload again, after its declaration changed. Raise TypeError if a function does not fit."""
    ov.gradient = prepared(ov)


class Operators:
    """The operators of a namespace as attributes, looked up on first use.

    Rules are declared before all operators exist, so they refer to operators through this class.
    """

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
    """Return the names of the overloads that have a gradient rule."""
    return sorted([*_declared, *_through])


cpdef str default_name(str name):
    """Return the name of the nodes of an operator, ``MulBackward0`` for "mul", ``Log1PBackward0`` for "log1p"."""
    base = name.rpartition("::")[2]
    made, up = "", True
    for letter in base.replace(".", "_").strip("_"):
        if letter != "_":
            made += letter.upper() if up else letter
        up = letter == "_" or letter.isdigit()      # Log1PBackward0
    return made + "Backward0"


cdef tuple _result_names(Overload ov):
    if ov.returns is not None:
        return tuple(ov.returns)
    return ("result", *[f"result{i}" for i in range(1, ov.nreturns)])


# Preparing a rule, on first use --------------------------------------------------------------------------

cdef object prepared(Overload ov):
    """Return the rule of an overload, or False if it has none."""
    cdef Rule rule
    found = _declared.get(ov.qualname, (None, None, None, {}))
    through = _through.get(ov.qualname)
    if not found[3] and through is None:
        return False
    node, joint, outputs, rules = found
    rule = _made(ov, node, joint, outputs, rules)
    if through is DECOMPOSITION or through is FORMULA:
        rule.through = later("decompositions")()[ov.qualname]
        if through is FORMULA:
            rule.through = rule.through.__wrapped__
    else:
        rule.through = found_body(through)
    if ov.qualname in _direct:
        op, rule.direct_result, rule.direct_ndim = _direct[ov.qualname]
        prepare(find(op))
        rule.direct = find(op).first
    rule.through_write = found_body(_through_writes.get(ov.qualname))
    if ov.qualname in _written:
        rule.written = _made(ov, node, None, outputs, _written[ov.qualname])
    return rule


cdef Rule _made(Overload ov, object node, object joint, object outputs, dict rules):
    cdef Rule rule
    cdef int i, k
    if isinstance(node, str) and "." in node:
        node = found_body(node)
    rule = Rule.__new__(Rule)
    rule.overload = ov
    rule.in_place = _in_place.get(ov.qualname)
    rule.strided, rule.sparing = ov.qualname in _strided, ov.qualname in _sparing
    rule.last_first = ov.qualname in _last_first
    rule.named_by = -1
    rule.outputs = <unsigned long long>-1 if outputs is None else sum([1 << i for i in set(outputs)])
    rule.functions, rule.named = [], {}
    if callable(node):
        rule.namer = node
        taken = node.__code__.co_varnames[:node.__code__.co_argcount]
        rule.n_namer = <int>len(taken)
        if rule.n_namer > MAX_NAMER:
            raise TypeError(f"gradient of {ov.qualname}: the function that returns the name takes more than {MAX_NAMER} arguments")
        for i in range(rule.n_namer):
            rule.namer_slots[i] = ov.argument_names.index(taken[i])
        rule.name = default_name(ov.qualname)
        if rule.n_namer == 1 and ov.slots[rule.namer_slots[0]].optional:
            rule.named_by, rule.name = rule.namer_slots[0], node(None)
    else:
        rule.name = default_name(ov.op.name) if node is None else node
    names = ov.argument_names
    for name in rules:
        if name not in names:
            raise TypeError(f"gradient of {ov.qualname}: there is no argument {name!r}; the arguments are {', '.join(names)}")
    if joint is not None:
        rule.functions.append(_function(rule, ov, joint, -1, 0))
    for i in range(ov.nslots):
        name = <object>ov.slots[i].name
        if name not in rules:
            if rules and ov.slots[i].kind in (K_TENSOR, K_OPERAND, K_TENSORS) and name not in _ignored.get(ov.qualname, ()):
                rule.constant[rule.n_constant] = i
                rule.n_constant += 1
            continue
        if ov.slots[i].kind not in (K_TENSOR, K_OPERAND, K_TENSORS):
            raise TypeError(f"gradient of {ov.qualname}: argument {name!r} is not a tensor")
        rule.lists = rule.lists or ov.slots[i].kind == K_TENSORS
        rule.numbers = rule.numbers or ov.slots[i].kind == K_OPERAND
        rule.slots[rule.n_slots] = i
        if joint is None:
            rule.function_of[rule.n_slots] = len(rule.functions)
            rule.functions.append(_function(rule, ov, rules[name], i, len(rule.functions)))
        rule.n_slots += 1
    rule.plain = not (ov.mutates or rule.lists or rule.n_slots > INLINE_EDGES or rule.n_kept > INLINE_SAVED)
    for i in range(rule.n_kept):
        rule.kept[i].kept_as = -1
        for k in range(rule.n_kept):
            if rule.kept[i].what == KEEP_LAYOUT and rule.kept[k].what == KEEP_ARGUMENT and rule.kept[k].index == rule.kept[i].index:
                rule.kept[i].kept_as = k
        rule.plain = rule.plain and (rule.kept[i].what == KEEP_RESULT or ov.slots[rule.kept[i].index].kind != K_TENSORS)
    return rule


cdef Function _function(Rule rule, Overload ov, object body, int slot, int number):
    cdef Function f = Function.__new__(Function)
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
        elif name.endswith("_meta") and name.removesuffix("_meta") in names:
            p.source, p.index = FROM_META, names.index(name.removesuffix("_meta"))
        elif name.endswith("_layout") and name.removesuffix("_layout") in names:
            p.source, p.index = FROM_SAVED, _kept(rule, KEEP_LAYOUT, names.index(name.removesuffix("_layout")), number)
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
