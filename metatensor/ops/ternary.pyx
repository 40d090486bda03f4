"""Element-wise ops of three operands: selection, clamping, interpolation and fused arithmetic."""
from cpython.object cimport PyObject
from metatensor._core.device cimport META, Device
from metatensor._core.dtype cimport BOOL, U8, DType, number_kind
from metatensor._core.layout cimport Layout, dims_equal
from metatensor._core.op cimport (
    COMPOSITE, DATA, EXACT_OUT, FUNCTION_ONLY, INPLACE, METHOD_ONLY, ONE_VALUE, OUT, PROMOTE, Call, alias_op, arg, call,
    define, hold, is_none, op_name, tensor_arg,
)
from metatensor._core.slots cimport type_set
from metatensor._core.tensor cimport Tensor, new_contiguous, new_strided, shape_str
from metatensor._core.thread cimport thread_state
from metatensor._core.types cimport KIND_COMPLEX, KIND_INT
from metatensor.ops.factory cimport check_fill
from metatensor.ops.operands cimport exact_out
from metatensor.ops.pointwise cimport (
    NO_BOOLS, NO_COMPLEX, NO_INTS, Operands, broadcast_result, canonical_at, elementwise_like, elementwise_result, fail,
    no_operands, operand, operand_arg, promoted, ruled, shape_operand, unary,
)

from metatensor._core.errors import data_dependent
from metatensor._core.gradient_parts import conj
from metatensor._core.gradients import gradient, ops


# Parts of gradients ---------------------------------------------------------------------------------

def _inside(input, min, max):
    """Return a mask of the elements that are within the bounds, which may be None."""
    if min is None:
        return input <= max
    return input >= min if max is None else (input >= min) & (input <= max)


def _under(input, min, max):
    """Return a mask of the elements that are replaced by the lower bound."""
    return input < min if max is None else (input < min) & (min < max)


def _over(input, min, max):
    """Return a mask of the elements that are replaced by the upper bound."""
    return input > max if min is None else (input > max) | (max < min)


cdef long BOTH = INPLACE | OUT
cdef long ORDERED = PROMOTE | NO_BOOLS | NO_COMPLEX | INPLACE | OUT


# Selection --------------------------------------------------------------------------------

cdef int _choice(Operands* o, Call* c, int i) except -1:
    """Add argument `i`, a tensor or a number, to the operands.

    On meta, PyTorch converts a number to a 0-d tensor, which affects the order of the result's strides.
    """
    operand_arg(o, c, i)
    if c.device == <PyObject*>META and not isinstance(<object>c.args[i], Tensor):
        o.ndims[o.n] = 0
        o.sizes[o.n] = o.strides[o.n] = NULL
        o.codes[o.n] = -1
        o.n += 1
    return 0


cdef object where(Call* c):
    """Promote the dtypes of the two choices only. Broadcast all three operands."""
    cdef Operands o
    cdef Tensor condition = tensor_arg(c, 0)
    if condition.dtype.code != BOOL and condition.dtype.code != U8:
        fail(c, f"argument 'condition' must be a bool tensor, got {condition.dtype.name}")
    no_operands(&o)
    shape_operand(&o, condition)
    _choice(&o, c, 1)
    _choice(&o, c, 2)
    return elementwise_result(c, &o, promoted(c, &o))


cdef object where_indices(Call* c):
    """Raise DataDependentError on meta, because the number of true elements depends on data."""
    if c.device == <PyObject*>META:
        raise data_dependent(op_name(c), META, (<object>c.args[0]).shape)
    return None


cdef object where_method(Call* c):
    """Call `where` with the first two arguments swapped, because the method is called on `input`."""
    return call("where", (arg(c, 1), arg(c, 0), arg(c, 2)))


