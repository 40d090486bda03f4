"""Random numbers: factories, in-place fills, and sampling with parameters given as tensors.

Every op takes one ticket, a counter value, from its generator. Each random value depends only on the generator's
seed, the ticket and the index of the element.
"""
import warnings

from cpython.object cimport PyObject
from libc.float cimport DBL_MAX, FLT_MAX
from metatensor._core.dtype cimport (
    BF16, C32, C64, F16, F32, F64, I64, DType, by_code, default_float,
)
from metatensor._core.formats cimport MemoryFormatTag
from metatensor._core.layout cimport Layout, can_broadcast, set_format
from metatensor._core.op cimport (
    COMPOSITE, EXACT_OUT, FUNCTION_ONLY, METHOD_ONLY, NO_GRAD, OUT, QUIET_OUT, RANDOM, SAFE_CAST, Call, arg, bool_arg, call, define,
    dims_arg, dtype_arg, float_arg, hold, int_arg, is_none, op_name, result_device, tensor_arg,
)
from metatensor._core.random cimport take_ticket
from metatensor._core.tensor cimport Tensor, new_contiguous, new_from, new_strided, shape_str
from metatensor._core.types cimport (
    FORMAT_PRESERVE, KIND_BOOL, KIND_COMPLEX, KIND_FLOAT, KIND_INT, MAX_DIMS, T_REQUIRES_GRAD, dim_t,
)
from metatensor.ops.factory cimport option_dtype
from metatensor.ops.pointwise cimport Operands, broadcast_result, elementwise_like, no_operands, shape_operand
from metatensor.ops.spatial cimport dims_str, fail, fail_slot

from metatensor._core.formats import contiguous_format
from metatensor._core.sharding import sharding
from metatensor._core.gradients import gradient


cdef bint is_float(DType d) noexcept:
    return d.code == F32 or d.code == BF16 or d.code == F16 or d.code == F64


cdef int need_floats(Call* c, DType d, bint complexes) except -1:
    """Raise NotImplementedError unless `d` is a supported floating-point dtype or, if `complexes`, a complex dtype."""
    if is_float(d) or (complexes and d.kind == KIND_COMPLEX):
        return 0
    raise NotImplementedError(f"{op_name(c)}(): not implemented for {d.name}")


cdef object MAX_LONG = 9223372036854775807


# Factories ------------------------------------------------------------------------------

cdef Tensor leaf(Call* c, Tensor t, int slot):
    """Return `t`, after setting `requires_grad` if the argument in `slot` is true."""
    if bool_arg(c, slot):
        if t.dtype.kind != KIND_FLOAT and t.dtype.kind != KIND_COMPLEX:
            fail(c, f"only floating-point and complex tensors can require gradients, not {t.dtype.name}")
        t.flags |= T_REQUIRES_GRAD
    return t


cdef Tensor sized(Call* c, int slot, DType dtype):
    """Return a new contiguous tensor of the sizes in an argument."""
    cdef dim_t sizes[MAX_DIMS]
    cdef object value = arg(c, slot)
    cdef int i, n
    if not isinstance(value, (tuple, list)):
        raise TypeError(f"{op_name(c)}(): argument 'size' must be a tuple of ints, not {type(value).__name__}")
    n = dims_arg(c, slot, sizes)
    for i in range(n):
        if sizes[i] < 0:
            fail_slot(c, slot, f"must not hold negative sizes, got {dims_str(n, sizes)}")
    return new_contiguous(n, sizes, dtype, result_device(c))


cdef Tensor like(Call* c, Tensor t, DType dtype, int slot):
    """Return a new tensor of the sizes of `t`, in the stride order of `t` or the memory format in `slot`."""
    cdef dim_t strides[MAX_DIMS]
    cdef int code = FORMAT_PRESERVE if is_none(c, slot) else (<MemoryFormatTag>arg(c, slot)).code
    if code == FORMAT_PRESERVE:
        return elementwise_like(t, dtype, result_device(c))
    set_format(t.ndim, t.sizes, strides, code)
    return new_strided(t.ndim, t.sizes, strides, dtype, result_device(c))


