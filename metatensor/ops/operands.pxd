"""The operands of element-wise ops: what they promote to, and the dtype rules of ops."""
from cpython.object cimport PyObject
from metatensor._core.dtype cimport DType
from metatensor._core.op cimport OPTION_A, OPTION_B, OPTION_C, OPTION_D, Call
from metatensor._core.tensor cimport Tensor
from metatensor._core.types cimport KIND_COMPLEX, dim_t

cdef enum:
    MAX_OPERANDS = 4

# Kinds of dtype that an op does not compute with: NotImplementedError. The
# bits stand in the order of DTypeKind, so that one shift tests them. (Rules
# NO_BOOL and REAL_ONLY refuse too, with RuntimeError, as PyTorch does there.)
cdef enum Refused:
    NO_BOOLS = OPTION_A
    NO_INTS = OPTION_B
    NO_FLOATS = OPTION_C
    NO_COMPLEX = OPTION_D


cdef struct Operands:
    # The dtype codes of what takes part in promotion, by rank; -1 for none.
    int dims                    # tensors with dimensions
    int zeros                   # 0-d tensors
    int numbers                 # Python numbers
    # The tensors, for broadcasting and strides.
    int n
    bint wrapped                # a number stands for a 0-d operand
    int ndims[MAX_OPERANDS]
    const dim_t* sizes[MAX_OPERANDS]
    const dim_t* strides[MAX_OPERANDS]
    int codes[MAX_OPERANDS]     # dtype codes of those that are converted to the common dtype; -1 for others
    int common                  # code of the dtype that `promoted` found; -1 before
    bint contiguous             # all tensors are
    PyObject* first             # the first of them, borrowed; NULL where there is no tensor for it


# Collecting operands. `shape_operand` takes part in broadcasting alone,
# `type_operand` in promotion alone, `operand` and `number` in both.
cdef void no_operands(Operands* o) noexcept
cdef int shape_operand(Operands* o, Tensor t) except -1
cdef int type_operand(Operands* o, Tensor t) except -1
cdef int operand(Operands* o, Tensor t) except -1
cdef int number(Operands* o, object value) except -1
cdef int operand_arg(Operands* o, Call* c, int i) except -1     # a tensor or a number; None is passed over

# What follows from them.
cdef DType promoted(Call* c, Operands* o)                       # PyTorch's promotion
cdef DType ruled(Call* c, DType d)                              # the op's dtype rule on the promoted dtype
cdef DType result_dtype(Call* c, int first, int n)              # both, for arguments first..first+n-1
cdef int half_number(Call* c, int i) except -1                  # before a real device computes with it

cdef int fail(Call* c, str message) except -1                   # RuntimeError
cdef int exact_out(Call* c, DType d) except -1                  # RuntimeError unless out= has this dtype
cdef int refuse(Call* c, DType d) except -1                     # NotImplementedError: no arithmetic for d

cdef inline bint is_refused(long flags, int kind) noexcept:
    """Whether the Refused bits in `flags` hold `kind`; dtypes without arithmetic always are."""
    return kind > KIND_COMPLEX or flags & (<long>OPTION_A << kind) != 0