cdef int _real_value(Call* c, Tensor t, Tensor value) except -1:
    """Replace a complex `value` by a real number, because `t` is not complex. The imaginary part must be 0."""
    cdef object number
    if value.storage.data is None:
        fail(c, f"a complex value cannot be stored in a {t.dtype.name} tensor")
    number = value.item()
    check_fill(c, t.dtype, number)
    number = number != 0 if t.dtype.code == BOOL else number.real
    hold(c, number)
    c.args[2] = <PyObject*>number
    return 0


cdef object masked_fill(Call* c):
    """Return a contiguous result, because PyTorch fills a contiguous copy of the broadcast input."""
    cdef Operands o
    cdef Layout out
    cdef Tensor t = tensor_arg(c, 0), mask = tensor_arg(c, 1), value
    if mask.dtype.code != BOOL:
        fail(c, f"argument 'mask' must be a bool tensor, got {mask.dtype.name}")
    if isinstance(arg(c, 2), Tensor):
        value = tensor_arg(c, 2)
        if value.ndim:
            fail(c, f"argument 'value' must be a number or a 0-d tensor, got shape {shape_str(value)}")
        if value.dtype.kind == KIND_COMPLEX and t.dtype.kind != KIND_COMPLEX:
            _real_value(c, t, value)
    else:
        check_fill(c, t.dtype, arg(c, 2))
    no_operands(&o)
    shape_operand(&o, t)
    shape_operand(&o, mask)
    broadcast_result(c, &o, &out)
    return new_contiguous(out.ndim, out.sizes, t.dtype, <Device>c.device)


# Clamping ---------------------------------------------------------------------------------

cdef inline bint _below(Call* c, int i) noexcept:
    """Return whether a bound is None, or a number of the same or a lower category than the input."""
    if is_none(c, i):
        return True
    return not isinstance(<object>c.args[i], Tensor) \
        and number_kind(<object>c.args[i]) <= (<Tensor>c.args[0]).dtype.kind


cdef bint _plain(Operands* o) noexcept:
    """Return whether the three operands are contiguous and have the same shape."""
    return o.contiguous and canonical_at(o.first) and o.ndims[1] == o.ndims[0] and o.ndims[2] == o.ndims[0] \
        and dims_equal(o.sizes[1], o.sizes[0], o.ndims[0]) and dims_equal(o.sizes[2], o.sizes[0], o.ndims[0])


cdef object _bounded(object x, object bound, str within):
    """Apply one bound of clamp() as PyTorch's meta kernel does: keep `x` where it is within the bound or NaN."""
    return call("where", (call("bitwise_or", (call(within, (x, bound)), call("isnan", (x,)))), x, bound))


cdef int _check_bounds(Call* c, Tensor result, int last) except -1:
    """Raise RuntimeError for bounds that the result's dtype cannot hold. On meta PyTorch does not check them."""
    cdef int i
    if c.device == <PyObject*>META:
        return 0
    for i in range(1, last + 1):
        if not is_none(c, i) and not isinstance(<object>c.args[i], Tensor):
            check_fill(c, result.dtype, arg(c, i))
    return 0


cdef object clamp(Call* c):
    cdef Tensor result = _clamped(c)
    if not isinstance(arg(c, 1), Tensor) and not isinstance(arg(c, 2), Tensor):
        exact_out(c, result.dtype)
    _check_bounds(c, result, 2)
    return result


cdef Tensor _clamped(Call* c):
    """Compute the result of clamp. If all bounds are numbers, its layout depends only on the input."""
    cdef Operands o
    cdef DType d
    cdef Tensor like
    cdef bint grad_enabled
    cdef int i
    if is_none(c, 1) and is_none(c, 2):
        fail(c, "at least one of 'min' and 'max' must be given")
    if _below(c, 1) and _below(c, 2):
        return unary(c)
    no_operands(&o)
    for i in range(3):
        operand_arg(&o, c, i)
    d = ruled(c, promoted(c, &o))
    if o.n == 1:
        return elementwise_like(tensor_arg(c, 0), d, <Device>c.device)
    o.wrapped = False
    if o.n == 3 and c.device == <PyObject*>META and not _plain(&o):
        grad_enabled = thread_state().grad_enabled
        thread_state().grad_enabled = False
        like = <Tensor>_bounded(_bounded(arg(c, 0), arg(c, 1), "ge"), arg(c, 2), "le")
        thread_state().grad_enabled = grad_enabled
        return new_strided(like.ndim, like.sizes, like.strides, d, <Device>c.device)
    return elementwise_result(c, &o, d)


