"""Activation functions of `nn.functional`; some are also top-level operators and methods of Tensor.

Every function applies element-wise and keeps the shape of `input`, except `glu`, which halves one dimension. The result
has the dtype of `input`, except that `softsign`, `tanhshrink`, `sigmoid` and `tanh` convert integers to the default
floating-point dtype.
"""
from cpython.object cimport PyObject
from metatensor._core.device cimport Device
from metatensor._core.dtype cimport U8
from metatensor._core.layout cimport Layout, copy_dims, is_row_major
from metatensor._core.op cimport (
    COMPOSITE, ELEMENTWISE, EXACT_OUT, FUNCTION_ONLY, INPLACE, INPLACE_ARG, INT_TO_FLOAT, KEEP, OUT, QUIET_OUT, Call,
    alias_op, arg, bool_arg, call, define, dim_arg, float_arg, hold, op_name, tensor_arg,
)
from metatensor._core.tensor cimport Tensor, new_from, shape_str
from metatensor._core.types cimport KIND_BOOL
from metatensor.ops.factory cimport check_fill
from metatensor.ops.pointwise cimport (
    NO_BOOLS, NO_COMPLEX, NO_INTS, Operands, broadcast_result, fail, no_operands, ruled, unary,
)
from metatensor._core.gradient_parts import Bodies
from metatensor._core.gradients import gradient, ops
from metatensor._core.gradients import recorded_as
from metatensor.ops import unary as _unary_family  # no-cython-lint: defines what is aliased here

cdef long FLOATS = KEEP | NO_BOOLS | NO_INTS | NO_COMPLEX
# SWITCH adds the `inplace` argument of nn.functional. BOTH also defines the variant that ends in an underscore.
cdef long SWITCH = INPLACE_ARG | ELEMENTWISE
cdef long BOTH = INPLACE | INPLACE_ARG


# Meta kernels with checks of their own ----------------------------------------------------

cdef object relu(Call* c):
    if tensor_arg(c, 0).dtype.kind == KIND_BOOL:
        fail(c, "bool tensors are not supported")
    return unary(c)


cdef object gelu(Call* c):
    if arg(c, 1) != "none" and arg(c, 1) != "tanh":
        fail(c, f"approximate must be 'none' or 'tanh', got {arg(c, 1)!r}")
    return unary(c)


cdef object celu(Call* c):
    if float_arg(c, 1) == 0:
        fail(c, "alpha must not be 0")
    return unary(c)


cdef object hardtanh(Call* c):
    if tensor_arg(c, 0).dtype.kind == KIND_BOOL:
        fail(c, "bool tensors are not supported")
    if float_arg(c, 1) > float_arg(c, 2):
        raise ValueError(f"{op_name(c)}(): min_val {arg(c, 1)} is greater than max_val {arg(c, 2)}")
    if tensor_arg(c, 0).dtype.code == U8 and float_arg(c, 1) <= -1:
        fail(c, f"a uint8 tensor cannot hold the negative limit {arg(c, 1)}")
    return unary(c)


cdef object softshrink(Call* c):
    if not float_arg(c, 1) >= 0:
        fail(c, f"lambd must not be negative, got {arg(c, 1)}")
    return unary(c)


cdef object threshold(Call* c):
    """Check that the tensor's dtype can hold both numbers, and replace complex numbers by their real parts."""
    cdef object number
    cdef int i
    for i in range(1, 3):
        number = arg(c, i)
        check_fill(c, ruled(c, tensor_arg(c, 0).dtype), number)
        if isinstance(number, complex):
            number = number.real
            hold(c, number)
            c.args[i] = <PyObject*>number
    return unary(c)


