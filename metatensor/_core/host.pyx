"""Conversion between nested lists of Python numbers and the bytes of a dtype.

The rules are PyTorch's. A number that does not fit an integer dtype raises
RuntimeError, or ValueError for int64. A negative number wraps around in an
unsigned dtype if its magnitude fits. Fractions are truncated. Floats that are
too large become infinite. In formats without infinity they become NaN, except
in float8_e4m3fn, where they become its largest value.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint64_t
from libc.string cimport memcpy, memset
from metatensor._core.bits cimport (
    SMALL_FN, SMALL_FNUZ, SMALL_IEEE, Small, power_decode, power_encode, small_decode, small_encode,
)
from metatensor._core.dtype cimport (
    BF16, BOOL, C64, C128, F8E4M3FN, F8E5M2, F8E5M2FNUZ, F8E8M0, F16, F32, F64, I8, I16, I32, I64, DType,
    by_code, default_complex, default_float, promote,
)
from metatensor._core.layout cimport count, mul_dims
from metatensor._core.tensor cimport Tensor
from metatensor._core.types cimport KIND_BOOL, KIND_COMPLEX, KIND_FLOAT, KIND_INT, MAX_DIMS, dim_t

from metatensor._core.dtype import dtype_by_name

cdef extern from "Python.h":
    bint PyLong_CheckExact(object o) noexcept
    bint PyFloat_CheckExact(object o) noexcept

cdef Small HALF = Small(16, 10, 15, SMALL_IEEE)


cdef inline Small _small(int code) noexcept:
    if code == F16:
        return HALF
    if code == BF16:
        return Small(16, 7, 127, SMALL_IEEE)
    if code == F8E5M2:
        return Small(8, 2, 15, SMALL_IEEE)
    if code == F8E4M3FN:
        return Small(8, 3, 7, SMALL_FN)
    if code == F8E5M2FNUZ:
        return Small(8, 2, 16, SMALL_FNUZ)
    return Small(8, 3, 8, SMALL_FNUZ)


# One number -----------------------------------------------------------------------------

cdef object _plain(object value):
    """Return `value` as a Python number: a number, a NumPy scalar or a tensor with one element."""
    if isinstance(value, (bool, int, float, complex)):
        return value
    if isinstance(value, Tensor):
        if (<Tensor>value).total != 1:
            raise TypeError("only tensors of one element can be converted to numbers; got shape "
                            f"{tuple(value.shape)}")
        return value.item()
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        return value.item()
    if hasattr(value, "__index__"):
        return value.__index__()
    if hasattr(value, "__float__"):
        return float(value)
    raise TypeError(f"expected a number, got {type(value).__name__}")


cdef object _overflow(object value, DType dtype):
    return RuntimeError(f"the value {value} cannot be converted to {dtype.name} without overflow")


cdef int _write_int(char* to, DType dtype, object value) except -1:
    cdef int64_t v
    cdef uint64_t u
    cdef object reach = 2 ** <object>(8 * dtype.itemsize - dtype.is_signed)     # 2**64 overflows C integers
    if not isinstance(value, int):
        if isinstance(value, complex):
            raise TypeError(f"a complex number cannot be converted to {dtype.name}")
        try:
            value = int(value)
        except (OverflowError, ValueError):
            raise _overflow(value, dtype) from None
    if dtype.is_signed:
        if not -reach <= value < reach:
            if dtype.code != I64:
                raise _overflow(value, dtype)
            raise ValueError(f"the value {value} does not fit in 64 bits")
        v = value
        memcpy(to, &v, dtype.itemsize)      # the supported platforms are little-endian
    else:
        if not -reach < value < reach:
            raise _overflow(value, dtype)
        u = value & (reach - 1)
        memcpy(to, &u, dtype.itemsize)
    return 0


cdef inline void _write_float(char* to, int code, double value) noexcept:
    cdef float single = <float>value
    cdef uint16_t two
    cdef uint8_t one
    if code == F32:
        memcpy(to, &single, 4)
    elif code == F64:
        memcpy(to, &value, 8)
    elif code == F16 or code == BF16:
        two = <uint16_t>small_encode(_small(code), single)
        memcpy(to, &two, 2)
    elif code == F8E8M0:
        one = <uint8_t>power_encode(single)
        memcpy(to, &one, 1)
    else:
        one = <uint8_t>small_encode(_small(code), single)
        memcpy(to, &one, 1)


cdef inline int _part_code(int code) noexcept:
    """Return the code of the float dtype of the real and imaginary parts of a complex dtype."""
    return F64 if code == C128 else F32 if code == C64 else F16


cdef int write_number(char* to, DType dtype, object value) except -1:
    """Write a number to `to` as an element of `dtype`."""
    cdef int code = dtype.code, part
    if dtype.kind == KIND_FLOAT and dtype.itemsize >= 1 and code <= F8E8M0:
        if PyFloat_CheckExact(value):
            _write_float(to, code, <double>value)
            return 0
        value = _plain(value)
        if isinstance(value, complex):
            raise TypeError(f"a complex number cannot be converted to {dtype.name}")
        try:
            _write_float(to, code, <double>float(value))
        except OverflowError:
            raise _overflow(value, dtype) from None
        return 0
    if dtype.kind == KIND_INT:
        return _write_int(to, dtype, value if PyLong_CheckExact(value) else _plain(value))
    if dtype.kind == KIND_BOOL:
        to[0] = 1 if _plain(value) else 0
        return 0
    if dtype.kind == KIND_COMPLEX:
        z = complex(_plain(value))
        part = _part_code(code)
        _write_float(to, part, <double>z.real)
        _write_float(to + dtype.itemsize // 2, part, <double>z.imag)
        return 0
    raise TypeError(f"Python numbers cannot be converted to {dtype.name}")


cdef inline double _read_float(const char* p, int code) noexcept:
    cdef float single
    cdef double value
    cdef uint16_t two
    if code == F32:
        memcpy(&single, p, 4)
        return single
    if code == F64:
        memcpy(&value, p, 8)
        return value
    if code == F16 or code == BF16:
        memcpy(&two, p, 2)
        return small_decode(_small(code), two)
    if code == F8E8M0:
        return power_decode(<uint8_t>p[0])
    return small_decode(_small(code), <uint8_t>p[0])


cdef object read_number(const char* p, DType dtype):
    """Return the element of `dtype` at `p` as a Python number."""
    cdef int code = dtype.code, part
    cdef int64_t v = 0
    cdef uint64_t u = 0
    if dtype.kind == KIND_FLOAT and code <= F8E8M0:
        return _read_float(p, code)
    if dtype.kind == KIND_BOOL:
        return p[0] != 0
    if dtype.kind == KIND_INT:
        if not dtype.is_signed:
            memcpy(&u, p, dtype.itemsize)
            return u
        if code == I8:
            return <int8_t>p[0]
        memcpy(&v, p, dtype.itemsize)
        if code == I16:
            return <int16_t>v
        if code == I32:
            return <int32_t>v
        return v
    if dtype.kind == KIND_COMPLEX:
        part = _part_code(code)
        return complex(_read_float(p, part), _read_float(p + dtype.itemsize // 2, part))
    raise RuntimeError(f"elements of {dtype.name} cannot be converted to Python numbers")


# Nested lists -----------------------------------------------------------------------------

cdef bint is_sequence(object value) except -1:
    """Return True if `value` is a sequence: it has a length and items and is not a str, bytes, dict or Tensor."""
    if type(value) is list or type(value) is tuple:
        return True
    if type(value) is float or type(value) is int:
        return False
    if isinstance(value, (list, tuple)):
        return True
    if isinstance(value, (int, float, complex, str, bytes, dict, set, Tensor)):
        return False
    if hasattr(type(value), "__torch_function__"):
        return False                        # what it overrides decides its length
    if getattr(value, "ndim", 1) == 0:
        return False
    return hasattr(value, "__len__") and hasattr(value, "__getitem__")


cdef object _first(object sequence):
    """Return the first item of a sequence whose length is not 0."""
    try:
        return next(iter(sequence))
    except Exception as error:
        raise ValueError(f"the items of {type(sequence).__name__} cannot be read, so the shape is unknown") from error


cdef int measure(object data, dim_t* sizes) except -1:
    """Write the shape of nested sequences, taken from their first items, to `sizes`.

    Return the number of dimensions.
    """
    cdef int n = 0
    cdef object level = data
    while is_sequence(level):
        if n == MAX_DIMS:
            raise ValueError(f"too many dimensions: sequences are nested more than {MAX_DIMS} deep")
        sizes[n] = len(level)
        n += 1
        if sizes[n - 1] == 0:
            break
        if type(level) is list:
            level = (<list>level)[0]
        else:
            level = _first(level)
    if n and isinstance(level, str):
        raise ValueError(f"too many dimensions: {type(level).__name__!r} is not a number")
    return n


cdef DType _dtype_of(object value):
    if isinstance(value, Tensor):
        return (<Tensor>value).dtype
    if hasattr(value, "dtype"):
        try:
            return dtype_by_name(value.dtype.name)
        except (AttributeError, ValueError):
            raise TypeError(f"values of {value.dtype} cannot be elements of a tensor") from None
    if isinstance(value, bool):
        return by_code(BOOL)
    if isinstance(value, float):
        return default_float()
    if isinstance(value, int):
        return by_code(I64)
    if isinstance(value, complex):
        return default_complex()
    if isinstance(value, (str, bytes)):
        raise TypeError(f"new(): invalid data type {type(value).__name__!r}")
    if hasattr(value, "__index__"):
        return by_code(I64)
    if hasattr(value, "__float__"):
        return default_float()
    raise RuntimeError(f"could not infer a dtype for {type(value).__name__}")


cdef DType _join(DType found, object data, int depth):
    """Return the promotion of `found`, which may be None, with the dtypes of all numbers in `data`."""
    cdef DType d
    cdef object last = None
    if type(data) is not list and type(data) is not tuple and (not is_sequence(data) or hasattr(data, "dtype")):
        d = _dtype_of(data)
        return d if found is None else promote(found, d)
    if depth == MAX_DIMS:
        raise ValueError(f"too many dimensions: sequences are nested more than {MAX_DIMS} deep")
    for item in data:
        if item is data:
            raise TypeError(f"a {type(data).__name__} that contains itself cannot be converted to a tensor")
        # Further items of the same type do not change the dtype.
        if type(item) is last:
            continue
        if type(item) is float:
            d = default_float()
            last = float
        elif type(item) is int:
            d = by_code(I64)
            last = int
        else:
            found = _join(found, item, depth + 1)
            continue
        found = d if found is None else promote(found, d)
    return found


cdef DType infer_dtype(object data):
    """Return the dtype of a tensor made from `data`. For an empty list it is the default dtype."""
    cdef DType d = _join(None, data, 0)
    return default_float() if d is None else d


cdef int _fill(char* to, object data, int ndim, const dim_t* sizes, int d, DType dtype, dim_t step) except -1:
    """Write one level of nested sequences. `step` is the size of an item of this level in bytes."""
    cdef dim_t i = 0
    cdef object item
    if not is_sequence(data):
        raise TypeError(f"not a sequence: expected {sizes[d]} items at dimension {d}, got {type(data).__name__}")
    if <dim_t>len(data) != sizes[d]:
        raise ValueError(f"expected a sequence of length {sizes[d]} at dimension {d}, got {len(data)}")
    if d == ndim - 1:
        for item in data:
            if i == sizes[d]:
                break
            write_number(to + i * step, dtype, item)
            i += 1
    else:
        for item in data:
            if i == sizes[d]:
                break
            _fill(to + i * step, item, ndim, sizes, d + 1, dtype, step // sizes[d + 1] if sizes[d + 1] else 0)
            i += 1
    if i != sizes[d]:
        raise ValueError(f"expected a sequence of length {sizes[d]} at dimension {d}, got {i}")
    return 0


cdef object encode(object data, int ndim, const dim_t* sizes, DType dtype):
    """Return the elements of nested sequences in C order, as bytes. Raise ValueError if the sequences are ragged."""
    cdef dim_t total = mul_dims(count(ndim, sizes), dtype.itemsize)
    cdef object block = PyBytes_FromStringAndSize(NULL, total)
    cdef char* to = PyBytes_AS_STRING(block)
    memset(to, 0, total)
    if ndim == 0:
        write_number(to, dtype, data)
    else:
        _fill(to, data, ndim, sizes, 0, dtype, total // sizes[0] if sizes[0] else 0)
    return block


cdef object decode(const char* source, DType dtype, int ndim, const dim_t* sizes):
    """Return elements in C order as nested lists of Python numbers, or as one number if `ndim` is 0."""
    cdef dim_t i, step
    if ndim == 0:
        return read_number(source, dtype)
    step = mul_dims(count(ndim - 1, sizes + 1), dtype.itemsize)
    out = []
    for i in range(sizes[0]):
        out.append(decode(source + i * step, dtype, ndim - 1, sizes + 1))
    return out


# Python interface, for tests and tools ------------------------------------------------------

def encode_numbers(data, dtype=None):
    """Return (shape, dtype, bytes) of nested lists of numbers. The dtype is inferred if it is None."""
    cdef dim_t sizes[MAX_DIMS]
    cdef int n = measure(data, sizes)
    cdef DType d = infer_dtype(data) if dtype is None else <DType?>dtype
    return tuple([sizes[i] for i in range(n)]), d, encode(data, n, sizes, d)


def decode_numbers(data, dtype, shape):
    """Return bytes in C order as nested lists of Python numbers. Raise ValueError if there are too few or too many."""
    cdef dim_t sizes[MAX_DIMS]
    cdef int n = 0
    cdef bytes block = bytes(data)
    cdef DType d = <DType?>dtype
    for s in shape:
        if n == MAX_DIMS or s < 0:
            raise ValueError(f"invalid shape {tuple(shape)}")
        sizes[n] = s
        n += 1
    if len(block) != mul_dims(count(n, sizes), d.itemsize):
        raise ValueError(f"{tuple(shape)} of {d.name} takes {mul_dims(count(n, sizes), d.itemsize)} bytes, "
                         f"got {len(block)}")
    return decode(PyBytes_AS_STRING(block), d, n, sizes)
