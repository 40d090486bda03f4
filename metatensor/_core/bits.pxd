"""Conversion between float and the bits of small formats: float16, bfloat16 and the float8 formats."""
from libc.math cimport ldexp
from libc.stdint cimport uint32_t
from libc.string cimport memcpy

# The special values of a format. IEEE: infinities and NaNs as in IEEE 754. FN: one NaN
# per sign and no infinity. FNUZ: a single NaN, in place of negative zero, and no infinity.
cdef enum SmallKind:
    SMALL_IEEE, SMALL_FN, SMALL_FNUZ

cdef struct Small:
    int bits            # total, with sign
    int mantissa
    int bias
    SmallKind kind


cdef inline uint32_t small_encode(Small f, float value) noexcept nogil:
    """Return the bits of the number nearest to `value`, ties to even."""
    cdef uint32_t raw, significand, code, rounded
    cdef uint32_t sign_bit = <uint32_t>1 << (f.bits - 1), top = sign_bit - 1
    cdef uint32_t infinity = top & ~((<uint32_t>1 << f.mantissa) - 1)
    cdef int exponent, least = 1 - f.bias, shift
    memcpy(&raw, &value, 4)
    significand = raw & 0x7FFFFF
    exponent = <int>(raw >> 23 & 0xFF)
    if exponent == 255 and significand:
        if f.kind == SMALL_FNUZ:
            return sign_bit
        # PyTorch returns the quiet NaN of the format with the sign of the value.
        code = top if f.kind == SMALL_FN or f.mantissa == 2 else infinity | <uint32_t>1 << (f.mantissa - 1)
        return code | (sign_bit if raw >> 31 and f.bits == 8 else 0)
    if exponent == 255:
        code = top + 1
    else:
        if exponent:
            significand |= 0x800000
        else:
            exponent = 1
        exponent -= 127
        if exponent < least:
            shift = 23 - f.mantissa + least - exponent
            exponent = least
        else:
            shift = 23 - f.mantissa
        if shift > 25:
            rounded = 0
        else:
            rounded = (significand + (<uint32_t>1 << (shift - 1)) - 1 + (significand >> shift & 1)) >> shift
        # In a normal number, `rounded` includes the implicit leading bit, which adds one to the exponent field.
        code = (<uint32_t>(exponent - least) << f.mantissa) + rounded
        if exponent - least > 1 << (f.bits - 1 - f.mantissa):
            code = top + 1
    if f.kind == SMALL_IEEE:
        if code > infinity:
            code = infinity
    elif f.kind == SMALL_FN:
        if code >= top:
            code = top - 1
    else:
        if code > top:
            return sign_bit
        if code == 0:
            return 0
    return code | (sign_bit if raw >> 31 else 0)


cdef inline double small_decode(Small f, uint32_t code) noexcept nogil:
    """Return the number whose bits are `code`, without rounding."""
    cdef uint32_t sign_bit = <uint32_t>1 << (f.bits - 1), top = sign_bit - 1, magnitude = code & top
    cdef uint32_t infinity = top & ~((<uint32_t>1 << f.mantissa) - 1)
    cdef int exponent = <int>(magnitude >> f.mantissa)
    cdef double value, nan = 0.0
    nan = (nan + 1e308) * 1e308
    nan = nan - nan
    if f.kind == SMALL_FNUZ and code == sign_bit:
        return nan
    if f.kind == SMALL_FN and magnitude == top:
        return nan
    if f.kind == SMALL_IEEE and magnitude >= infinity:
        if magnitude > infinity:
            return nan
        value = 1e308 * 10.0
    elif exponent == 0:
        value = ldexp(<double>magnitude, 1 - f.bias - f.mantissa)
    else:
        value = ldexp(<double>((magnitude & ((<uint32_t>1 << f.mantissa) - 1)) | <uint32_t>1 << f.mantissa),
                      exponent - f.bias - f.mantissa)
    return -value if code & sign_bit else value


cdef inline uint32_t power_encode(float value) noexcept nogil:
    """Return the bits of `value` in float8_e8m0fnu, which has only an exponent. Round to nearest, ties up."""
    cdef uint32_t raw, exponent, rest
    memcpy(&raw, &value, 4)
    exponent = raw >> 23 & 0xFF
    rest = raw & 0x7FFFFF
    if exponent < 255 and (rest > 0x400000 or (rest == 0x400000 and exponent > 0)):
        exponent += 1
    return exponent


cdef inline double power_decode(uint32_t code) noexcept nogil:
    cdef double nan = 1e308
    if code == 255:
        nan = nan * 1e308
        return nan - nan
    return ldexp(1.0, <int>code - 127)
