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
from metatensor._core.memory cimport Scope, born, pause_tracking, resume_tracking
from metatensor._core.op cimport COMPOSITE, FUNCTIONAL, VIEW, Call, Overload
from metatensor._core.tensor cimport Tensor, over_storage
from metatensor._core.thread cimport ThreadState, thread_state
from metatensor._core.types cimport T_CONJ, T_NEG, T_REQUIRES_GRAD
from metatensor._core.late import later

cdef extern from "Python.h":
    object PyObject_Vectorcall(object callee, PyObject** args, size_t nargsf, PyObject* kwnames)

cdef bint strict = False      # whether an exception in a function that makes parts is raised; tests set it


cdef dict _expressions = {}     # function -> whether it is a single expression


cdef inline object _meta(Call* c, Overload ov):
    return ov.meta(c) if ov.meta != NULL else python_meta(c)


cdef bint _is_expression(object body) except -1:
    """Return True if a function has no local variables besides its arguments."""
    found = _expressions.get(body)
    if found is None:
        code = getattr(body, "__code__", None)
        found = _expressions[body] = code is None or code.co_nlocals <= code.co_argcount + code.co_kwonlyargcount
    return found


cdef object held_back(object body, PyObject** args, int n):
    """Evaluate the formula of a gradient while memory is counted. What its operators make on meta lives until its end.

    Most formulas are expressions, and temporaries of an expression in C++ live until all of it has been evaluated. Functions
    with local variables consist of statements, and are left alone.
    """
    cdef ThreadState state = thread_state()
    cdef list outer = state.held
    if state.tracker is None or not _is_expression(body):
        return PyObject_Vectorcall(body, args, n, NULL)
    state.held = []
    try:
        return PyObject_Vectorcall(body, args, n, NULL)
    finally:
        state.held = outer


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
    if ov.parts is None:
        ov.parts = later("parts_of")(ov.qualname)
    if ov.parts is False or c.device != <PyObject*>META or c.variant != FUNCTIONAL:
        return _meta(c, ov)
    if ov.flags & COMPOSITE and c.flags & T_REQUIRES_GRAD and state.grad_enabled:
        return _meta(c, ov)         # its calls are recorded, and what they make may live on
    return _with_parts(c, ov)


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
    return value


cdef object _with_parts(Call* c, Overload ov):
    cdef int i
    cdef ThreadState state = thread_state()
    cdef bint grad = state.grad_enabled
    cdef list held = state.held
    cdef object result = _unseen(c, ov)         # first, because it checks the arguments
    args = [_plain(<object>c.args[i]) for i in range(ov.nslots)]
    state.grad_enabled = False
    state.held = None
    try:
        ov.parts(*args)
    except Exception:
        if strict:
            raise
    finally:
        state.grad_enabled, state.held = grad, held
    _count(result, c, ov)
    return result


cdef int _count(object result, Call* c, Overload ov) except -1:
    """Let the storages of a result count from now on."""
    cdef Tensor t
    if isinstance(result, Tensor):
        t = <Tensor>result
        if t.storage.life is None and not _given(t, c, ov):
            t.storage.life = born(t.storage.size_bytes)
    elif isinstance(result, (tuple, list)):
        for item in result:
            _count(item, c, ov)
    return 0


cdef bint _given(Tensor t, Call* c, Overload ov) except -1:
    """Return True if an argument has the storage of `t`."""
    cdef int i
    for i in range(ov.nslots):
        value = <object>c.args[i]
        for item in value if type(value) is list else (value,):
            if isinstance(item, Tensor) and (<Tensor>item).storage is t.storage:
                return True
    return False


def set_strict(bint value):
    """Raise the exceptions of functions that make parts, or ignore them. Return what was set before."""
    global strict
    was = strict
    strict = value
    return was
