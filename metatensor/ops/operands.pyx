"""Operands of element-wise ops: type promotion and the dtype rules of ops."""
import struct

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.math cimport INFINITY
from libc.string cimport memcpy
from metatensor._core.device cimport META
from metatensor._core.dtype cimport (
    BF16, BOOL, F16, F32, I64, DType, by_code, can_cast_to, default_complex, default_float, number_kind, promote,
    promotion, to_complex, to_real,
)
from metatensor._core.layout cimport dims_equal
from metatensor._core.op cimport (
    ALWAYS_BOOL, BOOL_TO_LONG, COMPLEX_TO_FLOAT, ELEMENTWISE, FUNCTIONAL, INT_TO_FLOAT, IN_PLACE, INTEGRAL, NO_BOOL, REAL_ONLY,
    RULE_MASK, WITH_OUT, Call, Overload, hold, is_none, op_flags, op_name,
)
from metatensor._core.tensor cimport Tensor, new_strided
from metatensor._core.types cimport KIND_BOOL, KIND_COMPLEX, KIND_FLOAT, KIND_INT, MAX_ARGS, T_CONTIGUOUS, T_RETRIED
from metatensor._core import errors

cdef DType _bool = by_code(BOOL)
cdef DType _long = by_code(I64)


cdef int fail(Call* c, str message) except -1:
    raise RuntimeError(f"{op_name(c)}(): {message}")


cdef int refuse(Call* c, DType d) except -1:
    """Raise NotImplementedError for an unsupported dtype, unless PyTorch would raise another error first.

    PyTorch looks up the kernel for a dtype after all other checks. Therefore this function runs the meta kernel again
    with tensors of another dtype. If that raises, for example because of shapes or dimensions, this error propagates
    instead. So does the error for a result that the target of an in-place call or of ``out=`` cannot hold.
    """
    if c.flags & T_RETRIED:
        raise _Unsupported()
    try:
        _again(c, d, MAX_ARGS)
    except Exception:
        # Indices, targets and lengths may have a dtype of the same kind, without which they are refused.
        if d.kind != KIND_INT or not _passes(c, d):
            raise
    raise NotImplementedError(f"{op_name(c)}(): not implemented for {d.name}")


cdef bint _passes(Call* c, DType d):
    """Return True if the meta kernel accepts the call with another dtype of its first argument."""
    try:
        _again(c, d, 1)
    except Exception:
        return False
    return True


cdef int _again(Call* c, DType d, int changed) except -1:
    """Run the meta kernel with another dtype than `d` for the first ``changed`` arguments. Raise what it raises, except
    the error for an unsupported dtype."""
    cdef DType other = by_code(I64 if d.kind == KIND_FLOAT and d.itemsize > 1 else F32)
    cdef Overload ov = <Overload>c.overload
    cdef Call again
    memcpy(&again, c, sizeof(Call))
    again.keep = again.out = NULL
    again.variant = FUNCTIONAL
    again.device = <PyObject*>META
    again.flags = T_RETRIED
    made = [_retyped(<object>c.args[i], d, other if i < changed else d) for i in range(ov.nslots)]
    for i in range(ov.nslots):
        again.args[i] = <PyObject*>made[i]
    target = <object>c.args[0] if c.variant == IN_PLACE else <object>c.out if c.variant == WITH_OUT else None
    try:
        result = ov.meta(&again) if ov.meta != NULL else None
        if isinstance(result, Tensor) and isinstance(target, Tensor):
            _check_target(c, d, <Tensor>result, <Tensor>target)
    except _Unsupported:
        if c.variant == IN_PLACE and op_flags(c) & ELEMENTWISE and not can_cast_to(d, (<Tensor>target).dtype):
            raise errors.cannot_cast(op_name(c), d, (<Tensor>target).dtype)
    finally:
        if again.keep != NULL:
            Py_DECREF(<object>again.keep)
    return 0


