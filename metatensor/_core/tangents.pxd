"""Computation of the tangents of a call's results."""
from metatensor._core.op cimport Call, Overload
from metatensor._core.tensor cimport Tensor
from metatensor._core.types cimport KIND_COMPLEX, KIND_FLOAT


cdef class Arguments:
    """The arguments of a call without their tangents at a level, and these tangents by slot."""
    cdef list held, tangents
    cdef bint recorded          # whether the computation of the tangents is to be recorded


cdef object tangents_of(Call* c, Overload ov, object result, Arguments a)


cdef inline bint differentiable(object value) noexcept:
    return isinstance(value, Tensor) and ((<Tensor>value).dtype.kind == KIND_FLOAT or (<Tensor>value).dtype.kind == KIND_COMPLEX)
