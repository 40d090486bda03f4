"""Backward operators of element-wise functions. They take the gradient of the result and return that of the input."""
from metatensor._core.op cimport FUNCTION_ONLY, KEEP, PROMOTE, Call, define, dim_arg, dtype_arg, result_device, tensor_arg
from metatensor._core.compute cimport same_sizes
from metatensor._core.dtype cimport DType
from metatensor._core.tensor cimport Tensor, new_contiguous, shape_str
from metatensor._core.types cimport KIND_FLOAT, dim_t
from metatensor.ops.pointwise cimport NO_BOOLS, NO_COMPLEX, NO_INTS, binary, elementwise_like, fail, unary
from metatensor._core.gradients import gradient, ops
from metatensor._core.gradients import recorded_as

cdef long FLAGS = PROMOTE | NO_BOOLS | NO_INTS | FUNCTION_ONLY


cdef object like_second(Call* c):
    """Return a contiguous tensor with the sizes of the second argument."""
    cdef Tensor t = tensor_arg(c, 1)
    return new_contiguous(t.ndim, t.sizes, t.dtype, result_device(c))


cdef object softmax_backward(Call* c):
    """Arguments: grad_output, output, dim, input_dtype."""
    cdef Tensor t = tensor_arg(c, 1)
    if not same_sizes(t, tensor_arg(c, 0)):
        fail(c, f"the gradient has shape {shape_str(tensor_arg(c, 0))}, but the result has shape {shape_str(t)}")
    if t.dtype.kind < KIND_FLOAT or tensor_arg(c, 0).dtype is not t.dtype:
        fail(c, f"both tensors must have the same floating-point dtype, got {tensor_arg(c, 0).dtype.name} and {t.dtype.name}")
    dim_arg(c, 2, t.ndim)
    cdef DType d = dtype_arg(c, 3, t.dtype)     # as in PyTorch, it counts only if it is a half-precision dtype
    return new_contiguous(t.ndim, t.sizes, d if d.itemsize == 2 else t.dtype, result_device(c))


for _schema, _doc in (
    ("sigmoid_backward(Tensor grad_output, Tensor output)", "Gradient of `sigmoid`, given its result."),
    ("tanh_backward(Tensor grad_output, Tensor output)", "Gradient of `tanh`, given its result."),
    ("threshold_backward(Tensor grad_output, Tensor input, Scalar threshold)",
     "Gradient of `threshold` and `relu`: 0 where the input is at most `threshold`."),
    ("gelu_backward(Tensor grad_output, Tensor input, *, str approximate='none')", "Gradient of `gelu`."),
    ("silu_backward(Tensor grad_output, Tensor input)", "Gradient of `silu`."),
    ("mish_backward(Tensor grad_output, Tensor input)", "Gradient of `mish`."),
    ("elu_backward(Tensor grad_output, Tensor input, float alpha, float scale, float input_scale)",
     "Gradient of `scale * elu(input)` with `alpha * (exp(input_scale * input) - 1)` for negative inputs."),
    ("leaky_relu_backward(Tensor grad_output, Tensor input, float negative_slope)", "Gradient of `leaky_relu`."),
    ("hardtanh_backward(Tensor grad_output, Tensor input, Scalar min_val, Scalar max_val)", "Gradient of `hardtanh`."),
    ("hardswish_backward(Tensor grad_output, Tensor input)", "Gradient of `hardswish`."),
    ("hardsigmoid_backward(Tensor grad_output, Tensor input)", "Gradient of `hardsigmoid`."),
    ("hardshrink_backward(Tensor grad_output, Tensor input, float lambd)", "Gradient of `hardshrink` and `softshrink`."),
    ("softplus_backward(Tensor grad_output, Tensor input, float beta, float threshold)", "Gradient of `softplus`."),
    ("log_sigmoid_backward(Tensor grad_output, Tensor input)", "Gradient of `logsigmoid`."),
):
    define(f"{_schema} -> Tensor", binary, FLAGS if _schema.startswith(("sigmoid", "tanh", "silu", "mish")) else FLAGS | NO_COMPLEX, _doc)
    if _schema.partition("_backward")[0] not in ("threshold", "hardtanh", "leaky_relu", "hardsigmoid", "hardshrink"):
        recorded_as(_schema.partition("(")[0])