cdef object clamp_one(Call* c):
    cdef Tensor result = _clamped_once(c)
    if not isinstance(arg(c, 1), Tensor):
        exact_out(c, result.dtype)
    _check_bounds(c, result, 1)
    return result


cdef Tensor _clamped_once(Call* c):
    cdef Operands o
    cdef DType d
    if _below(c, 1):
        return unary(c)
    no_operands(&o)
    operand_arg(&o, c, 0)
    operand_arg(&o, c, 1)
    d = ruled(c, promoted(c, &o))
    if o.n == 1:
        return elementwise_like(tensor_arg(c, 0), d, <Device>c.device)
    return elementwise_result(c, &o, d)


# Arithmetic -------------------------------------------------------------------------------

cdef object lerp(Call* c):
    """Compute the result without type promotion. Only a 0-d weight may have another dtype."""
    cdef Operands o
    cdef Tensor a = tensor_arg(c, 0), b = tensor_arg(c, 1), weight
    if a.dtype is not b.dtype:
        fail(c, f"expected 'end' to have the dtype {a.dtype.name} of 'input', got {b.dtype.name}")
    no_operands(&o)
    operand(&o, a)
    operand(&o, b)
    if isinstance(arg(c, 2), Tensor):
        weight = tensor_arg(c, 2)
        if weight.ndim and weight.dtype is not a.dtype:
            fail(c, f"expected 'weight' to have the dtype {a.dtype.name} of 'input', got {weight.dtype.name}")
        shape_operand(&o, weight)
        exact_out(c, a.dtype)
    elif number_kind(arg(c, 2)) == KIND_COMPLEX and a.dtype.kind != KIND_COMPLEX:
        fail(c, f"the complex weight {arg(c, 2)} cannot be used with {a.dtype.name} tensors")
    return elementwise_result(c, &o, ruled(c, a.dtype))


cdef object fused(Call* c):
    cdef Operands o
    cdef DType d
    cdef int i
    no_operands(&o)
    for i in range(3):
        operand(&o, tensor_arg(c, i))
    d = ruled(c, promoted(c, &o))
    if number_kind(arg(c, 3)) == KIND_COMPLEX and d.kind != KIND_COMPLEX:
        fail(c, f"the complex value {arg(c, 3)} cannot be used with {d.name} tensors")
    return elementwise_result(c, &o, d)


cdef object fused_divide(Call* c):
    if tensor_arg(c, 1).dtype.kind <= KIND_INT and tensor_arg(c, 2).dtype.kind <= KIND_INT:
        fail(c, "division of two integer tensors is not supported; convert one of them to a float dtype first")
    return fused(c)


define("where(Tensor condition, Tensor|Scalar input, Tensor|Scalar other) -> Tensor", where,
       PROMOTE | FUNCTION_ONLY | OUT | EXACT_OUT,
       "Select `input` where the bool condition is true, else `other`. The three are broadcast together. With "
       "`condition` alone, return the indices of its true elements, as one vector per dimension.")
gradient("where", linear="input+other",
         input=lambda grad, condition: ops.where(condition, grad, 0), other=lambda grad, condition: ops.where(condition, 0, grad))
define("where.indices(Tensor condition) -> Tensor[]", where_indices, DATA | FUNCTION_ONLY)
define("_where(Tensor input, Tensor condition, Tensor|Scalar other) -> Tensor", where_method,
       COMPOSITE | METHOD_ONLY, "Select `input` where the bool condition is true, else `other`.")
