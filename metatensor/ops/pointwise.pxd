"""Promotion, broadcasting and result strides of element-wise ops, for all families that use them."""
from cpython.object cimport PyObject
from metatensor._core.device cimport Device
from metatensor._core.dtype cimport DType
from metatensor._core.layout cimport Layout
from metatensor._core.op cimport Call
from metatensor._core.tensor cimport Tensor
from metatensor._core.types cimport T_CONTIGUOUS, dim_t
from metatensor.ops.operands cimport (
    MAX_OPERANDS, NO_BOOLS, NO_COMPLEX, NO_FLOATS, NO_INTS, Operands, fail, half_number, is_refused, no_operands,
    number, operand, operand_arg, promoted, refuse, result_dtype, ruled, shape_operand, type_operand,
)

cdef int broadcast_result(Call* c, Operands* o, Layout* out) except -1   # sets sizes and strides
cdef Tensor elementwise_result(Call* c, Operands* o, DType d)
cdef Tensor elementwise_like(Tensor t, DType d, Device device)  # a unary result: sizes and stride order of `t`

# Meta kernels. They apply the dtype rule in the op's flags.
cdef object unary(Call* c)                  # args[0]
cdef object binary(Call* c)                 # args[0] and args[1], each a tensor or a number
cdef int of_numbers(Call* c) except -1      # for two numbers: sets the device, or raises TypeError
cdef object pointwise(Call* c)              # all leading tensor (or number) arguments


cdef inline bint canonical_at(PyObject* t) noexcept:
    """Return whether a tensor is contiguous and also has row-major strides in its dimensions of size 1."""
    cdef dim_t step = 1
    cdef int i
    if not (<Tensor>t).flags & T_CONTIGUOUS:
        return False
    for i in range((<Tensor>t).ndim - 1, -1, -1):
        if (<Tensor>t).strides[i] != step:
            return False
        if (<Tensor>t).sizes[i] > 1:
            step *= (<Tensor>t).sizes[i]
    return True

cdef inline bint canonical(Tensor t) noexcept:
    return canonical_at(<PyObject*>t)