cdef int exact_out(Call* c, DType d) except -1:
    """Raise RuntimeError unless ``out=`` has dtype `d`, for ops that compute directly into it."""
    if c.out != NULL and isinstance(<object>c.out, Tensor) and (<Tensor>c.out).dtype is not d:
        raise errors.cannot_cast(op_name(c), d, (<Tensor>c.out).dtype)
    return 0


class _Unsupported(NotImplementedError):
    """Raised by `refuse` in the repeated call: the op does not support the other dtype either."""


cdef object _retyped(object value, DType d, DType other):
    """Replace each tensor in `value` by a meta tensor. Tensors of the same category as `d` get the dtype `other`."""
    cdef Tensor t
    if isinstance(value, list):
        return [_retyped(v, d, other) for v in value]
    if not isinstance(value, Tensor):
        return value
    t = <Tensor>value
    return new_strided(t.ndim, t.sizes, t.strides, other if t.dtype.kind == d.kind and other is not d else t.dtype, META)


cdef int _check_target(Call* c, DType d, Tensor result, Tensor target) except -1:
    """Raise the error that `finish` would raise for a result of dtype `d` that does not fit `target`."""
    if c.variant == IN_PLACE and not (result.ndim == target.ndim and dims_equal(result.sizes, target.sizes, result.ndim)):
        raise errors.inplace_shape(op_name(c), target, result)
    if op_flags(c) & RULE_MASK == ALWAYS_BOOL:
        d = result.dtype
    if op_flags(c) & ELEMENTWISE and not can_cast_to(d, target.dtype):
        raise errors.cannot_cast(op_name(c), d, target.dtype)
    return 0


# Collecting operands --------------------------------------------------------------

cdef void no_operands(Operands* o) noexcept:
    o.dims = o.zeros = o.numbers = o.common = -1
    o.n = 0
    o.wrapped = False
    o.contiguous = True
    o.first = NULL


cdef int _join(int* rank, int code) except -1:
    """Promote the common dtype of one class of operands (`dims`, `zeros` or `numbers`) with another dtype."""
    cdef int joined
    if rank[0] < 0 or rank[0] == code:
        rank[0] = code
        return 0
    joined = promotion[rank[0]][code]
    if joined < 0:
        promote(by_code(rank[0]), by_code(code))    # raises
    rank[0] = joined
    return 0


cdef int shape_operand(Operands* o, Tensor t) except -1:
    if o.n == 0:
        o.first = <PyObject*>t
    o.ndims[o.n] = t.ndim
    o.sizes[o.n] = t.sizes
    o.strides[o.n] = t.strides
    o.codes[o.n] = -1
    o.n += 1
    if not t.flags & T_CONTIGUOUS:
        o.contiguous = False
    return 0


cdef int type_operand(Operands* o, Tensor t) except -1:
    return _join(&o.dims if t.ndim else &o.zeros, t.dtype.code)


cdef int operand(Operands* o, Tensor t) except -1:
    shape_operand(o, t)
    o.codes[o.n - 1] = t.dtype.code
    return type_operand(o, t)


cdef int float_operand(Operands* o, Tensor t) except -1:
    cdef int code = default_float().code if t.dtype.kind <= KIND_INT else t.dtype.code
    shape_operand(o, t)
    o.codes[o.n - 1] = code
    return _join(&o.dims if t.ndim else &o.zeros, code)


cdef int number(Operands* o, object value) except -1:
    cdef int kind = number_kind(value)
    o.wrapped = True
    if kind == KIND_BOOL:
        return _join(&o.numbers, BOOL)
    if kind == KIND_INT:
        return _join(&o.numbers, I64)
    return _join(&o.numbers, (default_float() if kind == KIND_FLOAT else default_complex()).code)


cdef int operand_arg(Operands* o, Call* c, int i) except -1:
    if isinstance(<object>c.args[i], Tensor):
        return operand(o, <Tensor>c.args[i])
    if is_none(c, i):
        return 0
    return number(o, <object>c.args[i])


