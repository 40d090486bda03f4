"""The mode stack of a thread, and subclasses of Tensor that override dispatch.

A mode sees the calls of its thread before their kernels run. While it handles
one, the modes below it are the active ones, so calling the op again goes down.
"""
cimport cython
from metatensor._core.dispatch cimport run
from metatensor._core.op cimport COMPOSITE, K_TENSOR, K_TENSORS, K_OPERAND, Call, Overload
from metatensor._core.slots cimport forbid_new
from metatensor._core.storage cimport Storage
from metatensor._core.tensor cimport Tensor
from metatensor._core.thread cimport ThreadState, hints, thread_state
from metatensor._core.types cimport T_INFERENCE, T_OVERRIDES, T_REQUIRES_GRAD, T_VIEW, dim_t


@cython.binding(False)
cdef class Mode:
    """A context manager that sees every op of its thread.

    `sees_composites` says whether it gets ops that are made of other ops whole;
    otherwise (the default) it gets their parts.
    """
    sees_composites = False

    cdef object handle(self, Call* c):
        return run_modes(c)

    cdef bint sees(self, Call* c) except -1:
        return self.sees_composites

    def __enter__(self):
        cdef ThreadState state = thread_state()
        state.modes.insert(state.level, self)
        state.level += 1
        hints.modes += 1
        return self

    def __exit__(self, *exc):
        cdef ThreadState state = thread_state()
        if state.level == 0 or state.modes[state.level - 1] is not self:
            raise RuntimeError(f"{type(self).__name__}: modes must be left in the order in which "
                               "they were entered, and in the same thread")
        del state.modes[state.level - 1]
        state.level -= 1
        hints.modes -= 1


@cython.binding(False)
cdef class DispatchMode(Mode):
    """The base of modes written in Python: override `dispatch`.

    ``dispatch(self, op, args, kwargs)`` gets the Op and its arguments and returns
    the result; ``op(*args, **kwargs)`` inside it goes to the mode below.
    """

    def dispatch(self, op, args, kwargs):
        """Handle one call; the default runs it."""
        return op(*args, **kwargs)

    cdef object handle(self, Call* c):
        cdef tuple parts = python_call(c)
        return self.dispatch(<object>c.op, parts[0], parts[1])


cdef tuple python_call(Call* c):
    """The (args, kwargs) with which the op can be called again; defaults are left out at the end."""
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


cdef object run_modes(Call* c):
    """The slow way of a call: subclass overrides, then the innermost mode, then the kernel."""
    cdef ThreadState state = thread_state()
    cdef Overload ov = <Overload>c.overload
    cdef int level = state.level
    cdef Mode mode
    if c.flags & T_OVERRIDES and not state.overrides_disabled:
        result = _override(c, ov)
        if result is not NotImplemented:
            return result
    while state.level > 0:
        mode = <Mode>state.modes[state.level - 1]
        if ov.flags & COMPOSITE and not mode.sees(c):
            return run(c)       # its parts will come here
        state.level -= 1
        try:
            return mode.handle(c)
        finally:
            state.level = min(level, <int>len(state.modes))
    result = run(c)
    if state.inference:
        _mark_inference(result)
    return result


cdef int _mark_inference(object result) except -1:
    """Results of inference mode are inference tensors, unless they view or are older ones."""
    cdef Tensor t
    if isinstance(result, Tensor):
        t = <Tensor>result
        if not t.flags & (T_VIEW | T_REQUIRES_GRAD):
            t.flags |= T_INFERENCE
    elif isinstance(result, (tuple, list)):
        for r in result:
            _mark_inference(r)
    return 0


cdef int _collect(object value, list types) except -1:
    if isinstance(value, Tensor):
        if (<Tensor>value).flags & T_OVERRIDES and type(value) not in types:
            # subclasses go before their bases
            for i, t in enumerate(types):
                if issubclass(type(value), t):
                    types.insert(i, type(value))
                    return 0
            types.append(type(value))
    elif isinstance(value, (list, tuple)):
        for v in value:
            _collect(v, types)
    return 0


cdef object _override(Call* c, Overload ov):
    """Ask the overriding classes among the arguments, in order; NotImplemented if none answers."""
    cdef int i
    types = []
    for i in range(ov.nslots):
        if ov.slots[i].kind in (K_TENSOR, K_OPERAND, K_TENSORS):
            _collect(<object>c.args[i], types)
    args, kwargs = python_call(c)
    for t in types:
        result = t.__torch_function__(<object>c.op, tuple(types), args, kwargs)
        if result is not NotImplemented:
            return result
    return NotImplemented


def _disable_modes():
    """Suspend this thread's modes; returns what `_restore_modes` needs."""
    cdef ThreadState state = thread_state()
    was = state.level
    state.level = 0
    return was


def _restore_modes(int level):
    cdef ThreadState state = thread_state()
    state.level = max(0, min(level, <int>len(state.modes)))


def current_modes():
    """The active modes of this thread, innermost last."""
    cdef ThreadState state = thread_state()
    return list(state.modes[:state.level])


# Memory ----------------------------------------------------------------------------------

@cython.binding(False)
@cython.final
@cython.no_gc_clear
cdef class _Life:
    """Hangs on a storage and tells its tracker of the storage's end."""
    cdef MemoryTracker tracker
    cdef dim_t nbytes

    def __dealloc__(self):
        self.tracker.current -= self.nbytes

    def resize(self, nbytes):
        self.tracker.grow(nbytes - self.nbytes)
        self.nbytes = nbytes


@cython.binding(False)
cdef class MemoryTracker:
    """Counts the bytes of the storages that this thread makes, from birth to death.

    `current` and `peak` are in bytes, `count` is the number of storages made.
    `on_peak`, a callable without arguments or None, is called whenever a new
    peak has been reached, after the storage was counted.
    """
    cdef readonly dim_t current, peak
    cdef readonly long long count
    cdef public object on_peak
    cdef object _outer
    cdef bint _entered

    def __enter__(self):
        cdef ThreadState state = thread_state()
        if self._entered:
            raise RuntimeError("MemoryTracker: this tracker is active already")
        self._entered = True
        self._outer = state.tracker
        state.tracker = self
        hints.trackers += 1
        return self

    def __exit__(self, *exc):
        cdef ThreadState state = thread_state()
        if state.tracker is not self:
            raise RuntimeError("MemoryTracker: trackers must be left in the order in which they were entered")
        state.tracker = self._outer
        self._outer = None
        self._entered = False
        self.on_peak = None     # it may hold tensors, and these the tracker
        hints.trackers -= 1

    cdef int grow(self, dim_t nbytes) except -1:
        self.current += nbytes
        if self.current > self.peak:
            self.peak = self.current
            if self.on_peak is not None:
                self.on_peak()
        return 0

    def birth(self, Storage s not None):
        """Count a new storage; what is returned counts it out when it is dropped."""
        cdef _Life life = _Life.__new__(_Life)
        life.tracker = self
        life.nbytes = s.size_bytes
        self.count += 1
        self.grow(s.size_bytes)
        return life


forbid_new(_Life)
