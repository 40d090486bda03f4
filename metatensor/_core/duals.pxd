"""Tangents of tensors, and nodes of aliases."""
from metatensor._core.graph cimport Node
from metatensor._core.op cimport Call, Overload
from metatensor._core.tensor cimport Tensor
from metatensor._core.types cimport T_DUAL


cdef class Stand(Node):
    pass


cdef Stand stand_for(type cls, Tensor t)
cdef list levels_of(Call* c, Overload ov)
cdef bint has_duals(Call* c) except -1      # whether an argument has a tangent at an active level
cdef Tensor tangent_at(Tensor t, object level)
cdef int put_tangent(Tensor t, object level, Tensor tangent) except -1
cdef int attach(Tensor t, object level, Tensor tangent) except -1
cdef Tensor stripped(Tensor t, object level)
cdef bint same_shape(Tensor a, Tensor b) noexcept


cdef inline bint maybe_dual(Tensor t) noexcept:
    """Return whether `t` or its base has or had a tangent."""
    return t.flags & T_DUAL or (t.base is not None and (<Tensor>t.base).flags & T_DUAL)
