from metatensor._core.types cimport DTypeKind

cdef enum:
    U8, I8, I16, I32, I64, F16, F32, F64, C32, C64, C128, BOOL
    QI8, QU8, QI32, BF16, QU4X2, QU2X4
    BITS1X8, BITS2X4, BITS4X2, BITS8, BITS16
    F8E5M2, F8E4M3FN, F8E5M2FNUZ, F8E4M3FNUZ
    U16, U32, U64
    UINT1, UINT2, UINT3, UINT4, UINT5, UINT6, UINT7
    INT1, INT2, INT3, INT4, INT5, INT6, INT7
    F8E8M0, F4E2M1X2
    N_DTYPES


cdef class DType:
    cdef readonly int code          # index in the table, stable within a process
    cdef readonly int itemsize      # bytes of one element
    cdef int kind                   # DTypeKind, the category for type promotion
    cdef readonly str name          # "float32"
    cdef readonly bint is_signed
    cdef str alias                  # "float"


cdef signed char promotion[N_DTYPES][N_DTYPES]   # a dtype code, or -1 if no promotion is defined
cdef DType by_code(int code)
cdef DType default_float()
cdef DType default_complex()
cdef DType promote(DType a, DType b)
cdef DType to_real(DType a)
cdef DType to_complex(DType a)
cdef bint can_cast_to(DType source, DType to) noexcept
cdef DType of_number(object value)
cdef int number_kind(object value) noexcept
