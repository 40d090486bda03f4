"""The dispatcher: bind the arguments of a call, run modes, run the meta kernel.

`execute` continues calls on a device with data, in-place calls and calls with ``out``.
"""
from cpython.number cimport PyNumber_Index
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from metatensor._core.device cimport META, Device, concrete_device, keeps_constants
from metatensor._core.dtype cimport BOOL, F64, I64, DType, by_code
from metatensor._core.duals cimport has_duals
from metatensor._core.execute cimport finish, python_meta, resolve_device
from metatensor._core.forward cimport run_duals
from metatensor._core.formats cimport LayoutTag, MemoryFormatTag
from metatensor._core.accounting cimport counted
from metatensor._core.constants cimport run_constants, set_kernel
from metatensor._core.modes cimport intercept, run_modes
from metatensor._core.op cimport (
    FUNCTIONAL, IN_PLACE, K_ANY, K_BOOL, K_BOOLS, K_DEVICE, K_DTYPE, K_FLOAT, K_FLOATS, K_FORMAT,
    COMPOSITE, K_GENERATOR, K_INT, K_INTS, K_LAYOUT, K_OPERAND, K_SCALAR, K_STR, K_TENSOR, K_TENSORS, OUT, RANDOM,
    WITH_OUT, Call, Op, OpMethod, Overload, SlotSpec, hold, op_name, prepare, set_entries,
)
from metatensor._core.overriding cimport ABSENT, CALLED_AS_METHOD, overriding_values, public_function
from metatensor._core.rule_node cimport AS_IT_IS, AS_UNIT, BY_OTHERS, Way, by_others, record, recorded_directly, way_of
from metatensor._core.tensor cimport Tensor, hooks
from metatensor._core.thread cimport hints, thread_state
from metatensor._core.types cimport MAX_ARGS, T_CONSTANT, T_DISTRIBUTED, T_OVERRIDES, T_REQUIRES_GRAD, T_VIEW
from metatensor._core import errors

cdef extern from "Python.h":
    bint PyLong_CheckExact(PyObject* o) noexcept
    object PyTuple_New(Py_ssize_t n)
    void PyTuple_SET_ITEM(object t, Py_ssize_t i, object v) noexcept
    bint PyFloat_CheckExact(PyObject* o) noexcept
    bint PyTuple_Check(PyObject* o) noexcept
    Py_ssize_t PyTuple_GET_SIZE(PyObject* o) noexcept
    PyObject* PyTuple_GET_ITEM(PyObject* o, Py_ssize_t i) noexcept
    Py_ssize_t VECTORCALL_OFFSET "PY_VECTORCALL_ARGUMENTS_OFFSET"

_KIND_TEXT = ("Tensor", "Tensor or number", "list or tuple of Tensors", "number", "int",
              "int or tuple of ints", "float", "tuple of floats", "bool", "tuple of bools", "str",
              "dtype", "device", "layout", "memory_format", "Generator", "object")
# NumPy's argument names, which PyTorch accepts too.
cdef dict _numpy_names = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input",
                          "x1": "input", "x2": "other"}


# Checking one argument ------------------------------------------------------------------

cdef inline void _scan(Call* c, Tensor t) noexcept:
    """Record a tensor argument's flags and device in the call."""
    c.flags |= t.flags
    if c.device == NULL:
        c.device = <PyObject*>t.storage.device
    elif c.device != <PyObject*>t.storage.device:
        c.mixed = True


cdef inline bint _all_ints(PyObject* p) noexcept:
    """Whether `p` is a tuple of ints, the usual form of sizes and dimensions."""
    cdef Py_ssize_t i
    if not PyTuple_Check(p):
        return False
    for i in range(PyTuple_GET_SIZE(p)):
        if not PyLong_CheckExact(PyTuple_GET_ITEM(p, i)):
            return False
    return True


cdef str _META_NAME = "meta"


cdef inline int _accept(SlotSpec* s, PyObject* p, Call* c, int i) except -1:
    """Store argument `p` in slot `i`. Return 1 if its type fits the slot, else 0."""
    cdef object value = <object>p
    c.args[i] = p
    if s.kind == K_TENSOR or s.kind == K_OPERAND:
        if isinstance(value, Tensor):
            _scan(c, <Tensor>value)
            return 1
        if s.kind == K_OPERAND and (PyLong_CheckExact(p) or PyFloat_CheckExact(p)):
            return 1
    elif s.kind == K_INT:
        if PyLong_CheckExact(p):
            return 1
    elif s.kind == K_INTS:
        if _all_ints(p):
            return 1
    elif s.kind == K_BOOL:
        if value is True or value is False:
            return 1
    elif s.kind == K_DEVICE:
        if value is META or value is _META_NAME:
            c.args[i] = <PyObject*>META
            return 1
    elif s.kind == K_DTYPE:
        if type(value) is DType:
            return 1
    if value is None:
        return s.optional
    return _accept_slow(s, value, c, i)


