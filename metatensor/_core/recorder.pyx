"""Whether a thread makes tensors without data: the recorders that it has entered.

One recorder may be entered by several threads, several times by each, and be left in any order: generators and fixtures do
that. So each thread has a list of what it entered, of which the last counts.
"""
from cpython.object cimport PyObject
from metatensor._core.thread cimport ThreadState, hints, thread_state

cdef dict _entered = {}         # address of a thread's state: the state, which keeps it that thread's, and its list


cdef list _push(ThreadState state, object recorder):
    cdef tuple found = _entered.get(<size_t><PyObject*>state)
    if found is None:
        found = _entered[<size_t><PyObject*>state] = (state, [])
    (<list>found[1]).append(recorder)
    state.recorder = recorder
    return <list>found[1]


cdef bint _pop(ThreadState state, object recorder) except -1:
    """Take the last entry of a recorder away; False where there is none."""
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
    """A context manager. Inside, what a thread makes on devices other than meta holds no data.

    With ``everything``, all of it has a recipe; else only what is small and made of constants.
    """

    def __init__(self, bint everything=True):
        self.everything = everything

    def __enter__(self):
        _push(thread_state(), self)
        hints.recorders += 1
        return self

    def __exit__(self, *exc):
        if not _pop(thread_state(), self):
            raise RuntimeError(f"{type(self).__name__}: it is left by a thread that has not entered it")
        hints.recorders -= 1


class suspended:
    """A context manager: inside, nothing is recorded and factories make data."""

    def __enter__(self):
        _push(thread_state(), None)

    def __exit__(self, *exc):
        _pop(thread_state(), None)


def current_recorder():
    """The innermost recorder of this thread, or None."""
    return thread_state().recorder
