"""Calls while memory is counted: what an operator's temporary tensors would be where PyTorch computes it in several steps.

A kernel policy says which operators are one kernel, and for each other one a function that makes its parts,
`metatensor.rules.parts`. While a memory tracker is active, that function runs before the operator's result is counted. It
receives plain tensors without history instead of the arguments, so no mode, class or graph can see it, and what it makes is
freed at once. Trackers count it all the same.
"""
from cpython.object cimport PyObject
from metatensor._core.attribution cimport Attribution
from metatensor._core.device cimport META
from metatensor._core.execute cimport python_meta
from metatensor._core.memory cimport Scope, pause_tracking, resume_tracking
from metatensor._core.op cimport COMPOSITE, FUNCTIONAL, VIEW, Call, Overload
from metatensor._core.storage cimport count_storage
from metatensor._core.tensor cimport Tensor, over_storage
from metatensor._core.thread cimport ThreadState, thread_state
from metatensor._core.types cimport T_CONJ, T_CONTIGUOUS, T_NEG, T_REQUIRES_GRAD
from metatensor._core.late import later

cdef extern from "Python.h":
    object PyObject_Vectorcall(object callee, PyObject** args, size_t nargsf, PyObject* kwnames)

cdef bint strict = False      # whether an exception in a function that makes parts is raised; tests set it


cdef dict _formulas = {}        # function -> what `_kind_of` returns


cdef inline object _meta(Call* c, Overload ov):
    return ov.meta(c) if ov.meta != NULL else python_meta(c)


cdef object _kind_of(object body, Overload ov, int slot):
    """Return how the formula of a gradient counts: True if it is an expression, False if not, or what makes its parts."""
    found = _formulas.get(body)
    if found is None:
        found = _formulas[body] = later("formula_of")(
            ov.qualname, None if slot < 0 else <object>ov.slots[slot].name, body)
    return found


cdef object formula(object body, PyObject** args, int n, Overload ov, int slot):
    """Evaluate the formula of a gradient of an operator while memory is counted, for the argument `slot` or, if -1, for several.

    Most formulas are expressions. Temporaries of an expression in C++ live until all of it has been evaluated, and so do here
    those that its operators make on meta. Functions with statements are left alone. For other formulas the kernel policy has
    a function that makes the parts, as for an operator.
    """
    cdef ThreadState state = thread_state()
    cdef list outer = state.held
    cdef object kind, result
    cdef Scope scope
    cdef int i
    if state.tracker is None or (<Scope>state.tracker).plain:
        return PyObject_Vectorcall(body, args, n, NULL)
    kind = _kind_of(body, ov, slot)
    if kind is False or (kind is not True and (state.grad_enabled or not _on_meta(args, n))):
        return PyObject_Vectorcall(body, args, n, NULL)
    if kind is True:
        state.held = []
        try:
            return PyObject_Vectorcall(body, args, n, NULL)
        finally:
            state.held = outer
    scope = pause_tracking()
    try:
        result = PyObject_Vectorcall(body, args, n, NULL)
    finally:
        resume_tracking(scope)
    _run_parts(kind, [_plain(<object>args[i]) for i in range(n)], state)
    _count(result, args, n)
    return result


cdef bint _on_meta(PyObject** args, int n) except -1:
    """Return True if the first tensor among some values is on meta."""
    cdef int i
    for i in range(n):
        value = <object>args[i]
        if type(value) is tuple:
            value = next((item for item in value if isinstance(item, Tensor)), None)
        if isinstance(value, Tensor):
            return (<Tensor>value).storage.device is META
    return False


cdef object counted(Call* c, Overload ov, bint by_others):
    """Run the meta kernel of a call while memory is counted. `by_others`: its result is thrown away."""
    cdef ThreadState state = thread_state()
    cdef object result
    if state.tracker is None:
        return _meta(c, ov)
    if state.held is None or ov.flags & (COMPOSITE | VIEW) or c.device != <PyObject*>META:
        return _counted(c, ov, by_others, state)
    result = _counted(c, ov, by_others, state)
    state.held.append(result)
    return result


