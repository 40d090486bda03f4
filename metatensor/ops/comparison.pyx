"""Element-wise comparisons, logical operators and bitwise operators, and isin.

Comparisons and logical operators return bool tensors. Their in-place versions cast the result to the tensor's dtype.
"""
from cpython.object cimport PyObject
from metatensor._core.device cimport META
from metatensor._core.dtype cimport BF16, BOOL, F16, by_code, number_kind
from metatensor._core.op cimport (
    ALWAYS_BOOL, EXACT_OUT, FUNCTION_ONLY, INPLACE, NO_GRAD, OUT, PROMOTE, Call, alias_op, arg, call, define, float_arg, hold,
    result_device, set_slot, tensor_arg,
)
from metatensor._core.tensor cimport (
    S_AND, S_EQ, S_GE, S_GT, S_IAND, S_ILSHIFT, S_IOR, S_IRSHIFT, S_IXOR, S_LE, S_LSHIFT, S_LT, S_NE, S_OR,
    S_RSHIFT, S_XOR, Tensor, new_contiguous,
)
from metatensor._core.types cimport KIND_BOOL, KIND_COMPLEX, KIND_FLOAT
from metatensor.ops.pointwise cimport (
    NO_BOOLS, NO_COMPLEX, NO_FLOATS, Operands, binary, canonical_at, elementwise_like, elementwise_result, fail, half_number,
    no_operands, number, operand,
)

cdef long COMPARE = ALWAYS_BOOL | NO_GRAD | INPLACE | OUT
cdef long ORDER = ALWAYS_BOOL | NO_COMPLEX | NO_GRAD | INPLACE | OUT
cdef long BITS = PROMOTE | NO_FLOATS | NO_COMPLEX | INPLACE | OUT


cdef int half_scalar(Call* c, int i) except -1:
    """Round a floating-point tensor without dimensions to the half dtype of the other operand, which has some."""
    cdef Tensor scalar, beside
    if not isinstance(<object>c.args[i], Tensor) or not isinstance(<object>c.args[1 - i], Tensor):
        return 0
    scalar, beside = <Tensor>c.args[i], <Tensor>c.args[1 - i]
    if scalar.ndim == 0 and beside.ndim > 0 and scalar.dtype is not beside.dtype and scalar.dtype.kind == KIND_FLOAT:
        if beside.dtype.code == F16 or beside.dtype.code == BF16:
            rounded = call("to", (scalar, beside.dtype))
            hold(c, rounded)
            c.args[i] = <PyObject*>rounded
    return 0


cdef object compare(Call* c):
    """Compare in the tensor's dtype, so that a float16 tensor that holds 0.1, rounded, equals the number 0.1."""
    if c.device != <PyObject*>META:
        half_number(c, 1)
        half_scalar(c, 0)
        half_scalar(c, 1)
    return binary(c)


cdef object close_to(Call* c):
    cdef Tensor a = tensor_arg(c, 0), b = tensor_arg(c, 1)
    cdef int i
    if a.dtype is not b.dtype:
        fail(c, f"expected tensors of the same dtype, got {a.dtype.name} and {b.dtype.name}")
    for i in (2, 3):
        if not float_arg(c, i) >= 0:
            fail(c, f"{'rtol' if i == 2 else 'atol'} must not be negative, got {float_arg(c, i)}")
    return binary(c)


define("eq(Tensor input, Tensor|Scalar other) -> Tensor", compare, COMPARE, "`input == other`.")
define("ne(Tensor input, Tensor|Scalar other) -> Tensor", compare, COMPARE, "`input != other`.")
define("lt(Tensor input, Tensor|Scalar other) -> Tensor", compare, ORDER,
       "`input < other`. Complex operands are not supported.")
define("le(Tensor input, Tensor|Scalar other) -> Tensor", compare, ORDER,
       "`input <= other`. Complex operands are not supported.")
define("gt(Tensor input, Tensor|Scalar other) -> Tensor", compare, ORDER,
       "`input > other`. Complex operands are not supported.")
define("ge(Tensor input, Tensor|Scalar other) -> Tensor", compare, ORDER,
       "`input >= other`. Complex operands are not supported.")
define("isclose(Tensor input, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor",
       close_to, ALWAYS_BOOL | NO_GRAD,
       "Whether `abs(input - other) <= atol + rtol * abs(other)`. Equal infinities are close. If `equal_nan`, two "
       "NaNs are close too. Both tensors must have the same dtype.")

