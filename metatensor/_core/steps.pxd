"""Operators that are recorded as other operators."""
from metatensor._core.op cimport Call, Overload

cdef object run_steps(Call* c, Overload ov)
