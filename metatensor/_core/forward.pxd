"""Forward mode: calls whose arguments have tangents."""
from metatensor._core.op cimport Call

cdef bint has_duals(Call* c) except -1      # whether an argument has a tangent that counts now
cdef object run_duals(Call* c)
