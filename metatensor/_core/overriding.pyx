"""``__torch_function__`` and ``__torch_dispatch__``: calls that the classes of arguments override."""
from metatensor._core.graph cimport Node
from metatensor._core.op cimport (
    FUNCTIONAL, HOST, IN_PLACE, K_OPERAND, K_TENSOR, K_TENSORS, METHOD_ONLY, NO_GRAD, PROPERTY, WITH_OUT,
    Call, Op, OpMethod, Overload,
)
from metatensor._core.rule_node cimport BY_OTHERS, begin, by_others, record, record_write, way_of
from metatensor._core.tensor cimport Tensor
from metatensor._core.thread cimport ThreadState, thread_state
from metatensor._core.types cimport T_NONLEAF, T_OVERRIDES, T_REQUIRES_GRAD
from metatensor._core.late import later
from metatensor._core.tensor import _disabled_torch_function_impl
from metatensor._core import errors

ABSENT = object()


cdef tuple python_call(Call* c):
    """Return (args, kwargs) to call the op again. Trailing arguments that equal their defaults are left out."""
    cdef Overload ov = <Overload>c.overload
    cdef int i, last = -1
    kwargs = {}
    for i in range(ov.nslots):
        if ov.slots[i].default == NULL or c.args[i] != ov.slots[i].default:
            if i < ov.npos:
                last = i
            else:
                kwargs[<object>ov.slots[i].name] = <object>c.args[i]
    if c.out != NULL:
        kwargs["out"] = <object>c.out
    return tuple([<object>c.args[i] for i in range(last + 1)]), kwargs


cdef object public_function(Call* c):
    """Return what the user called: the op, the method of Tensor, or ``__get__`` of the property."""
    cdef Op op = <Op>c.op
    if op.flags & PROPERTY and op.__name__ in vars(Tensor):
        return getattr(vars(Tensor)[op.__name__], "__get__")
    if c.flags & CALLED_AS_METHOD or op.flags & METHOD_ONLY:
        method = vars(Tensor).get(op.__name__)
        if isinstance(method, OpMethod):
            return method
    return op


# Finding overrides ----------------------------------------------------------------------------

cdef bint _overrides_function(object value) except -1:
    cls = type(value)
    if cls is Tensor:
        return False
    if isinstance(value, Tensor):
        return (<Tensor>value).flags & T_OVERRIDES and cls._overrides_function
    found = getattr(cls, "__torch_function__", None)
    return found is not None and getattr(found, "__func__", found) is not _disabled_torch_function_impl


cdef int _insert(list asked, object value) except -1:
    """Insert a value, unless one of its class is present. Subclasses come before their bases."""
    cdef Py_ssize_t i
    cls = type(value)
    for other in asked:
        if type(other) is cls:
            return 0
    for i in range(len(asked)):
        if issubclass(cls, type(asked[i])):
            asked.insert(i, value)
            return 0
    asked.append(value)
    return 0


cdef int _collect(object value, list asked) except -1:
    if isinstance(value, (list, tuple)) and not hasattr(type(value), "__torch_function__"):
        for v in value:
            if _overrides_function(v):
                _insert(asked, v)
    elif _overrides_function(value):
        _insert(asked, value)
    return 0


cdef list overriding_values(object values):
    """Return the first value of each class that overrides functions, subclasses first. Search lists one level deep."""
    asked = []
    if not thread_state().overrides_disabled:
        for value in values:
            _collect(value, asked)
    return asked


cdef list overriding_functions(Call* c):
    """Return the arguments of a bound call that override functions. See `overriding_values`."""
    cdef Overload ov = <Overload>c.overload
    cdef int i
    asked = []
    if c.flags & T_OVERRIDES and not thread_state().overrides_disabled:
        for i in range(ov.nslots):
            if ov.slots[i].kind in (K_TENSOR, K_OPERAND, K_TENSORS):
                _collect(<object>c.args[i], asked)
        if c.out != NULL:
            _collect(<object>c.out, asked)
    return asked


