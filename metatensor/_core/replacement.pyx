"""The mode that calls a function in place of an operator."""
cimport cython
from metatensor._core.modes cimport REPLACEMENTS, Mode, run_modes
from metatensor._core.op cimport Call, Op
from metatensor._core.overriding cimport python_call


@cython.binding(False)
@cython.final
cdef class Replacement(Mode):
    """Context manager inside which calls of operator `op` in this thread call `function`, with the same arguments.

    The function receives arguments that autocast has cast, and distributed tensors as they are. What it calls, `op` included,
    runs as if this mode were not active.
    """
    cdef readonly Op op
    cdef readonly object function
    _rank = REPLACEMENTS

    def __init__(self, Op op not None, function not None):
        self.op, self.function = op, function

    cdef bint sees(self, Call* c) except -1:
        return <object>c.op is self.op

    cdef object handle(self, Call* c):
        if <object>c.op is not self.op:
            return run_modes(c)
        cdef tuple parts = python_call(c)
        return self.function(*parts[0], **parts[1])
