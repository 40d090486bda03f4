"""Forward-mode differentiation: calls whose arguments have tangents."""
from metatensor._core.op cimport Call

cdef object run_duals(Call* c)