cdef int _replace(Call* c, int i, object value) except -1:
    hold(c, value)
    c.args[i] = <PyObject*>value
    return 1


cdef object _as_int(object value):
    """Return `value` as an int, or None if PyTorch would not accept it as an int."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return PyNumber_Index(value)  # which no subclass of int overrides
    if isinstance(value, float) or not hasattr(value, "__index__"):
        return None
    if isinstance(value, Tensor) and ((<Tensor>value).total != 1 or (<Tensor>value).dtype.code == BOOL
                                      or (<Tensor>value).dtype.is_floating_point):
        return None
    return value.__index__()


cdef object _as_number(object value):
    """Return a number, a NumPy scalar or a one-element tensor as a Python number, or None for other values."""
    if isinstance(value, (bool, int, float, complex)):
        return value
    if isinstance(value, Tensor):
        return hooks.item(<Tensor>value) if (<Tensor>value).total == 1 else None
    if hasattr(value, "dtype") and type(ndim := getattr(value, "ndim", None)) is int and ndim == 0 and hasattr(value, "item"):
        number = value.item()
        return number if isinstance(number, (bool, int, float, complex)) else None
    return None


cdef object _as_dtype(object value):
    if isinstance(value, DType):
        return value
    if value is float:
        return by_code(F64)
    if value is int:
        return by_code(I64)
    if value is bool:
        return by_code(BOOL)
    return None


cdef int _accept_slow(SlotSpec* s, object value, Call* c, int i) except -1:
    cdef object converted
    # Dtypes and devices are interned and never freed, so no reference is held.
    if s.kind == K_DTYPE:
        converted = _as_dtype(value)
        c.args[i] = <PyObject*>converted
        return converted is not None
    if s.kind == K_DEVICE:
        if not isinstance(value, (Device, str, int)) or isinstance(value, bool):
            return 0
        converted = concrete_device(value)
        c.args[i] = <PyObject*>converted
        return 1
    if s.kind == K_OPERAND or s.kind == K_SCALAR:
        if isinstance(value, (int, float, complex)):
            return 1
        converted = _as_number(value)
        return 0 if converted is None else _replace(c, i, converted)
    if s.kind == K_TENSORS:
        if not isinstance(value, (list, tuple)):
            return 0
        value = list(value)     # a copy, because the caller's list may change during the call
        for t in value:
            if not isinstance(t, Tensor):
                return 0
            _scan(c, <Tensor>t)
        return _replace(c, i, value)
    if s.kind == K_INT:
        converted = _as_int(value)
        return 0 if converted is None else _replace(c, i, converted)
    if s.kind == K_INTS:
        return _accept_ints(s, value, c, i)
    if s.kind == K_FLOAT:
        if isinstance(value, (float, int)):
            return 1
        converted = _as_number(value)
        return 0 if converted is None or isinstance(converted, complex) else _replace(c, i, converted)
    if s.kind == K_FLOATS or s.kind == K_BOOLS:
        if not isinstance(value, (list, tuple)):
            return 0
        value = tuple(value)    # a copy, as above
        for v in value:
            if not isinstance(v, (float, int) if s.kind == K_FLOATS else bool):
                return 0
        return _replace(c, i, value)
    if s.kind == K_BOOL:
        if type(value).__name__ in ("bool_", "bool") and hasattr(value, "dtype"):
            return _replace(c, i, bool(value))
        return 0
    if s.kind == K_STR:
        return isinstance(value, str)
    if s.kind == K_LAYOUT:
        return isinstance(value, LayoutTag)
    if s.kind == K_FORMAT:
        return isinstance(value, MemoryFormatTag)
    return s.kind == K_ANY or s.kind == K_GENERATOR


cdef int _accept_ints(SlotSpec* s, object value, Call* c, int i) except -1:
    cdef object converted
    if isinstance(value, list):
        value = tuple(value)    # a copy, because the caller's list may change during the call
        _replace(c, i, value)
        if _all_ints(<PyObject*>value):
            return 1
    if isinstance(value, tuple):
        converted = []
        for v in value:
            v = _as_int(v)
            if v is None:
                return 0
            converted.append(v)
        return _replace(c, i, tuple(converted))
    if isinstance(value, Tensor) and (<Tensor>value).ndim == 1:
        return _replace(c, i, tuple(value.tolist()))
    if s.repeat:
        converted = _as_int(value)
        return 0 if converted is None else _replace(c, i, converted)
    return 0


# Binding ------------------------------------------------------------------------------------

cdef int _keyword(Overload ov, PyObject* name) except -2:
    """Return the slot for keyword `name`, or -1."""
    cdef int i
    for i in range(ov.nslots):
        if ov.slots[i].name == name:
            return i
    for i in range(ov.nslots):
        if <object>ov.slots[i].name == <object>name:
            return i
    other = _numpy_names.get(<object>name)
    if other is not None:
        for i in range(ov.nslots):
            if <object>ov.slots[i].name == other:
                return i
    return -1


cdef int _pack(Overload ov, Call* c, PyObject** args, Py_ssize_t n) except -1:
    """Pack the positional arguments from `ov.varargs` on into one tuple. Return 1 if all are ints, else 0."""
    cdef Py_ssize_t i
    cdef object packed = PyTuple_New(n - ov.varargs)
    cdef object v
    for i in range(ov.varargs, n):
        v = <object>args[i]
        if not PyLong_CheckExact(args[i]):
            v = _as_int(v)
            if v is None:
                return 0
        Py_INCREF(v)
        PyTuple_SET_ITEM(packed, i - ov.varargs, v)
    return _replace(c, ov.varargs, packed)


cdef int bind(Overload ov, Call* c, PyObject** args, Py_ssize_t n, PyObject* kwnames,
              Misfit* misfit) except -1:
    """Bind the arguments to the slots of an overload. Return 1 if they fit, else 0 with the reason in `misfit`."""
    cdef SlotSpec* slots = ov.slots
    cdef Py_ssize_t k
    cdef int i, given = <int>n, start = given
    cdef unsigned long long seen = 0        # bit set of the slots that were passed by keyword
    cdef bint lacking = False
    c.overload = <PyObject*>ov
    c.device = NULL
    c.out = NULL
    c.flags = 0
    c.mixed = False
    if n > ov.npos or (ov.varargs >= 0 and n > ov.varargs):
        if ov.varargs >= 0 and n > ov.varargs and (n > ov.varargs + 1 or _is_int(args[ov.varargs])):
            if not _pack(ov, c, args, n):
                misfit.why = BAD_TYPE if n <= ov.npos else TOO_MANY
                misfit.slot = ov.varargs
                return 0
            given = ov.varargs
            start = given + 1
        elif n > ov.npos:
            misfit.why = TOO_MANY
            return 0
    for i in range(given):
        if not _accept(&slots[i], args[i], c, i):
            misfit.why = BAD_TYPE
            misfit.slot = i
            return 0
    for i in range(start, ov.nslots):
        c.args[i] = slots[i].default
        if c.args[i] == NULL:
            lacking = True
    if kwnames != NULL:
        for k in range(PyTuple_GET_SIZE(kwnames)):
            i = _keyword(ov, PyTuple_GET_ITEM(kwnames, k))
            if i < 0:
                if ov.flags & OUT and <object>PyTuple_GET_ITEM(kwnames, k) == "out":
                    if <object>args[n + k] is not None:
                        c.out = args[n + k]
                    continue
                misfit.why = UNKNOWN
                misfit.name = PyTuple_GET_ITEM(kwnames, k)
                return 0
            if i < start or seen >> i & 1:
                misfit.why = TWICE
                misfit.slot = i
                return 0
            if not _accept(&slots[i], args[n + k], c, i):
                misfit.why = BAD_TYPE
                misfit.slot = i
                return 0
            seen |= 1ULL << i
    if lacking:
        for i in range(start, ov.nslots):
            if c.args[i] == NULL:
                misfit.why = MISSING
                misfit.slot = i
                return 0
    return 1


cdef inline bint _is_int(PyObject* p) noexcept:
    return PyLong_CheckExact(p) or (not isinstance(<object>p, (list, tuple)) and _indexable(<object>p))


cdef bint _indexable(object value) noexcept:
    if isinstance(value, Tensor):
        return (<Tensor>value).ndim == 0
    return hasattr(value, "__index__") and not isinstance(value, bool)


cdef str _reason(Overload ov, PyObject** args, Py_ssize_t n, PyObject* kwnames, Misfit* m):
    cdef SlotSpec* s = &ov.slots[m.slot if m.slot < ov.nslots else 0]
    cdef Py_ssize_t k
    if m.why == FITS:
        return "an argument changed while it was read"
    if m.why == TOO_MANY:
        return f"takes {ov.npos} positional arguments but {n} were given"
    if m.why == UNKNOWN:
        return f"got an unexpected keyword argument '{<object>m.name}'"
    name = <object>s.name
    if m.why == TWICE:
        return f"got multiple values for argument '{name}'"
    if m.why == MISSING:
        return f"missing required argument '{name}' (position {m.slot + 1})"
    value = None
    if m.slot < n:
        value = <object>args[m.slot]
    elif kwnames != NULL:
        for k in range(PyTuple_GET_SIZE(kwnames)):
            if _keyword(ov, PyTuple_GET_ITEM(kwnames, k)) == m.slot:
                value = <object>args[n + k]
    return (f"argument '{name}' (position {m.slot + 1}) must be {_KIND_TEXT[<int>s.kind]}, "
            f"not {errors.type_name(value)}")


cdef bint _has_form(Overload ov, Py_ssize_t n, PyObject* kwnames) except -1:
    """Return True if the number of positional arguments and the keywords fit an overload, whatever the values are."""
    cdef unsigned long long seen = 0
    cdef Py_ssize_t k
    cdef int i
    if n > ov.npos and ov.varargs < 0:
        return False
    for i in range(min(n, ov.nslots) if ov.varargs < 0 or n <= ov.varargs else ov.varargs + 1):
        seen |= 1ULL << i
    if kwnames != NULL:
        for k in range(PyTuple_GET_SIZE(kwnames)):
            i = _keyword(ov, PyTuple_GET_ITEM(kwnames, k))
            if i < 0:
                if ov.flags & OUT and <object>PyTuple_GET_ITEM(kwnames, k) == "out":
                    continue
                return False
            if seen >> i & 1:
                return False
            seen |= 1ULL << i
    for i in range(ov.nslots):
        if ov.slots[i].default == NULL and not seen >> i & 1:
            return False
    return True


cdef bint _has_any_form(Op op, Py_ssize_t n, PyObject* kwnames) except -1:
    for ov in op.overloads:
        if _has_form(<Overload>ov, n, kwnames):
            return True
    return False


cdef object _misfit(Op op, PyObject** args, Py_ssize_t n, PyObject* kwnames, int how):
    """Handle a call that fits no overload.

    Try objects with ``__torch_function__`` among the arguments, then older argument orders. Raise TypeError if both
    fail.
    """
    cdef Call c
    cdef Misfit m
    cdef Py_ssize_t k
    kwargs = {}
    if kwnames != NULL:
        for k in range(PyTuple_GET_SIZE(kwnames)):
            kwargs[<object>PyTuple_GET_ITEM(kwnames, k)] = <object>args[n + k]
    given = [<object>args[k] for k in range(n)]
    if _has_any_form(op, n, kwnames) and overriding_values([*given, *kwargs.values()]):
        c.op, c.flags = <PyObject*>op, how
        result = intercept(public_function(&c), [*given, *kwargs.values()], tuple(given), kwargs)
        if result is not ABSENT:
            return result
    from metatensor._core.older_forms import reordered
    older = reordered(op.name, given, kwargs)
    if older is not None:
        return op(*older[0], **older[1])
    reasons = []
    for ov in op.overloads:
        c.keep = NULL
        m.why, m.slot, m.name = FITS, 0, NULL
        bind(<Overload>ov, &c, args, n, kwnames, &m)
        reasons.append(((<Overload>ov).text, _reason(<Overload>ov, args, n, kwnames, &m)))
        Py_XDECREF(c.keep)
    raise errors.misfit(op.name, reasons, given, kwargs)


# The call -----------------------------------------------------------------------------------

cdef inline object _enter(Op op, PyObject** args, Py_ssize_t n, PyObject* kwnames, int how):
    cdef Call c
    cdef Misfit m
    if not op.ready:
        prepare(op)
    c.op = <PyObject*>op
    c.keep = NULL
    c.variant = op.variant
    try:
        if not bind(op.first, &c, args, n, kwnames, &m) and not _try_others(op, &c, args, n, kwnames):
            return _misfit(op, args, n, kwnames, how)
        c.flags |= how
        return dispatch(&c)
    finally:
        Py_XDECREF(c.keep)


cdef int _try_others(Op op, Call* c, PyObject** args, Py_ssize_t n, PyObject* kwnames) except -1:
    cdef Misfit m
    cdef Py_ssize_t k
    for k in range(1, len(op.overloads)):
        Py_XDECREF(c.keep)
        c.keep = NULL
        if bind(<Overload>op.overloads[k], c, args, n, kwnames, &m):
            return 1
    Py_XDECREF(c.keep)
    c.keep = NULL
    return 0


cdef object dispatch(Call* c):
    """Run a bound call: resolve the device, run modes and overrides, then the kernels."""
    cdef Overload ov = <Overload>c.overload
    if c.out != NULL:
        c.variant = WITH_OUT
        if isinstance(<object>c.out, Tensor):
            c.flags |= (<Tensor><object>c.out).flags & (T_OVERRIDES | T_DISTRIBUTED)
    elif ov.inplace_slot >= 0 and <object>c.args[ov.inplace_slot] is True:
        c.variant = IN_PLACE
    if c.variant == IN_PLACE and not isinstance(<object>c.args[0], Tensor):
        raise errors.not_a_target(op_name(c), <object>ov.slots[0].name, <object>c.args[0])
    if ov.device_slot >= 0 and c.args[ov.device_slot] == <PyObject*>META:
        c.device = <PyObject*>META
        c.mixed = False
    elif c.mixed or c.device == NULL or ov.device_slot >= 0:
        resolve_device(c)
    if hints.modes or hints.constants or c.flags & (T_OVERRIDES | T_DISTRIBUTED):
        return _watched(c)
    return run(c)


cdef object _watched(Call* c):
    """Run a call where there are modes, classes that override operators, or constants on meta that keep their values."""
    if hints.constants and (<Overload>c.overload).device_slot >= 0 and c.device == <PyObject*>META and keeps_constants():
        c.flags |= T_CONSTANT
    if hints.modes or c.flags & (T_OVERRIDES | T_DISTRIBUTED):
        return run_modes(c)
    return run(c)


cdef object run(Call* c):
    """Run a call below all modes, and compute tangents if an argument has one."""
    if hints.duals and has_duals(c):
        return run_duals(c)
    return run_plain(c)


cdef int _find_history(Call* c, Overload ov) except -1:
    """Set the flags of the call for views that require grad only because their base has been changed in place."""
    cdef int i
    for i in range(ov.nslots):
        value = <object>c.args[i]
        for t in value if isinstance(value, list) else (value,):
            if isinstance(t, Tensor) and hooks.has_history(<Tensor>t):
                c.flags |= (<Tensor>t).flags
    return 0


cdef inline object _run_kernel(Call* c):
    """Run the meta kernel. `finish` does the rest, unless this is a plain call on the meta device without gradients."""
    cdef Overload ov = <Overload>c.overload
    cdef object result
    cdef Way way = AS_IT_IS
    if hooks.late_views and c.flags & T_VIEW and thread_state().grad_enabled:
        _find_history(c, ov)
    if c.flags & T_REQUIRES_GRAD and c.out == NULL and thread_state().grad_enabled:
        way = way_of(c, ov)
    if way == AS_UNIT:
        return _as_unit(c, ov)
    if way == BY_OTHERS:
        result = recorded_directly(c, ov)
        if result is not NotImplemented:
            return result
    if way == BY_OTHERS and ov.flags & (RANDOM | COMPOSITE):
        result = by_others(c, ov)       # before the meta kernel, which could draw random numbers or call other operators
        if result is not NotImplemented:
            return result
        way = AS_IT_IS
    if hints.trackers:
        result = counted(c, ov, way == BY_OTHERS)
    elif ov.meta != NULL:
        result = ov.meta(c)
    else:
        result = python_meta(c)
    if way == BY_OTHERS:
        result = None           # not needed: the meta kernel only checked the arguments
        result = by_others(c, ov)
        if result is not NotImplemented:
            return result
        if hints.trackers:
            result = counted(c, ov, False)
        else:
            result = ov.meta(c) if ov.meta != NULL else python_meta(c)
    if c.variant == FUNCTIONAL and c.device == <PyObject*>META and not ov.mutates \
            and not c.flags & T_REQUIRES_GRAD:
        return result
    return finish(c, result)


cdef object run_kernel(Call* c):
    """Run a call below modes and tangents, without tracking constants."""
    return _run_kernel(c)


cdef object run_plain(Call* c):
    """Run a call below modes and tangents."""
    if c.flags & T_CONSTANT and c.device == <PyObject*>META:
        return run_constants(c)
    return _run_kernel(c)


cdef object _as_unit(Call* c, Overload ov):
    """Run a composite body without recording the operators in it, and record the call as a whole."""
    cdef object result
    thread_state().grad_enabled = False
    try:
        result = ov.meta(c) if ov.meta != NULL else python_meta(c)
    finally:
        thread_state().grad_enabled = True
    if result is not <object>c.args[0]:
        record(c, ov, result)
    return result


cdef object invoke(PyObject* callee, PyObject** args, int n):
    """Call the first overload of an op with positional arguments. Their types are not checked."""
    cdef Call c
    cdef Op op = <Op>callee
    cdef Overload ov
    cdef int i
    if not op.ready:
        prepare(op)
    ov = op.first
    c.op = callee
    c.overload = <PyObject*>ov
    c.device = c.out = c.keep = NULL
    c.flags = CALLED_AS_METHOD
    c.mixed = False
    c.variant = op.variant
    for i in range(n):
        c.args[i] = args[i]
        if isinstance(<object>args[i], Tensor):
            _scan(&c, <Tensor>args[i])
        elif ov.slots[i].kind == K_TENSORS and <object>args[i] is not None:
            for t in <object>args[i]:
                _scan(&c, <Tensor>t)
    for i in range(n, ov.nslots):
        c.args[i] = ov.slots[i].default
    if c.mixed or c.device == NULL or ov.device_slot >= 0:
        resolve_device(&c)
    try:
        if hints.modes or hints.constants or c.flags & (T_OVERRIDES | T_DISTRIBUTED):
            return _watched(&c)
        return run(&c)
    finally:
        Py_XDECREF(c.keep)


cdef object _bound(Op op, tuple args, dict kwargs, bint running):
    """Bind arguments. Return the overload and the arguments by name; if `running`, run the body and return its result."""
    cdef Call c
    cdef Misfit m
    cdef Overload ov
    cdef PyObject* given[2 * MAX_ARGS]
    cdef Py_ssize_t n = len(args), k
    cdef int i
    cdef tuple names = tuple(kwargs), values = tuple(kwargs.values())
    if not op.ready:
        prepare(op)
    if n + len(names) > 2 * MAX_ARGS:
        return None
    for k in range(n):
        given[k] = <PyObject*>args[k]
    for k in range(len(names)):
        given[n + k] = <PyObject*>values[k]
    c.op = <PyObject*>op
    c.keep = NULL
    c.variant = op.variant
    try:
        if not bind(op.first, &c, given, n, <PyObject*>names if names else NULL, &m) \
                and not _try_others(op, &c, given, n, <PyObject*>names if names else NULL):
            return None
        ov = <Overload>c.overload
        if not running:
            return ov, {<object>ov.slots[i].name: <object>c.args[i] for i in range(ov.nslots)}
        if ov.device_slot >= 0 and c.args[ov.device_slot] == <PyObject*>META:
            c.device = <PyObject*>META
        elif c.mixed or c.device == NULL or ov.device_slot >= 0:
            resolve_device(&c)
        return ov.meta(&c) if ov.meta != NULL else python_meta(&c)
    finally:
        Py_XDECREF(c.keep)


def bound_arguments(Op op not None, tuple args not None, dict kwargs not None):
    """Return the overload that matches a call and the arguments by name, or None if no overload matches."""
    return _bound(op, args, kwargs, False)


def run_body(Op op not None, tuple args not None, dict kwargs not None):
    """Run the body of a composite operator, without overrides by the classes of its arguments."""
    return _bound(op, args, kwargs, True)


cdef object _call_function(PyObject* self, PyObject** args, size_t nargsf, PyObject* kwnames):
    return _enter(<Op>self, args, <Py_ssize_t>(nargsf & ~<size_t>VECTORCALL_OFFSET), kwnames, 0)


cdef object _call_method(PyObject* self, PyObject** args, size_t nargsf, PyObject* kwnames):
    return _enter((<OpMethod>self).op, args, <Py_ssize_t>(nargsf & ~<size_t>VECTORCALL_OFFSET), kwnames, CALLED_AS_METHOD)


set_entries(<void*>_call_function, <void*>_call_method)
hooks.invoke = invoke
set_kernel(run_kernel)