cdef object logical(Call* c):
    """Call `binary`. On meta, broadcast the operands and replace each by a dense bool tensor first, so that the strides
    of the result match PyTorch's."""
    cdef Tensor t
    cdef Operands o
    if result_device(c) is not META or c.mixed or (canonical_at(c.args[0]) and canonical_at(c.args[1])):
        return binary(c)
    no_operands(&o)
    for t in call("broadcast_tensors", (tensor_arg(c, 0), tensor_arg(c, 1))):
        t = elementwise_like(t, by_code(BOOL), META)
        hold(c, t)
        operand(&o, t)
    return elementwise_result(c, &o, by_code(BOOL))


define("logical_and(Tensor input, Tensor other) -> Tensor", logical, COMPARE, "Whether both elements are nonzero.")
define("logical_or(Tensor input, Tensor other) -> Tensor", logical, COMPARE,
       "Whether at least one of the elements is nonzero.")
define("logical_xor(Tensor input, Tensor other) -> Tensor", logical, COMPARE,
       "Whether exactly one of the elements is nonzero.")

define("bitwise_and(Tensor|Scalar input, Tensor|Scalar other) -> Tensor", binary, BITS,
       "`input & other`, for integers and bools.")
define("bitwise_or(Tensor|Scalar input, Tensor|Scalar other) -> Tensor", binary, BITS,
       "`input | other`, for integers and bools.")
define("bitwise_xor(Tensor|Scalar input, Tensor|Scalar other) -> Tensor", binary, BITS,
       "`input ^ other`, for integers and bools.")
define("bitwise_left_shift(Tensor|Scalar input, Tensor|Scalar other) -> Tensor", binary, BITS | NO_BOOLS,
       "`input << other`, for integers: `input * 2**other`, discarding the bits that overflow.")
define("bitwise_right_shift(Tensor|Scalar input, Tensor|Scalar other) -> Tensor", binary, BITS | NO_BOOLS,
       "`input >> other`, for integers: `floor(input / 2**other)`.")


cdef object isin_meta(Call* c):
    """Arguments: elements, test elements, ... One of these two may be a number. On meta the result has the strides of
    an element-wise result. On other devices it is contiguous."""
    cdef Tensor t
    cdef Operands o
    cdef int i, kind
    for i in range(2):
        kind = tensor_arg(c, i).dtype.kind if isinstance(arg(c, i), Tensor) else number_kind(arg(c, i))
        if kind == KIND_BOOL or kind == KIND_COMPLEX:
            fail(c, f"{'bool values are not supported' if kind == KIND_BOOL else 'complex values are not supported'}")
    if not isinstance(arg(c, 0), Tensor):
        half_number(c, 0)
        return new_contiguous(0, NULL, by_code(BOOL), result_device(c))
    t = tensor_arg(c, 0)
    if result_device(c) is META:
        no_operands(&o)
        operand(&o, t)
        number(&o, True)
        return elementwise_result(c, &o, by_code(BOOL))
    half_number(c, 1)
    return new_contiguous(t.ndim, t.sizes, by_code(BOOL), result_device(c))


cdef str SEARCH = "*, bool assume_unique=False, bool invert=False) -> Tensor"

define(f"isin(Tensor elements, Tensor test_elements, {SEARCH}", isin_meta, FUNCTION_ONLY | OUT | EXACT_OUT | NO_GRAD,
       "Whether each element of `elements` is in `test_elements`. If `invert` is true, whether it is not. Bool and "
       "complex values are not supported.")
define(f"isin.Tensor_Scalar(Tensor elements, Scalar test_element, {SEARCH}", isin_meta, OUT | EXACT_OUT | NO_GRAD)
define(f"isin.Scalar_Tensor(Scalar element, Tensor test_elements, {SEARCH}", isin_meta, OUT | EXACT_OUT | NO_GRAD)


for _name, _target in (("not_equal", "ne"), ("less", "lt"), ("less_equal", "le"), ("greater", "gt"),
                       ("greater_equal", "ge")):
    alias_op(_name, _target)

for _slot, _name in ((S_EQ, "eq"), (S_NE, "ne"), (S_LT, "lt"), (S_LE, "le"), (S_GT, "gt"), (S_GE, "ge"),
                     (S_AND, "bitwise_and"), (S_OR, "bitwise_or"), (S_XOR, "bitwise_xor"),
                     (S_LSHIFT, "bitwise_left_shift"), (S_RSHIFT, "bitwise_right_shift"),
                     (S_IAND, "bitwise_and_"), (S_IOR, "bitwise_or_"), (S_IXOR, "bitwise_xor_"),
                     (S_ILSHIFT, "bitwise_left_shift_"), (S_IRSHIFT, "bitwise_right_shift_")):
    set_slot(_slot, _name)