cdef object ask_functions(object func, list asked, tuple args, dict kwargs):
    """Call ``__torch_function__`` of each value until one does not return NotImplemented, and return that result.

    Return ABSENT if `asked` is empty. Raise TypeError if all return NotImplemented.
    """
    types = tuple([type(value) for value in asked])
    for value in asked:
        result = value.__torch_function__(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    if not asked:
        return ABSENT
    raise TypeError(f"{getattr(func, '__name__', func)}(): __torch_function__ of {', '.join([t.__name__ for t in types])} "
                    "returned NotImplemented")


# __torch_dispatch__, below autograd ---------------------------------------------------------------

cdef int _collect_dispatch(object value, list asked) except -1:
    if isinstance(value, Tensor):
        if (<Tensor>value).flags & T_OVERRIDES and type(value)._overrides_torch_dispatch:
            _insert(asked, value)
    elif isinstance(value, (list, tuple)):
        for v in value:
            _collect_dispatch(v, asked)
    return 0


cdef list _dispatching(Call* c):
    cdef Overload ov = <Overload>c.overload
    cdef int i
    asked = []
    if c.flags & T_OVERRIDES:
        for i in range(ov.nslots):
            _collect_dispatch(<object>c.args[i], asked)
        if c.out != NULL:
            _collect_dispatch(<object>c.out, asked)
    return asked


cdef tuple _overload_call(Call* c):
    """Return the overload, positional and keyword arguments to call ``__torch_dispatch__`` with."""
    cdef Overload ov = <Overload>c.overload
    cdef int i
    values = {}
    given = set()
    for i in range(ov.nslots):
        values[<object>ov.slots[i].name] = <object>c.args[i]
        if ov.slots[i].default == NULL or c.args[i] != ov.slots[i].default:
            given.add(<object>ov.slots[i].name)
    if ov.device_slot >= 0 and c.device != NULL:
        values["device"] = <object>c.device
    return later("overload_call")(<object>c.op, ov, c.variant, values, given, <object>c.out if c.out != NULL else None)


cdef bint answers_itself(Call* c) except -1:
    """Return True if an op only reads metadata, such as `numel`. ``__torch_dispatch__`` does not receive such ops."""
    return (<Overload>c.overload).flags & HOST != 0 and (<Op>c.op).name != "item"


cdef object run_parts(Call* c, bint for_gradients):
    """Run a call by its decomposition if autograd, or else PyTorch's dispatcher, decomposes it. Return ABSENT otherwise."""
    if c.flags & T_REQUIRES_GRAD and c.out == NULL and thread_state().grad_enabled and way_of(c, <Overload>c.overload) == BY_OTHERS:
        result = by_others(c, <Overload>c.overload)
        if result is not NotImplemented:
            return result
    if for_gradients:
        return ABSENT
    body = later("PARTS").get((<Op>c.op).name)
    if body is None or c.variant != FUNCTIONAL:
        return ABSENT
    args, kwargs = python_call(c)
    result = body(*args, **kwargs)
    return ABSENT if result is NotImplemented else result


cdef object ask_dispatch(Call* c):
    """Let ``__torch_dispatch__`` of the arguments' classes handle a call. Return ABSENT if none defines it."""
    asked = _dispatching(c)
    if not asked:
        return ABSENT
    result = run_parts(c, False)
    if result is not ABSENT:
        return result
    return _below_gradients(c, None, asked)


cdef object _below_gradients(Call* c, object mode, list asked):
    """Call ``__torch_dispatch__`` with gradients disabled. Record the call if gradients are enabled."""
    cdef Overload ov = <Overload>c.overload
    cdef ThreadState state = thread_state()
    cdef bint recording = state.grad_enabled, grad
    cdef Tensor target
    cdef Node node = None
    grad = recording and c.flags & T_REQUIRES_GRAD and not ov.flags & (NO_GRAD | HOST)
    if recording and c.variant == IN_PLACE and isinstance(<object>c.args[0], Tensor):
        target = <Tensor>c.args[0]
        if target.flags & T_REQUIRES_GRAD and not target.flags & T_NONLEAF:
            raise errors.leaf_inplace((<Op>c.op).name)
    types = tuple([type(value) for value in asked])
    func, args, kwargs = _overload_call(c)
    if grad and c.variant == IN_PLACE:
        node = begin(c, ov)
    state.grad_enabled = False
    try:
        if mode is not None:
            result = mode.__torch_dispatch__(func, types, args, kwargs)
        else:
            for value in asked:
                result = value.__torch_dispatch__(func, types, args, kwargs)
                if result is not NotImplemented:
                    break
    finally:
        state.grad_enabled = recording
    if result is NotImplemented:
        raise TypeError(f"{func}: __torch_dispatch__ of {', '.join([t.__name__ for t in types]) or type(mode).__name__} "
                        "returned NotImplemented")
    if c.variant == IN_PLACE:
        result = <object>c.args[0]
        (<Tensor>result).storage.version += 1
        if node is not None:
            record_write(c, ov, node, result)
    elif c.variant == WITH_OUT:
        return <object>c.out
    elif grad and result is not <object>c.args[0]:
        record(c, ov, result)
    return result


cdef object ask_mode(Call* c, object mode):
    """Let a mode's ``__torch_dispatch__`` handle a call."""
    return _below_gradients(c, mode, _dispatching(c))