type_set(Tensor, "where", Tensor._where)
define("masked_fill(Tensor input, Tensor mask, Tensor|Scalar value) -> Tensor", masked_fill, INPLACE | ONE_VALUE,
       "Replace the elements where the bool mask is true by `value`, a number or 0-d tensor. `input` and `mask` "
       "are broadcast together.")
gradient("masked_fill", node=lambda value: "MaskedFillBackward1" if isinstance(value, Tensor) else "MaskedFillBackward0",
         input=lambda grad, mask: grad.masked_fill(mask, 0), value=lambda grad, mask: ops.where(mask, grad, 0).sum())

define("clamp(Tensor input, Tensor|Scalar? min=None, Tensor|Scalar? max=None) -> Tensor", clamp, ORDERED,
       "Limit each element to the range [min, max]. Either bound may be None. NaN stays NaN. If min > max, all "
       "elements become max.")
gradient("clamp", node=lambda min, max: "ClampBackward0" if isinstance(min, Tensor) or isinstance(max, Tensor) else "ClampBackward1",
         input=lambda grad, input, min, max: ops.where(_inside(input, min, max), grad, 0),
         min=lambda grad, input, min, max: None if min is None else ops.where(_under(input, min, max), grad, 0),
         max=lambda grad, input, min, max: None if max is None else ops.where(_over(input, min, max), grad, 0))
define("clamp_min(Tensor input, Tensor|Scalar min) -> Tensor", clamp_one, PROMOTE | NO_COMPLEX | BOTH,
       "The larger of each element and `min`.")
gradient("clamp_min", node=lambda min: "ClampMinBackward1" if isinstance(min, Tensor) else "ClampMinBackward0",
         input=lambda grad, input, min: ops.where(input >= min, grad, 0), min=lambda grad, input, min: ops.where(input < min, grad, 0))
define("clamp_max(Tensor input, Tensor|Scalar max) -> Tensor", clamp_one, PROMOTE | NO_COMPLEX | BOTH,
       "The smaller of each element and `max`.")
gradient("clamp_max", node=lambda max: "ClampMaxBackward1" if isinstance(max, Tensor) else "ClampMaxBackward0",
         input=lambda grad, input, max: ops.where(input <= max, grad, 0), max=lambda grad, input, max: ops.where(input > max, grad, 0))
alias_op("clip", "clamp")

define("lerp(Tensor input, Tensor end, Tensor|Scalar weight) -> Tensor", lerp, PROMOTE | NO_BOOLS | NO_INTS | BOTH,
       "Linear interpolation `input + weight * (end - input)`. The tensors must have the same dtype, except for a 0-d "
       "weight.")
gradient("lerp", node=lambda weight: "LerpBackward1" if isinstance(weight, Tensor) else "LerpBackward0",
         input=lambda grad, weight: grad * (1 - conj(weight)), end=lambda grad, weight: grad * conj(weight),
         weight=lambda grad, input, end: grad * conj(end - input))
define("addcmul(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", fused,
       PROMOTE | NO_BOOLS | BOTH, "`input + value * tensor1 * tensor2`.")
gradient("addcmul", input=lambda grad: grad, tensor1=lambda grad, tensor2, value: grad * conj(tensor2 * value),
         tensor2=lambda grad, tensor1, value: grad * conj(tensor1 * value))
define("addcdiv(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", fused_divide,
       PROMOTE | BOTH,
       "`input + value * tensor1 / tensor2`. `tensor1` and `tensor2` must not both be integer or bool tensors.")
gradient("addcdiv", input=lambda grad: grad, tensor1=lambda grad, tensor2, value: grad * conj(value / tensor2),
         tensor2=lambda grad, tensor1, tensor2, value: -grad * conj((tensor1 * value) / (tensor2 * tensor2)))