cdef object _counted(Call* c, Overload ov, bint by_others, ThreadState state):
    state.operators += 1
    if state.attribution is not None:
        (<Attribution>state.attribution).note(c.op)
    if (by_others or c.variant != FUNCTIONAL) and not ov.flags & COMPOSITE:
        return _unseen(c, ov)
    if (<Scope>state.tracker).plain:
        return _meta(c, ov)
    if ov.parts is None:
        ov.parts = later("parts_of")(ov.qualname)
    if ov.parts is False or c.device != <PyObject*>META or c.variant != FUNCTIONAL:
        return _meta(c, ov)
    if type(ov.parts) is tuple and (<Tensor>c.args[0]).flags & T_CONTIGUOUS:
        return _meta(c, ov)
    if ov.flags & COMPOSITE and c.flags & T_REQUIRES_GRAD and state.grad_enabled:
        return _meta(c, ov)         # its calls are recorded, and what they make may live on
    return _with_parts(c, ov, state)


cdef object _unseen(Call* c, Overload ov):
    """Run a meta kernel whose result only says what the result must look like: its storage does not count."""
    cdef Scope scope = pause_tracking()
    try:
        return _meta(c, ov)
    finally:
        resume_tracking(scope)


cdef object _plain(object value):
    """Return a tensor like `value` over the same storage, without history, class or tangents; lists item by item."""
    cdef Tensor t, made
    if isinstance(value, Tensor):
        t = <Tensor>value
        made = over_storage(t.storage, t.dtype, t.ndim, t.sizes, t.strides, t.offset)
        made.flags |= t.flags & (T_CONJ | T_NEG | T_REQUIRES_GRAD)     # `matmul` looks at the last one
        return made
    if type(value) is list:
        return [_plain(item) for item in <list>value]
    if type(value) is tuple:
        return tuple([_plain(item) for item in <tuple>value])
    return value


cdef int _run_parts(object body, list args, ThreadState state) except -1:
    """Let the parts of a call be made and freed."""
    cdef bint grad = state.grad_enabled
    cdef list held = state.held
    cdef int level = state.level
    state.grad_enabled = False
    state.held = None
    state.level = 0             # modes do not see the parts
    try:
        body(*args)
    except Exception:
        if strict:
            raise
    finally:
        state.grad_enabled, state.held = grad, held
        state.level = level
    return 0


cdef object _with_parts(Call* c, Overload ov, ThreadState state):
    cdef int i
    cdef object result = _unseen(c, ov)         # first, because it checks the arguments
    _run_parts((<tuple>ov.parts)[0] if type(ov.parts) is tuple else ov.parts, [_plain(<object>c.args[i]) for i in range(ov.nslots)], state)
    _count(result, c.args, ov.nslots)
    return result


cdef int _count(object result, PyObject** args, int n) except -1:
    """Let the storages of a result count from now on."""
    cdef Tensor t
    if isinstance(result, Tensor):
        t = <Tensor>result
        if t.storage.scope is None and not _given(t, args, n):
            count_storage(t.storage)
    elif isinstance(result, (tuple, list)):
        for item in result:
            _count(item, args, n)
    return 0


cdef bint _given(Tensor t, PyObject** args, int n) except -1:
    """Return True if an argument has the storage of `t`."""
    cdef int i
    for i in range(n):
        value = <object>args[i]
        for item in value if type(value) is list or type(value) is tuple else (value,):
            if isinstance(item, Tensor) and (<Tensor>item).storage is t.storage:
                return True
    return False


def set_strict(bint value):
    """Raise the exceptions of functions that make parts, or ignore them. Return what was set before."""
    global strict
    was = strict
    strict = value
    return was


def storages_of(list tensors not None):
    """Return for the storage of each tensor what identifies it, its number in memory logs (0 if none counts it) and its bytes."""
    cdef Tensor t
    cdef list made = []
    for t in tensors:
        made.append((<size_t><PyObject*>t.storage, t.storage.number if t.storage.scope is not None else 0, t.storage.size_bytes))
    return made
