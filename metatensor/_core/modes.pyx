"""The mode stack of a thread. Modes intercept calls before their kernels run.

While a mode handles a call, only the modes below it are active. If it calls the op again, the next mode below handles
that call. Whatever the order in which modes were entered, a call passes them in this order:
1. function modes (`TorchFunctionMode`);
2. classes of arguments with ``__torch_function__``;
3. the autocast mode;
4. functions that replace an operator (`replacement`);
5. distributed tensors, which run the operator on their parts (`sharded`);
6. operator modes (`DispatchMode`, `TorchDispatchMode`);
7. classes of arguments with ``__torch_dispatch__``.
"""
cimport cython
from cpython.object cimport PyObject
from metatensor._core.dispatch cimport run
from metatensor._core.duals cimport has_duals
from metatensor._core.forward cimport run_duals
from metatensor._core.op cimport COMPOSITE, FUNCTIONAL, Call, Overload
from metatensor._core.overriding cimport (
    ABSENT, answers_itself, ask_dispatch, ask_functions, ask_mode, overriding_functions, overriding_values, public_function, python_call,
    run_parts,
)
from metatensor._core.sharded cimport run_body, run_distributed
from metatensor._core.tensor cimport Tensor
from metatensor._core.thread cimport ThreadState, hints, thread_state
from metatensor._core.types cimport T_DISTRIBUTED, T_INFERENCE, T_OVERRIDES, T_REQUIRES_GRAD, T_VIEW


@cython.binding(False)
cdef class Mode:
    """A context manager that intercepts every op of its thread.

    If the class attribute `sees_composites` is True, the mode receives composite ops
    themselves. By default it receives the ops that they call instead.
    """
    sees_composites = False
    _rank = OPERATORS

    cdef object handle(self, Call* c):
        return run_modes(c)

    cdef bint sees(self, Call* c) except -1:
        return self.sees_composites

    cdef int position(self, ThreadState state) except -1:
        """Return the index in the stack above all active modes of the same or a lower rank."""
        cdef int i = state.level
        while i > 0 and (<Mode>state.modes[i - 1]).rank > self.rank:
            i -= 1
        return i

    def __enter__(self):
        cdef ThreadState state = thread_state()
        self.rank = type(self)._rank
        state.modes.insert(self.position(state), self)
        state.level += 1
        hints.modes += 1
        return self

    def __exit__(self, *exc):
        cdef ThreadState state = thread_state()
        cdef int i = self.position(state)
        if i == 0 or state.modes[i - 1] is not self:
            raise RuntimeError(f"{type(self).__name__}: modes must be left in the order in which "
                               "they were entered, and in the same thread")
        del state.modes[i - 1]
        state.level -= 1
        hints.modes -= 1


cdef bint python_modes() except -1:
    """Return whether a mode that is written in Python receives the operators that this thread calls now."""
    cdef ThreadState state
    cdef int i
    if hints.modes:
        state = thread_state()
        for i in range(state.level):
            if isinstance(state.modes[i], (DispatchMode, TorchDispatchMode)):
                return True
    return False


@cython.binding(False)
cdef class DispatchMode(Mode):
    """Base class of modes in Python. Override `dispatch`.

    ``dispatch(self, op, args, kwargs)`` receives the `Op` and its arguments and returns
    the result. If it calls ``op(*args, **kwargs)``, the mode below handles that call.

    Examples
    --------
    >>> import metatensor as mt
    >>> class Log(mt.DispatchMode):
    ...     def dispatch(self, op, args, kwargs):
    ...         print(op.name)
    ...         return op(*args, **kwargs)
    >>> x = mt.empty(3, device="meta")
    >>> with Log():
    ...     y = x + x
    add
    """

    def dispatch(self, op, args, kwargs):
        """Handle one call and return its result. The default calls the op."""
        return op(*args, **kwargs)

    cdef object handle(self, Call* c):
        cdef tuple parts = python_call(c)
        return self.dispatch(<object>c.op, parts[0], parts[1])


cdef Mode _function_mode(ThreadState state):
    """Return the innermost active function mode, or None."""
    cdef Mode mode
    if state.level > 0:
        mode = <Mode>state.modes[state.level - 1]
        if mode.rank == FUNCTIONS:
            return mode
    return None


cdef object _override(ThreadState state, object func, list asked, tuple args, dict kwargs):
    """Let the innermost function mode handle a call.

    If there is no mode, or if it returns NotImplemented, call ``__torch_function__`` of the values `asked`. Return
    ABSENT if there is neither a mode nor a value.
    """
    cdef Mode mode = _function_mode(state)
    cdef int level = state.level
    if mode is not None:
        state.level -= 1
        try:
            result = mode.__torch_function__(func, tuple([type(value) for value in asked]), args, kwargs)
        finally:
            state.level = min(level, <int>len(state.modes))
        if result is not NotImplemented:
            return result
        if not asked:
            raise TypeError(f"{getattr(func, '__name__', func)}(): the mode {type(mode).__name__} returned NotImplemented")
    return ask_functions(func, asked, args, kwargs)