cdef object rand(Call* c):
    cdef DType d = option_dtype(c, 2, default_float())
    need_floats(c, d, True)
    take_ticket(c, 1)
    return leaf(c, sized(c, 0, d), 6)

cdef object rand_like(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef DType d = dtype_arg(c, 2, t.dtype)
    need_floats(c, d, True)
    take_ticket(c, 1)
    return leaf(c, like(c, t, d, 7), 6)


cdef object beyond(DType d):
    """Return n + 1, where n is the largest integer such that `d` holds all integers from 0 to n exactly."""
    cdef object one = 1     # a Python int, because a shift would overflow a C integer
    cdef int code = d.code
    if d.kind == KIND_BOOL:
        return 2
    if d.kind == KIND_INT:
        return one << (8 * d.itemsize - (1 if d.is_signed else 0))
    return (one << (24 if code == F32 else 53 if code == F64 else 11 if code == F16 else 8)) + 1


cdef object largest(DType d):
    """Return the largest finite number of a floating-point dtype."""
    cdef int code = d.code
    if code == F16:
        return 65504
    return DBL_MAX if code == F64 else FLT_MAX if code == F32 else (2 - 2.0 ** -7) * 2.0 ** 127


cdef int need_integers(Call* c, DType d) except -1:
    if d.kind != KIND_INT and d.kind != KIND_BOOL and not is_float(d):
        raise NotImplementedError(f"{op_name(c)}(): not implemented for {d.name}")
    return 0


cdef bint in_range(DType d, object value) except -1:
    """Return whether `d` holds all integers between 0 and `value` exactly."""
    if d.kind == KIND_BOOL:
        return 0 <= value <= 1
    if d.kind == KIND_INT:
        return (-beyond(d) if d.is_signed else 0) <= value < beyond(d)
    return -beyond(d) < value < beyond(d)


cdef bint holds_about(Call* c, DType d, object value) except -1:
    """Return whether `value` is in the range of `d`. Warn if `d` is a float dtype that cannot hold all smaller
    integers."""
    if in_range(d, value):
        return True
    if d.kind == KIND_BOOL or d.kind == KIND_INT or not -largest(d) <= value <= largest(d):
        return False
    warnings.warn(f"{op_name(c)}(): {d.name} does not hold all integers up to {value} exactly, so the samples are "
                  "rounded",
                  stacklevel=2)
    return True


cdef int check_bounds(Call* c, DType d, object low, object high) except -1:
    """Raise RuntimeError unless low < high and `d` has the range of all integers in [low, high)."""
    if d.code == I64 and type(low) is int and type(high) is int and low < high:
        # In this usual case, the only other condition is that both fit into 64 bits.
        if high <= MAX_LONG and low >= -MAX_LONG:
            return 0
    if low >= high:
        fail(c, f"'low' must be less than 'high', got {low} and {high}")
    need_integers(c, d)
    if not holds_about(c, d, low):
        fail(c, f"low={low} is out of the range of {d.name}")
    if not holds_about(c, d, high - 1):
        fail(c, f"high={high} is out of the range of {d.name}")
    return 0


cdef object randint_of(Call* c, object low, object high, int size, int rest):
    """Meta kernel of randint. The slots from `rest` on are generator, dtype, layout, device, pin_memory,
    requires_grad."""
    cdef DType d = option_dtype(c, rest + 1, by_code(I64))
    check_bounds(c, d, low, high)
    take_ticket(c, rest)
    return leaf(c, sized(c, size, d), rest + 5)

cdef object randint(Call* c):
    return randint_of(c, 0, arg(c, 0), 1, 2)

cdef object randint_low(Call* c):
    return randint_of(c, arg(c, 0), arg(c, 1), 2, 3)


cdef object randint_like_of(Call* c, object low, object high, int rest):
    cdef Tensor t = tensor_arg(c, 0)
    cdef DType d = dtype_arg(c, rest + 1, t.dtype)
    check_bounds(c, d, low, high)
    take_ticket(c, rest)
    return leaf(c, like(c, t, d, rest + 6), rest + 5)

cdef object randint_like(Call* c):
    return randint_like_of(c, 0, arg(c, 1), 2)

cdef object randint_like_low(Call* c):
    return randint_like_of(c, arg(c, 1), arg(c, 2), 3)


cdef object randperm(Call* c):
    cdef DType d = option_dtype(c, 2, by_code(I64))
    cdef dim_t n = int_arg(c, 0)
    if n < 0:
        fail_slot(c, 0, f"must not be negative, got {n}")
    if d.kind != KIND_INT and not is_float(d):
        raise NotImplementedError(f"{op_name(c)}(): not implemented for {d.name}")
    if n and not in_range(d, n - 1):
        fail_slot(c, 0, f"is {n}, but {d.name} cannot represent all integers below {n}")
    take_ticket(c, 1)
    return leaf(c, new_contiguous(1, &n, d, result_device(c)), 6)


# Filling a tensor -----------------------------------------------------------------------

cdef object uniform_(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef double low = float_arg(c, 1), high = float_arg(c, 2), top
    need_floats(c, t.dtype, True)
    top = 65504.0 if t.dtype.code in (F16, C32) else 3.4028234663852886e38 if t.dtype.code in (F32, BF16, C64) \
        else 1.7976931348623157e308
    if not low <= high:
        fail(c, f"'from' must not be greater than 'to', got {low} and {high}")
    if not (-top <= low and high <= top and high - low <= top):
        fail(c, f"the range from {low} to {high} is too large for {t.dtype.name}")
    take_ticket(c, 3)
    return t


cdef object normal_(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    if not float_arg(c, 2) >= 0:
        fail_slot(c, 2, f"must not be negative, got {arg(c, 2)}")
    need_floats(c, t.dtype, True)
    take_ticket(c, 3)
    return t


cdef object positive_fill(Call* c, int parameter, int generator):
    """Meta kernel of continuous distributions with one parameter that must be positive."""
    cdef Tensor t = tensor_arg(c, 0)
    if not is_float(t.dtype):
        fail(c, f"the distribution is continuous, but the tensor is {t.dtype.name}")
    if not float_arg(c, parameter) > 0:
        fail_slot(c, parameter, f"must be positive, got {arg(c, parameter)}")
    take_ticket(c, generator)
    return t

cdef object exponential_(Call* c):
    return positive_fill(c, 1, 2)

cdef object cauchy_(Call* c):
    return positive_fill(c, 2, 3)

cdef object log_normal_(Call* c):
    if float_arg(c, 2) > 0 and not is_float(tensor_arg(c, 0).dtype):
        raise NotImplementedError(f"{op_name(c)}(): not implemented for {tensor_arg(c, 0).dtype.name}")
    return positive_fill(c, 2, 3)


cdef object geometric_(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef double p = float_arg(c, 1)
    if t.dtype.kind != KIND_INT and not is_float(t.dtype):
        raise NotImplementedError(f"{op_name(c)}(): not implemented for {t.dtype.name}")
    if not 0 < p < 1:
        fail_slot(c, 1, f"must lie in (0, 1), got {p}")
    take_ticket(c, 2)
    return t


cdef object random_(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    need_integers(c, t.dtype)
    return call("random_", (t, 0, beyond(t.dtype)), {"generator": arg(c, 1)})

cdef int _check_real(Call* c, Tensor t) except -1:
    if t.dtype.kind == KIND_COMPLEX:
        fail(c, f"a range of integers cannot be drawn for {t.dtype.name}")
    return 0

cdef object random_to(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    _check_real(c, t)
    check_bounds(c, t.dtype, 0, arg(c, 1))
    take_ticket(c, 2)
    return t

cdef object random_from(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    _check_real(c, t)
    need_integers(c, t.dtype)
    if is_none(c, 2):
        top = beyond(t.dtype)
        hold(c, top)
        c.args[2] = <PyObject*>top
    check_bounds(c, t.dtype, arg(c, 1), arg(c, 2))
    take_ticket(c, 3)
    return t


cdef int check_probability(Call* c, int slot) except -1:
    cdef double p = float_arg(c, slot)
    if not 0 <= p <= 1:
        fail_slot(c, slot, f"must lie in [0, 1], got {p}")
    return 0


cdef object bernoulli_(Call* c):
    cdef Tensor t = tensor_arg(c, 0), p
    if t.dtype.kind == KIND_COMPLEX or (t.dtype.kind == KIND_FLOAT and not is_float(t.dtype)):
        raise NotImplementedError(f"{op_name(c)}(): not implemented for {t.dtype.name}")
    if isinstance(arg(c, 1), Tensor):
        p = tensor_arg(c, 1)
        need_floats(c, p.dtype, False)
        if not can_broadcast(p.ndim, p.sizes, t.ndim, t.sizes):
            fail(c, f"probabilities of shape {shape_str(p)} do not expand to the tensor's shape {shape_str(t)}")
    else:
        check_probability(c, 1)
    take_ticket(c, 2)
    return t


# Sampling with tensor parameters --------------------------------------------------------------

cdef object bernoulli(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    need_floats(c, t.dtype, False)
    if c.out != NULL and isinstance(<object>c.out, Tensor) and (<Tensor>c.out).dtype.kind >= KIND_COMPLEX:
        raise NotImplementedError(f"{op_name(c)}(): not implemented for {(<Tensor>c.out).dtype.name}")
    take_ticket(c, 1)
    return new_contiguous(t.ndim, t.sizes, t.dtype, result_device(c))

cdef object bernoulli_p(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    if t.dtype.kind == KIND_COMPLEX or (t.dtype.kind == KIND_FLOAT and not is_float(t.dtype)):
        raise NotImplementedError(f"{op_name(c)}(): not implemented for {t.dtype.name}")
    check_probability(c, 1)
    take_ticket(c, 2)
    return new_contiguous(t.ndim, t.sizes, t.dtype, result_device(c))


cdef int check_std(Call* c, int slot) except -1:
    cdef Tensor std
    if not isinstance(arg(c, slot), Tensor):
        if not float_arg(c, slot) >= 0:
            fail_slot(c, slot, f"must not be negative, got {arg(c, slot)}")
        return 0
    std = tensor_arg(c, slot)
    if std.dtype.kind == KIND_COMPLEX:
        fail_slot(c, slot, "must not be complex")
    return need_floats(c, std.dtype, False)

cdef object normal_one(Call* c):
    """Meta kernel of normal if only one of mean and standard deviation is a tensor and the other is a number."""
    cdef Tensor t = tensor_arg(c, 0 if isinstance(arg(c, 0), Tensor) else 1)
    check_std(c, 1)
    need_floats(c, t.dtype, True)
    take_ticket(c, 2)
    return new_contiguous(t.ndim, t.sizes, t.dtype, result_device(c))

cdef object normal_both(Call* c):
    cdef Tensor mean = tensor_arg(c, 0), std = tensor_arg(c, 1)
    cdef Operands o
    cdef Layout lay
    check_std(c, 1)
    need_floats(c, mean.dtype, True)
    no_operands(&o)
    shape_operand(&o, mean)
    shape_operand(&o, std)
    broadcast_result(c, &o, &lay)
    take_ticket(c, 2)
    return new_contiguous(lay.ndim, lay.sizes, mean.dtype, result_device(c))

cdef object normal_sized(Call* c):
    cdef DType d = option_dtype(c, 4, default_float())
    check_std(c, 1)
    need_floats(c, d, True)
    take_ticket(c, 3)
    return leaf(c, sized(c, 2, d), 8)


cdef object multinomial(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t n = int_arg(c, 1), categories
    cdef dim_t sizes[2]
    if t.ndim != 1 and t.ndim != 2:
        fail(c, f"expected probabilities of 1 or 2 dimensions, got shape {shape_str(t)}")
    if not is_float(t.dtype):
        fail(c, f"expected floating-point probabilities, got {t.dtype.name}")
    categories = t.sizes[t.ndim - 1]
    if n <= 0:
        fail_slot(c, 1, f"must be positive, got {n}")
    if not bool_arg(c, 2) and n > categories:
        fail(c, f"cannot draw {n} of {categories} categories without replacement")
    if categories == 0:
        fail(c, f"there are no categories in probabilities of shape {shape_str(t)}")
    take_ticket(c, 3)
    sizes[0] = t.sizes[0]
    sizes[t.ndim - 1] = n
    return new_contiguous(t.ndim, sizes, by_code(I64), result_device(c))


cdef object poisson(Call* c):
    """Meta kernel of `poisson` and `_standard_gamma`: one value per element of the parameter tensor."""
    cdef Tensor t = tensor_arg(c, 0)
    need_floats(c, t.dtype, False)
    take_ticket(c, 1)
    return elementwise_like(t, t.dtype, result_device(c))


cdef object sample_dirichlet(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    need_floats(c, t.dtype, False)
    if t.ndim == 0:
        fail(c, "expected concentrations along the last dimension, got a 0-d tensor")
    take_ticket(c, 1)
    return new_contiguous(t.ndim, t.sizes, t.dtype, result_device(c))


cdef object binomial(Call* c):
    cdef Tensor count = tensor_arg(c, 0), prob = tensor_arg(c, 1)
    cdef Operands o
    cdef Layout lay
    if not is_float(count.dtype) or not is_float(prob.dtype):
        raise ValueError(f"{op_name(c)}(): count and prob must be floating-point, got {count.dtype.name} and "
                         f"{prob.dtype.name}")
    if count.dtype is not prob.dtype:
        fail(c, f"count and prob must have the same dtype, got {count.dtype.name} and {prob.dtype.name}")
    no_operands(&o)
    shape_operand(&o, count)
    shape_operand(&o, prob)
    broadcast_result(c, &o, &lay)
    take_ticket(c, 2)
    return new_from(&lay, count.dtype, result_device(c))


cdef object gumbel_softmax(Call* c):
    """Compute the softmax of the logits plus Gumbel noise. If `hard`, make it one-hot with a straight-through
    gradient."""
    cdef object logits = arg(c, 0), dim = arg(c, 4)
    noise = call("empty_like", (logits,), {"memory_format": contiguous_format})
    call("exponential_", (noise,), {"generator": arg(c, 5)})
    soft = call("softmax", ((logits - noise.log()) / float_arg(c, 1), dim))
    if not bool_arg(c, 2):
        return soft
    chosen = call("zeros_like", (logits,), {"memory_format": contiguous_format})
    chosen = call("scatter", (chosen, dim, call("argmax", (soft, dim, True)), 1.0))
    # The value is one-hot, but the gradient is that of the soft sample.
    return chosen - soft.detach() + soft


cdef str _generator = "generator? generator=None"
cdef str _options = ("dtype? dtype=None, layout? layout=None, device? device=None, bool? pin_memory=False, "
                     "bool? requires_grad=False")
cdef str _format = "memory_format? memory_format=None"

define(f"rand(int[] size, *, {_generator}, {_options}) -> Tensor", rand, FUNCTION_ONLY | RANDOM | OUT | QUIET_OUT,
       "Return a tensor of shape `size` with values from the uniform distribution on [0, 1).")
define(f"randn(int[] size, *, {_generator}, {_options}) -> Tensor", rand, FUNCTION_ONLY | RANDOM | OUT | QUIET_OUT,
       "Return a tensor of shape `size` with values from the standard normal distribution.")
define(f"rand_like(Tensor input, *, {_generator}, {_options}, {_format}) -> Tensor", rand_like,
       FUNCTION_ONLY | RANDOM | NO_GRAD,
       "Return a tensor of the shape of `input` with values from the uniform distribution on [0, 1).")
define(f"randn_like(Tensor input, *, {_generator}, {_options}, {_format}) -> Tensor", rand_like,
       FUNCTION_ONLY | RANDOM | NO_GRAD,
       "Return a tensor of the shape of `input` with values from the standard normal distribution.")
define(f"randint(int high, any size, *, {_generator}, {_options}) -> Tensor", randint, FUNCTION_ONLY | RANDOM | OUT | QUIET_OUT,
       "Return a tensor of shape `size` with uniform integers in [low, high). `low` defaults to 0 and the dtype to "
       "int64.")
define(f"randint.low(int low, int high, any size, *, {_generator}, {_options}) -> Tensor", randint_low,
       FUNCTION_ONLY | RANDOM | OUT | QUIET_OUT)
define(f"randint_like(Tensor input, int high, *, {_generator}, {_options}, {_format}) -> Tensor", randint_like,
       FUNCTION_ONLY | RANDOM | NO_GRAD,
       "Return a tensor of the shape of `input` with uniform integers in [low, high). `low` defaults to 0 and the "
       "dtype to that of `input`.")
define(f"randint_like.low(Tensor input, int low, int high, *, {_generator}, {_options}, {_format}) -> Tensor",
       randint_like_low, FUNCTION_ONLY | RANDOM | NO_GRAD)
define(f"randperm(int n, *, {_generator}, {_options}) -> Tensor", randperm, FUNCTION_ONLY | RANDOM | OUT | QUIET_OUT,
       "Return a random permutation of the integers 0 to n - 1 as a vector. `dtype` defaults to int64.")

define(f"uniform_(Tensor(a!) input, float from=0.0, float to=1.0, *, {_generator}) -> Tensor", uniform_,
       METHOD_ONLY | RANDOM, "Fill in place with values from the uniform distribution on [from, to).")
define(f"normal_(Tensor(a!) input, float mean=0.0, float std=1.0, *, {_generator}) -> Tensor", normal_,
       METHOD_ONLY | RANDOM,
       "Fill in place with values from the normal distribution of mean `mean` and standard deviation `std`.")
define(f"exponential_(Tensor(a!) input, float lambd=1.0, *, {_generator}) -> Tensor", exponential_,
       METHOD_ONLY | RANDOM, "Fill in place with values from the exponential distribution of rate `lambd`.")
define(f"cauchy_(Tensor(a!) input, float median=0.0, float sigma=1.0, *, {_generator}) -> Tensor", cauchy_,
       METHOD_ONLY | RANDOM,
       "Fill in place with values from the Cauchy distribution of median `median` and scale `sigma`.")
define(f"log_normal_(Tensor(a!) input, float mean=1.0, float std=2.0, *, {_generator}) -> Tensor", log_normal_,
       METHOD_ONLY | RANDOM,
       "Fill in place with values from the log-normal distribution. `mean` and `std` are those of the values' "
       "logarithms.")
define(f"geometric_(Tensor(a!) input, float p, *, {_generator}) -> Tensor", geometric_,
       METHOD_ONLY | RANDOM,
       "Fill in place with values from the geometric distribution: the number of trials up to and including the first "
       "success, if each trial succeeds with probability `p` in (0, 1).")
define(f"random_(Tensor(a!) input, *, {_generator}) -> Tensor", random_,
       COMPOSITE | METHOD_ONLY | RANDOM,
       "Fill in place with uniform integers in [from, to). `from` defaults to 0. Without `to`, the largest possible "
       "value is the largest n such that the dtype holds all integers from 0 to n exactly.")
define(f"random_.to(Tensor(a!) input, int to, *, {_generator}) -> Tensor", random_to, RANDOM)
define(f"random_.from(Tensor(a!) input, int from, int? to, *, {_generator}) -> Tensor", random_from, RANDOM)
define(f"bernoulli_(Tensor(a!) input, Tensor|Scalar p=0.5, *, {_generator}) -> Tensor", bernoulli_,
       METHOD_ONLY | RANDOM,
       "Set each element to 1 with probability `p` and to 0 otherwise, in place. `p` is a number, or a tensor that "
       "broadcasts to `input`.")
gradient("bernoulli_", node=lambda p: "BernoulliBackward1" if isinstance(p, Tensor) else "BernoulliBackward2",
         input=lambda grad: grad.new_zeros(grad.shape), p=lambda grad, p_meta: grad.new_zeros(p_meta.shape))

define(f"bernoulli(Tensor input, *, {_generator}) -> Tensor", bernoulli, RANDOM | OUT | QUIET_OUT | SAFE_CAST,
       "Return a tensor of the shape of `input` whose elements are 1 or 0. Each is 1 with probability `p`. If `p` is "
       "not given, the elements of `input` are the probabilities.")
gradient("bernoulli", input=lambda grad: grad.new_zeros(grad.shape))
define(f"bernoulli.p(Tensor input, float p, *, {_generator}) -> Tensor", bernoulli_p, RANDOM)
define(f"normal(Tensor mean, Tensor std, *, {_generator}) -> Tensor", normal_both, FUNCTION_ONLY | RANDOM | OUT,
       "Sample from normal distributions. `mean` and `std` are numbers, or tensors that are broadcast together. If "
       "both are numbers, `size` is the shape of the result.")
gradient("normal", node="NormalBackward3", mean=lambda grad, mean_meta: grad.new_zeros(mean_meta.shape),
         std=lambda grad, std_meta: grad.new_zeros(std_meta.shape))
define(f"normal.Tensor_float(Tensor mean, float std=1.0, *, {_generator}) -> Tensor", normal_one,
       FUNCTION_ONLY | RANDOM | OUT | QUIET_OUT)
gradient("normal.Tensor_float", node="NormalBackward1", mean=lambda grad: grad.new_zeros(grad.shape))
define(f"normal.float_Tensor(float mean, Tensor std, *, {_generator}) -> Tensor", normal_one,
       FUNCTION_ONLY | RANDOM | OUT | QUIET_OUT)
gradient("normal.float_Tensor", node="NormalBackward2", std=lambda grad: grad.new_zeros(grad.shape))
define(f"normal.float_float(float mean, float std, int[] size, *, {_generator}, {_options}) -> Tensor", normal_sized,
       FUNCTION_ONLY | RANDOM | OUT | QUIET_OUT)
define(f"multinomial(Tensor input, int num_samples, bool replacement=False, *, {_generator}) -> Tensor", multinomial,
       RANDOM | OUT | QUIET_OUT | EXACT_OUT,
       "Sample `num_samples` int64 category indices from each row of probabilities, which need not sum to 1. An input "
       "(N, K) gives (N, num_samples), and (K,) gives (num_samples,).")
define("poisson(Tensor input, generator? generator=None) -> Tensor", poisson, FUNCTION_ONLY | RANDOM,
       "Sample from Poisson distributions. Each element of `input` is the rate for one value.")
define("_standard_gamma(Tensor input, generator? generator=None) -> Tensor", poisson, FUNCTION_ONLY | RANDOM,
       "Sample from gamma distributions of rate 1. Each element of `input` is the shape parameter for one value.")
define("_sample_dirichlet(Tensor input, generator? generator=None) -> Tensor", sample_dirichlet, FUNCTION_ONLY | RANDOM,
       "Sample from Dirichlet distributions whose concentration parameters lie along the last dimension.")
define("binomial(Tensor count, Tensor prob, generator? generator=None) -> Tensor", binomial, FUNCTION_ONLY | RANDOM,
       "Sample from binomial distributions: the number of successes in `count` trials of success probability `prob`. "
       "Both are broadcast together and must have the same floating-point dtype.")
define(f"nn.functional.gumbel_softmax(Tensor logits, float tau=1.0, bool hard=False, float eps=1e-10, int dim=-1, *, "
       f"{_generator}) -> Tensor", gumbel_softmax, COMPOSITE | FUNCTION_ONLY | RANDOM,
       "Sample from the categories along `dim` with the Gumbel-softmax trick (Jang et al., 2017), at temperature "
       "`tau`. The sample is soft, or one-hot if `hard` is true. `eps` is ignored.")

# The samples do not depend on the previous values.
for _drawn in ("uniform_", "normal_", "exponential_", "cauchy_", "log_normal_", "geometric_", "poisson"):
    gradient(_drawn, input=lambda grad: grad.new_zeros(grad.shape))
gradient("random_.from", node="RandomBackward0", input=lambda grad: grad.new_zeros(grad.shape))
gradient("random_.to", node="RandomBackward1", input=lambda grad: grad.new_zeros(grad.shape))

# Each element is drawn for itself: see metatensor/distributed/tensor/_random.py.
for _drawn in ("uniform_", "normal_", "exponential_", "cauchy_", "log_normal_", "geometric_", "bernoulli_", "random_", "random_.from",
               "random_.to", "rand_like", "randn_like", "randint_like", "randint_like.low", "bernoulli", "bernoulli.p", "poisson"):
    sharding(_drawn, "cut input -> cat")
