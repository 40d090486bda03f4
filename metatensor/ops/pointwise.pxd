"""What element-wise ops share, and what other families may use of it: promotion, broadcasting, strides."""
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

cdef int broadcast_result(Call* c, Operands* o, Layout* out) except -1   # sizes and strides
cdef Tensor elementwise_result(Call* c, Operands* o, DType d)
cdef Tensor elementwise_like(Tensor t, DType d, Device device)  # a unary result: sizes of t, its order of strides

# Meta kernels. The dtype rule is the op's flag.
cdef object unary(Call* c)                  # args[0]
cdef object binary(Call* c)                 # args[0] and args[1], each a tensor or a number
cdef int of_numbers(Call* c) except -1      # for two numbers: settles the device, or raises
cdef object pointwise(Call* c)              # all leading tensor (or number) arguments


cdef inline bint canonical_at(PyObject* t) noexcept:
    """Whether a tensor is contiguous, with the row-major stride in dimensions of size 1 too."""
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
