"""Operands of element-wise ops: type promotion and the dtype rules of ops."""
from cpython.object cimport PyObject
from metatensor._core.dtype cimport DType
from metatensor._core.op cimport OPTION_A, OPTION_B, OPTION_C, OPTION_D, Call
from metatensor._core.tensor cimport Tensor
from metatensor._core.types cimport KIND_COMPLEX, dim_t

cdef enum:
    MAX_OPERANDS = 4

# Kinds of dtype for which an op raises NotImplementedError. The bits are in the
# order of DTypeKind, so that one shift tests them. (The rules NO_BOOL and
# REAL_ONLY also reject dtypes, but with RuntimeError, as PyTorch does.)
cdef enum Refused:
    NO_BOOLS = OPTION_A
    NO_INTS = OPTION_B
    NO_FLOATS = OPTION_C
    NO_COMPLEX = OPTION_D


cdef struct Operands:
    # Promotion distinguishes three classes of operands. Each field holds the dtype
    # code that the operands of a class promote to, or -1 if there are none.
    int dims                    # tensors with dimensions
    int zeros                   # 0-d tensors
    int numbers                 # Python numbers
    # The `n` tensors, for broadcasting and strides.
    int n
    bint wrapped                # there are Python numbers, which act as 0-d operands
    int ndims[MAX_OPERANDS]
    const dim_t* sizes[MAX_OPERANDS]
    const dim_t* strides[MAX_OPERANDS]
    int codes[MAX_OPERANDS]     # their dtype codes, or -1 for tensors that are not converted
    int common                  # dtype code that the operands are converted to, set by `promoted`, or -1 before
    bint contiguous             # all tensors are contiguous
    PyObject* first             # the first tensor (borrowed), or NULL if its layout must not be used


# Collecting operands. `shape_operand` adds a tensor for broadcasting only,
# `type_operand` for promotion only. `operand` and `number` do both.
cdef void no_operands(Operands* o) noexcept
cdef int shape_operand(Operands* o, Tensor t) except -1
cdef int type_operand(Operands* o, Tensor t) except -1
cdef int operand(Operands* o, Tensor t) except -1
cdef int float_operand(Operands* o, Tensor t) except -1         # integers and bools count as the default float dtype
cdef int number(Operands* o, object value) except -1
cdef int operand_arg(Operands* o, Call* c, int i) except -1     # a tensor or a number; None is skipped

# Deriving result dtypes from the operands.
cdef DType promoted(Call* c, Operands* o)                       # the promoted dtype of the operands, as in PyTorch
cdef DType ruled(Call* c, DType d)                              # the result's dtype for the promoted dtype `d`
cdef DType result_dtype(Call* c, int first, int n)              # `ruled` of `promoted` for arguments first to first+n-1
cdef int half_number(Call* c, int i) except -1                  # round a number to the other operand's half dtype

cdef int fail(Call* c, str message) except -1                   # raise RuntimeError
cdef int exact_out(Call* c, DType d) except -1                  # raise RuntimeError unless out= has dtype `d`
cdef int refuse(Call* c, DType d) except -1                     # raise NotImplementedError: the op does not support `d`

cdef inline bint is_refused(long flags, int kind) noexcept:
    """Return whether the Refused bits in `flags` include `kind`. Kinds beyond complex are always refused."""
    return kind > KIND_COMPLEX or flags & (<long>OPTION_A << kind) != 0