cdef object prelu(Call* c):
    """Check that `weight` holds one value, or one for each channel (dimension 1)."""
    cdef Tensor t = tensor_arg(c, 0), weight = tensor_arg(c, 1)
    if weight.dtype is not t.dtype:
        fail(c, f"expected 'weight' to have the dtype {t.dtype.name} of 'input', got {weight.dtype.name}")
    if weight.ndim > 1:
        fail(c, f"expected 'weight' to be 0-d or 1-d, got shape {shape_str(weight)}")
    if weight.total != 1:
        if t.ndim == 0:
            fail(c, f"a 0-d input needs exactly one weight, got {weight.total}")
        if weight.total != (t.sizes[1] if t.ndim > 1 else 1):
            fail(c, f"the input of shape {shape_str(t)} has {t.sizes[1] if t.ndim > 1 else 1} channels, but "
                    f"'weight' has {weight.total} elements")
    return unary(c)


cdef object glu(Call* c):
    """Compute the result's layout as for a binary op whose operands are the two halves of a dimension."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef Operands o
    cdef Layout half, out
    cdef int k, dim
    if t.ndim == 0:
        fail(c, "a 0-d tensor has no dimension to halve")
    dim = dim_arg(c, 1, t.ndim)
    if t.sizes[dim] % 2:
        fail(c, f"dimension {dim} of shape {shape_str(t)} must be even to be halved")
    copy_dims(half.sizes, t.sizes, t.ndim)
    half.sizes[dim] //= 2
    no_operands(&o)
    o.contiguous = is_row_major(t.ndim, half.sizes, t.strides)
    for k in range(2):
        o.ndims[k] = t.ndim
        o.sizes[k] = half.sizes
        o.strides[k] = t.strides
    o.n = 2
    broadcast_result(c, &o, &out)
    return new_from(&out, ruled(c, t.dtype), <Device>c.device)


cdef object rrelu(Call* c):
    """Compute a leaky ReLU with a random slope for each element, or with the mean slope outside training."""
    cdef double lower = float_arg(c, 1), upper = float_arg(c, 2)
    if not lower <= upper:
        fail(c, f"lower ({arg(c, 1)}) must not be greater than upper ({arg(c, 2)})")
    if not bool_arg(c, 3):
        return call("nn.functional.leaky_relu", (arg(c, 0), (lower + upper) / 2))
    slope = call("empty_like", (arg(c, 0),))
    call("uniform_", (slope, lower, upper), {"generator": arg(c, 5)} if arg(c, 5) is not None else None)
    return call("where", (call("ge", (arg(c, 0), 0)), arg(c, 0), call("mul", (arg(c, 0), slope))))


# Rectifiers -------------------------------------------------------------------------------

define("relu(Tensor input) -> Tensor", relu, KEEP | NO_COMPLEX | INPLACE, "Rectified linear unit: `max(input, 0)`.")
define("nn.functional.relu(Tensor input, bool inplace=False) -> Tensor", relu, KEEP | NO_COMPLEX | BOTH,
       "Rectified linear unit: `max(input, 0)`.")
define("nn.functional.relu6(Tensor input, bool inplace=False) -> Tensor", relu, KEEP | NO_COMPLEX | SWITCH,
       "Rectified linear unit bounded by 6: `min(max(input, 0), 6)`.")
define("nn.functional.leaky_relu(Tensor input, float negative_slope=0.01, bool inplace=False) -> Tensor", unary,
       FLOATS | BOTH | OUT, "Leaky ReLU: `input` where it is positive, else `negative_slope * input`.")
define("prelu(Tensor input, Tensor weight) -> Tensor", prelu, FLOATS,
       "Parametric ReLU: `input` where it is positive, else `weight * input`. `weight` holds one value, or one for "
       "each channel (dimension 1).")
alias_op("nn.functional.prelu", "prelu")
define("rrelu(Tensor input, float lower=0.125, float upper=0.3333333333333333, bool training=False, "
       "bool inplace=False, *, generator? generator=None) -> Tensor", rrelu,
       COMPOSITE | FUNCTION_ONLY | BOTH,
       "Randomized leaky ReLU: multiply negative elements by a slope drawn uniformly from [lower, upper]. Outside "
       "training the slope is (lower + upper) / 2.")
alias_op("nn.functional.rrelu", "rrelu")

# Exponential units ------------------------------------------------------------------------

define("nn.functional.elu(Tensor input, float alpha=1.0, bool inplace=False) -> Tensor", unary,
       FLOATS | BOTH | OUT, "Exponential linear unit: `input` where it is positive, else `alpha * (exp(input) - 1)`.")
define("selu(Tensor input, bool inplace=False) -> Tensor", unary, FLOATS | BOTH | FUNCTION_ONLY,
       "Scaled exponential linear unit, with the constants of self-normalizing networks (Klambauer et al., 2017).")
alias_op("nn.functional.selu", "selu")
define("celu(Tensor input, float alpha=1.0, bool inplace=False) -> Tensor", celu, FLOATS | BOTH | FUNCTION_ONLY,
       "Continuously differentiable ELU: `max(input, 0) + min(0, alpha * (exp(input / alpha) - 1))`.")
alias_op("nn.functional.celu", "celu")

# Smooth functions -------------------------------------------------------------------------

define("nn.functional.gelu(Tensor input, *, str approximate='none') -> Tensor", gelu,
       FLOATS | OUT | EXACT_OUT | ELEMENTWISE,
       "Gaussian error linear unit: `input * Phi(input)`, where Phi is the cumulative distribution function of the "
       "standard normal distribution. `approximate='tanh'` computes Phi by its tanh approximation.")
define("nn.functional.silu(Tensor input, bool inplace=False) -> Tensor", unary,
       KEEP | NO_BOOLS | NO_INTS | SWITCH | OUT, "Sigmoid linear unit: `input * sigmoid(input)`.")
define("nn.functional.mish(Tensor input, bool inplace=False) -> Tensor", unary, FLOATS | SWITCH | OUT,
       "Mish activation: `input * tanh(softplus(input))`.")
define("nn.functional.softplus(Tensor input, float beta=1.0, float threshold=20.0) -> Tensor", unary,
       FLOATS | OUT | EXACT_OUT | ELEMENTWISE,
       "Smooth approximation of ReLU: `log(1 + exp(beta * input)) / beta`, or `input` itself where "
       "`beta * input > threshold`.")
define("nn.functional.logsigmoid(Tensor input) -> Tensor", unary, FLOATS | OUT | EXACT_OUT | ELEMENTWISE | QUIET_OUT,
       "Logarithm of the sigmoid, computed without overflow.")
define("nn.functional.softsign(Tensor input) -> Tensor", unary, INT_TO_FLOAT, "Softsign: `input / (1 + abs(input))`.")
define("nn.functional.tanhshrink(Tensor input) -> Tensor", unary, INT_TO_FLOAT, "`input - tanh(input)`.")
define("nn.functional.glu(Tensor input, int dim=-1) -> Tensor", glu, FLOATS | OUT,
       "Gated linear unit: split `input` into halves along `dim` and multiply the first by the sigmoid of the second. "
       "The size of `dim` must be even and is halved.")
alias_op("nn.functional.sigmoid", "sigmoid")
alias_op("nn.functional.tanh", "tanh")

# Piecewise linear functions ---------------------------------------------------------------

define("nn.functional.hardtanh(Tensor input, float min_val=-1.0, float max_val=1.0, bool inplace=False) -> Tensor",
       hardtanh, KEEP | NO_COMPLEX | BOTH | OUT, "Clamp each element to [min_val, max_val].")
define("nn.functional.hardswish(Tensor input, bool inplace=False) -> Tensor", unary, FLOATS | SWITCH | OUT,
       "Piecewise approximation of SiLU: `input * min(max(input + 3, 0), 6) / 6`.")
define("nn.functional.hardsigmoid(Tensor input, bool inplace=False) -> Tensor", unary, FLOATS | SWITCH | OUT,
       "Piecewise linear approximation of the sigmoid: `min(max(input + 3, 0), 6) / 6`.")
define("hardshrink(Tensor input, float lambd=0.5) -> Tensor", unary, FLOATS | OUT | EXACT_OUT | ELEMENTWISE,
       "Set elements with `abs(input) <= lambd` to 0 and keep the others.")
alias_op("nn.functional.hardshrink", "hardshrink")
define("nn.functional.softshrink(Tensor input, float lambd=0.5) -> Tensor", softshrink,
       FLOATS | OUT | EXACT_OUT | ELEMENTWISE,
       "Move each element towards 0 by `lambd`. Elements with `abs(input) <= lambd` become 0.")
define("threshold(Tensor input, Scalar threshold, Scalar value, bool inplace=False) -> Tensor", threshold,
       KEEP | NO_BOOLS | NO_COMPLEX | BOTH | OUT | FUNCTION_ONLY,
       "`input` where it is greater than `threshold`, else `value`.")
alias_op("nn.functional.threshold", "threshold")

# Gradients --------------------------------------------------------------------------------------------

_of = Bodies("activation")

gradient("relu", input=lambda grad, result: ops.threshold_backward(grad, result, 0))
gradient("nn.functional.relu", node="ReluBackward0", input=lambda grad, result: ops.threshold_backward(grad, result, 0))
gradient("nn.functional.relu6", node="HardtanhBackward0", input=lambda grad, input: ops.hardtanh_backward(grad, input, 0.0, 6.0))
gradient("nn.functional.leaky_relu", node="LeakyReluBackward0",
         input=lambda grad, input, negative_slope: ops.leaky_relu_backward(grad, input, negative_slope),
         in_place="LeakyReluBackward1", written={"input": "activation.leaky_relu_of_result"})
gradient("prelu", node="PreluKernelBackward0", joint="activation.prelu", input=True, weight=True)
gradient("nn.functional.elu", node="EluBackward0", input=lambda grad, input, alpha: ops.elu_backward(grad, input, alpha, 1.0, 1.0),
         in_place="EluBackward1", written={"input": lambda grad, result, alpha: _of.elu_of_result(grad, result, alpha, 1.0, 1.0)})
gradient("selu", node="EluBackward0", input=lambda grad, input: ops.elu_backward(grad, input, _SELU_ALPHA, _SELU_SCALE, 1.0),
         in_place="EluBackward1", written={"input": lambda grad, result: _of.elu_of_result(grad, result, _SELU_ALPHA, _SELU_SCALE, 1.0)})
gradient("celu", input=lambda grad, input, alpha: ops.elu_backward(grad, input, alpha, 1.0, 1 / alpha),
         in_place="CeluBackward1", written={"input": lambda grad, result, alpha: _of.elu_of_result(grad, result, alpha, 1.0, 1 / alpha)})
gradient("nn.functional.gelu", node="GeluBackward0",
         input=lambda grad, input, approximate: ops.gelu_backward(grad, input, approximate=approximate))
gradient("nn.functional.silu", node="SiluBackward0", input=lambda grad, input: ops.silu_backward(grad, input))
gradient("nn.functional.mish", node="MishBackward0", input=lambda grad, input: ops.mish_backward(grad, input))
gradient("nn.functional.softplus", node="SoftplusBackward0",
         input=lambda grad, input, beta, threshold: ops.softplus_backward(grad, input, beta, threshold))
gradient("nn.functional.logsigmoid", node="LogSigmoidBackward0", input=lambda grad, input: ops.log_sigmoid_backward(grad, input))
gradient("nn.functional.glu", node="GluBackward0", input=lambda grad, input, dim: ops.glu_backward(grad, input, dim))
gradient("nn.functional.hardtanh", node="HardtanhBackward0",
         input=lambda grad, input, min_val, max_val: ops.hardtanh_backward(grad, input, min_val, max_val))
gradient("nn.functional.hardswish", node="HardswishBackward0", input=lambda grad, input: ops.hardswish_backward(grad, input))
gradient("nn.functional.hardsigmoid", node="HardsigmoidBackward0", input=lambda grad, input: ops.hardsigmoid_backward(grad, input))
gradient("hardshrink", input=lambda grad, input, lambd: ops.hardshrink_backward(grad, input, lambd))
gradient("nn.functional.softshrink", node="SoftshrinkBackward0",
         input=lambda grad, input, lambd: ops.hardshrink_backward(grad, input, lambd))
gradient("threshold", input=lambda grad, input, threshold: ops.threshold_backward(grad, input, threshold))
recorded_as("nn.functional.softsign", "activation.softsign")
recorded_as("nn.functional.tanhshrink", "activation.tanhshrink")
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
