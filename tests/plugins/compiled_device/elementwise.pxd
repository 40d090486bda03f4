"""Iteration over strided tensors in C. Elements of any dtype are read and written as doubles or 64-bit integers."""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t

from metatensor._core.dtype cimport BOOL, F32, F64, I8, I16, I32, I64, U8
from metatensor._core.types cimport MAX_DIMS, dim_t


cdef struct Operand:
    char* at                        # address of a tensor's first element; NULL if the operand is a number
    dim_t steps[MAX_DIMS]           # strides in bytes, 0 in broadcast dimensions
    int code                        # code of the dtype
    bint whole                      # True for integers and bools
    bint single                     # round integers to single precision, because the result is float32
    double number
    int64_t integer


ctypedef double (*Real)(double a, double b, double c) noexcept nogil
ctypedef int64_t (*Whole)(int64_t a, int64_t b, int64_t c) noexcept nogil


cdef inline double load_real(int code, const char* p) noexcept nogil:
    if code == F32:
        return (<float*>p)[0]
    if code == F64:
        return (<double*>p)[0]
    return <double>load_whole(code, p)


cdef inline int64_t load_whole(int code, const char* p) noexcept nogil:
    if code == I64:
        return (<int64_t*>p)[0]
    if code == I32:
        return (<int32_t*>p)[0]
    if code == I16:
        return (<int16_t*>p)[0]
    if code == I8:
        return (<int8_t*>p)[0]
    if code == F32:
        return <int64_t>(<float*>p)[0]
    if code == F64:
        return <int64_t>(<double*>p)[0]
    return (<uint8_t*>p)[0]


cdef inline void store_whole(int code, char* p, int64_t value) noexcept nogil:
    if code == I64:
        (<int64_t*>p)[0] = value
    elif code == I32:
        (<int32_t*>p)[0] = <int32_t>value
    elif code == I16:
        (<int16_t*>p)[0] = <int16_t>value
    elif code == I8:
        (<int8_t*>p)[0] = <int8_t>value
    elif code == U8:
        (<uint8_t*>p)[0] = <uint8_t>value
    elif code == BOOL:
        (<uint8_t*>p)[0] = value != 0
    else:
        store_real(code, p, <double>value)


cdef inline void store_real(int code, char* p, double value) noexcept nogil:
    if code == F32:
        (<float*>p)[0] = <float>value
    elif code == F64:
        (<double*>p)[0] = value
    elif code == BOOL:
        (<uint8_t*>p)[0] = value != 0
    else:
        store_whole(code, p, <int64_t>value)


cdef inline double real_at(const Operand* o, dim_t offset) noexcept nogil:
    cdef double value
    if o.at == NULL:
        return o.number
    value = load_real(o.code, o.at + offset)
    return <float>value if o.single else value


cdef inline int64_t whole_at(const Operand* o, dim_t offset) noexcept nogil:
    return o.integer if o.at == NULL else load_whole(o.code, o.at + offset)


cdef inline void advance(int ndim, const dim_t* sizes, dim_t* index, int n, const Operand* operands, dim_t* offsets) noexcept nogil:
    """Advance the index and the operands' offsets to the next element in C order."""
    cdef int d, k
    for d in range(ndim - 1, -1, -1):
        index[d] += 1
        for k in range(n):
            offsets[k] += operands[k].steps[d]
        if index[d] < sizes[d]:
            return
        index[d] = 0
        for k in range(n):
            offsets[k] -= operands[k].steps[d] * sizes[d]