cdef bint intercepts() except -1:
    """Return True if a function mode is active in this thread."""
    return _function_mode(thread_state()) is not None


cdef object intercept(object func, object values, tuple args, dict kwargs):
    """Let a function mode or an overriding class among `values` handle a call. Return ABSENT if there is none."""
    return _override(thread_state(), func, overriding_values(values), args, kwargs)


def override(func, values, args, kwargs):
    """Let a function mode, or a value that overrides functions, handle the call ``func(*args, **kwargs)``.

    Returns
    -------
    tuple
        The result in a tuple of length 1, or an empty tuple if nothing overrides the call.
    """
    result = intercept(func, values, args, kwargs)
    return () if result is ABSENT else (result,)


def overriding(values):
    """Return the values that override functions, the first of each class, with subclasses before their bases."""
    return overriding_values(values)


def function_mode_active():
    """Return True if a function mode is active in this thread."""
    return intercepts()


cdef object run_modes(Call* c):
    """Let function overrides handle a call first, then operator overrides. If there are none, run the kernel."""
    cdef ThreadState state = thread_state()
    cdef Overload ov = <Overload>c.overload
    cdef int level = state.level
    cdef Mode mode
    cdef list asked = None
    if c.flags & T_OVERRIDES:
        asked = overriding_functions(c)
    if asked or _function_mode(state) is not None:
        args, kwargs = python_call(c)
        by_operator = asked and getattr(type(asked[0]), "_overrides_operators_only", False)
        func = <object>c.op if by_operator else public_function(c)
        return _override(state, func, asked or [], args, kwargs)
    while state.level > 0:
        mode = <Mode>state.modes[state.level - 1]
        if hints.duals and mode.rank == OPERATORS and has_duals(c):
            return run_duals(c)         # the mode also receives the calls that compute the tangents
        if ov.flags & COMPOSITE and not mode.sees(c):
            return _run_distributed(c, ov, state) if c.flags & T_DISTRIBUTED else run(c)       # the ops it calls will reach the mode
        if c.flags & T_DISTRIBUTED and mode.rank == OPERATORS and not ov.flags & COMPOSITE:
            return _run_distributed(c, ov, state)       # operator modes receive the calls on the parts
        if mode.takes_parts or isinstance(mode, TorchDispatchMode) and not state.dispatch_disabled:
            result = run_parts(c, mode.takes_parts)
            if result is not ABSENT:
                return result
        state.level -= 1
        try:
            return mode.handle(c)
        finally:
            state.level = min(level, <int>len(state.modes))
    if hints.duals and has_duals(c):
        return run_duals(c)
    if c.flags & T_DISTRIBUTED:
        return _run_distributed(c, ov, state)
    if c.flags & T_OVERRIDES and not ov.flags & COMPOSITE and not state.dispatch_disabled and not answers_itself(c):
        result = ask_dispatch(c)
        if result is not ABSENT:
            return result
    result = run(c)
    if state.inference and c.variant == FUNCTIONAL and not ov.mutates:
        _mark_inference(c, ov, result)
    return result


cdef object _run_distributed(Call* c, Overload ov, ThreadState state):
    """Run a call with distributed tensors among its arguments."""
    result = run_body(c) if ov.flags & COMPOSITE else run_distributed(c)
    if state.inference and c.variant == FUNCTIONAL and not ov.mutates:
        _mark_inference(c, ov, result)
    return result


cdef int _mark_inference(Call* c, Overload ov, object result) except -1:
    """Mark results as inference tensors, unless they are views, require grad or are arguments."""
    cdef Tensor t
    cdef int i
    if isinstance(result, Tensor):
        t = <Tensor>result
        for i in range(ov.nslots):
            if c.args[i] == <PyObject*>t:
                return 0
        if not t.flags & (T_VIEW | T_REQUIRES_GRAD):
            t.flags |= T_INFERENCE
    elif isinstance(result, (tuple, list)):
        for r in result:
            _mark_inference(c, ov, r)
    return 0


@cython.binding(False)
cdef class TorchFunctionMode(Mode):
    """A mode whose ``__torch_function__`` receives every function call, before the classes of the arguments do."""
    _rank = FUNCTIONS


@cython.binding(False)
cdef class TorchDispatchMode(Mode):
    """A mode whose ``__torch_dispatch__`` receives every non-composite operator, below autograd and autocast."""

    cdef object handle(self, Call* c):
        if thread_state().dispatch_disabled or answers_itself(c):
            return run_modes(c)
        return ask_mode(c, self)


def _disable_modes(bint functions_only=False):
    """Suspend this thread's modes, or only its function modes. Return the argument for `_restore_modes`."""
    cdef ThreadState state = thread_state()
    was = state.level
    while state.level > 0 and (not functions_only or (<Mode>state.modes[state.level - 1]).rank == FUNCTIONS):
        state.level -= 1
    return was


def _restore_modes(int level):
    cdef ThreadState state = thread_state()
    state.level = max(0, min(level, <int>len(state.modes)))


def current_modes():
    """Return the active modes of this thread, innermost last."""
    cdef ThreadState state = thread_state()
    return list(state.modes[:state.level])