# These are linear in the gradient and constant between the kinks.
gradient("threshold_backward", grad_output=lambda grad, input, threshold: ops.threshold_backward(grad, input, threshold),
         input=lambda grad, input_meta: grad.new_zeros(input_meta.shape))
gradient("hardtanh_backward", grad_output=lambda grad, input, min_val, max_val: ops.hardtanh_backward(grad, input, min_val, max_val),
         input=lambda grad, input_meta: grad.new_zeros(input_meta.shape))
gradient("leaky_relu_backward", grad_output=lambda grad, input, negative_slope: ops.leaky_relu_backward(grad, input, negative_slope),
         input=lambda grad, input_meta: grad.new_zeros(input_meta.shape))
gradient("hardsigmoid_backward", grad_output=lambda grad, input: ops.hardsigmoid_backward(grad, input),
         input=lambda grad, input_meta: grad.new_zeros(input_meta.shape))
gradient("hardshrink_backward", grad_output=lambda grad, input, lambd: ops.hardshrink_backward(grad, input, lambd),
         input=lambda grad, input_meta: grad.new_zeros(input_meta.shape))
define("glu_backward(Tensor grad_output, Tensor input, int dim) -> Tensor", like_second, FUNCTION_ONLY, "Gradient of `glu`.")
recorded_as("glu_backward")
define("_softmax_backward_data(Tensor grad_output, Tensor output, int dim, dtype? input_dtype=None) -> Tensor", softmax_backward,
       FUNCTION_ONLY, "Gradient of `softmax`, given its result.")
gradient("_softmax_backward_data", grad_output=lambda grad, output, dim: ops._softmax_backward_data(grad, output, dim),
         output="activation.softmax_again")
define("_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, dtype? input_dtype=None) -> Tensor", softmax_backward,
       FUNCTION_ONLY, "Gradient of `log_softmax`, given its result.")
gradient("_log_softmax_backward_data", grad_output=lambda grad, output, dim: grad - (grad * output.exp()).sum(dim, True),
         output=lambda grad, grad_output, output, dim: -grad * output.exp() * grad_output.sum(dim, True))


# Forward operators that also return what the gradient needs ------------------------------------------------------

cdef object log_sigmoid_forward(Call* c):
    cdef Tensor out = unary(c)
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t zero = 0
    if result_device(c).type == "cuda":
        return (out, new_contiguous(1, &zero, t.dtype, result_device(c)))
    return (out, elementwise_like(t, t.dtype, result_device(c)))


define("log_sigmoid_forward(Tensor input) -> (Tensor, Tensor)", log_sigmoid_forward, FUNCTION_ONLY | KEEP,
       "`logsigmoid` that also returns `exp(-abs(input))`, except on CUDA devices, where the second tensor is empty.")
gradient("log_sigmoid_forward", node="LogSigmoidBackward0", outputs=(0,),
         input=lambda grad, input, result1: ops.log_sigmoid_backward(grad, input))
recorded_as("nn.functional.logsigmoid", lambda input: ops.log_sigmoid_forward(input)[0])


cdef object noisy(Call* c):
    """Arguments: input, noise, lower, upper, training."""
    return elementwise_like(tensor_arg(c, 0), tensor_arg(c, 0).dtype, result_device(c))


define("_rrelu_with_noise(Tensor input, Tensor noise, float lower, float upper, bool training) -> Tensor", noisy, FUNCTION_ONLY,
       "`rrelu` with given slopes `noise`, which are 1 for positive inputs. Outside training the slope is the mean of `lower` and `upper`.")
gradient("_rrelu_with_noise", node="RreluWithNoiseBackward0",
         input=lambda grad, input, noise, lower, upper, training: grad * noise if training and upper - lower > 1e-6
         else ops.leaky_relu_backward(grad, input, (lower + upper) / 2))
recorded_as("rrelu", "activation.rrelu", written="activation.rrelu_write")