# Dtypes ---------------------------------------------------------------------------

cdef DType _over(DType high, int low):
    """Promote `high` with `low`, a dtype of lower priority. `low` has an effect only if its category is higher."""
    cdef DType d
    if low < 0:
        return high
    d = by_code(low)
    if d.kind <= high.kind:
        return high
    if high.kind == KIND_FLOAT:
        return to_complex(high)
    if high.kind <= KIND_INT and d.kind == KIND_COMPLEX:
        return d    # also where `promote` has no entry, as for uint16
    return promote(high, d)


cdef DType _promoted(Operands* o):
    cdef DType d
    if o.numbers < 0 and (o.zeros < 0 or o.dims < 0):
        return by_code(o.dims if o.zeros < 0 else o.zeros)
    if o.zeros >= 0:
        d = _over(by_code(o.zeros), o.numbers)
        return d if o.dims < 0 else _over(by_code(o.dims), d.code)
    if o.dims >= 0:
        return _over(by_code(o.dims), o.numbers)
    return by_code(o.numbers)


cdef DType promoted(Call* c, Operands* o):
    """Return the promoted dtype.

    Within a category, tensors with dimensions take precedence over 0-d tensors, and those over numbers.
    """
    cdef DType d = _promoted(o)
    o.common = d.code
    if d.kind <= KIND_INT and op_flags(c) & RULE_MASK == INT_TO_FLOAT:
        o.common = default_float().code
    return d


cdef DType ruled(Call* c, DType d):
    """Apply the op's dtype rule to `d`, the dtype that its operands promote to, and return the result's dtype."""
    cdef long flags = op_flags(c)
    cdef long rule = flags & RULE_MASK
    if is_refused(flags, d.kind):
        refuse(c, d)
    if rule == INT_TO_FLOAT:
        return default_float() if d.kind <= KIND_INT else d
    if rule == ALWAYS_BOOL:
        return _bool
    if rule == COMPLEX_TO_FLOAT:
        return to_real(d)
    if rule == BOOL_TO_LONG:
        return _long if d.kind == KIND_BOOL else d
    if rule == NO_BOOL and d.kind == KIND_BOOL:
        fail(c, "bool tensors are not supported")
    if rule == REAL_ONLY and d.kind == KIND_COMPLEX:
        fail(c, f"complex tensors are not supported, got {d.name}")
    if rule == INTEGRAL and d.kind > KIND_INT:
        refuse(c, d)
    return d


cdef DType result_dtype(Call* c, int first, int n):
    """Return the result dtype for arguments `first` to `first + n - 1`, each a tensor, a number or None."""
    cdef Operands o
    cdef int i
    no_operands(&o)
    for i in range(first, first + n):
        operand_arg(&o, c, i)
    return ruled(c, promoted(c, &o))


cdef double _to_half(double value, bint ieee) except? -1:
    """Round to the nearest float16 (`ieee`) or bfloat16."""
    cdef unsigned int bits
    if value != value or value == INFINITY or value == -INFINITY:
        return value
    try:
        if ieee:
            return struct.unpack("<e", struct.pack("<e", value))[0]
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
    except OverflowError:
        return INFINITY if value > 0 else -INFINITY
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000u
    return struct.unpack("<f", struct.pack("<I", bits))[0]


cdef int half_number(Call* c, int i) except -1:
    """Round a float argument to the half dtype of the other operand, for kernels that compute in a wider dtype."""
    cdef int code, beside = 1 if i == 0 else 0
    cdef object value
    if isinstance(<object>c.args[i], float) and isinstance(<object>c.args[beside], Tensor):
        code = (<Tensor>c.args[beside]).dtype.code
        if code == F16 or code == BF16:
            value = _to_half(<object>c.args[i], code == F16)
            hold(c, value)
            c.args[i] = <PyObject*>value
    return 0
