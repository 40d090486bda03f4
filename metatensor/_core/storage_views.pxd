from metatensor._core.dtype cimport DType
from metatensor._core.layout cimport Layout
from metatensor._core.storage cimport Storage

cdef int check_bounds(Storage s, DType d, Layout* lay, str op) except -1
