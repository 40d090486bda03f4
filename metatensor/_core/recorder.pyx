"""The per-thread stack of active recorders.

A recorder may be entered by several threads and several times by each, and recorders may be left in any order, as
generators and test fixtures do. Each thread therefore has its own stack. The last entry is the active recorder.
"""
from cpython.object cimport PyObject
from metatensor._core.thread cimport ThreadState, hints, thread_state

cdef dict _entered = {}         # address of a thread state -> (the state, so that it stays alive; its stack)


cdef list _push(ThreadState state, object recorder):
    cdef tuple found = _entered.get(<size_t><PyObject*>state)
    if found is None:
        found = _entered[<size_t><PyObject*>state] = (state, [])
    (<list>found[1]).append(recorder)
    state.recorder = recorder
    return <list>found[1]


cdef bint _pop(ThreadState state, object recorder) except -1:
    """Remove the last entry of `recorder` from the stack. Return False if there is none."""
    cdef tuple found = _entered.get(<size_t><PyObject*>state)
    cdef list stack
    cdef Py_ssize_t i
    if found is None:
        return False
    stack = <list>found[1]
    for i in range(len(stack) - 1, -1, -1):
        if stack[i] is recorder:
            del stack[i]
            break
    else:
        return False
    if stack:
        state.recorder = stack[len(stack) - 1]
    else:
        state.recorder = None
        del _entered[<size_t><PyObject*>state]
    return True


cdef class Recorder:
    """A context manager. Inside, tensors that the thread creates on devices other than meta hold no data.

    If ``everything`` is True, all of them have a recipe. Otherwise only small tensors made from constants do.
    """

    def __init__(self, bint everything=True):
        self.everything = everything

    def __enter__(self):
        _push(thread_state(), self)
        hints.recorders += 1
        return self

    def __exit__(self, *exc):
        if not _pop(thread_state(), self):
            raise RuntimeError(f"{type(self).__name__}: it was exited in a thread that has not entered it")
        hints.recorders -= 1


class suspended:
    """A context manager that suspends recording. Inside, new tensors hold data."""

    def __enter__(self):
        _push(thread_state(), None)

    def __exit__(self, *exc):
        _pop(thread_state(), None)


def current_recorder():
    """Return the active recorder of this thread, or None."""
    return thread_state().recorder
