"""Backward operators of normalization layers.

They return a tuple with the gradients of input, weight and bias. Those that `output_mask` does not select are None.
"""
from metatensor._core.device cimport META, Device
from metatensor._core.dtype cimport DType
from metatensor._core.memory cimport Scope, pause_tracking, resume_tracking
from metatensor._core.op cimport FUNCTION_ONLY, Call, arg, bool_arg, define, int_arg, is_none, result_device, tensor_arg
from metatensor._core.tensor cimport Tensor, new_contiguous
from metatensor._core.types cimport dim_t
from metatensor.ops.batch_norm cimport channels_of, check_batch_norm, normalized_like
from metatensor.ops.pointwise cimport elementwise_like
from metatensor.ops.normalization cimport statistics_dtype
from metatensor._core.gradients import gradient
from metatensor._core.gradients import recorded_as


cdef Tensor fresh(Call* c, Tensor t):
    return elementwise_like(t, t.dtype, result_device(c))


cdef Tensor parameter(Call* c, int slot, DType dtype, dim_t n):
    return new_contiguous(1, &n, dtype if is_none(c, slot) else tensor_arg(c, slot).dtype, result_device(c))


cdef object three(object mask):
    if len(mask) != 3:
        raise RuntimeError(f"output_mask must have 3 values, got {mask}")
    return mask


cdef object layer_norm_backward(Call* c):
    """Arguments: grad_out, input, normalized_shape, mean, rstd, weight, bias, eps, output_mask."""
    cdef Tensor t = tensor_arg(c, 1)
    mask = three(arg(c, 8))
    if mask[1] and is_none(c, 5) or mask[2] and is_none(c, 6):
        raise RuntimeError("native_layer_norm_backward(): output_mask selects the gradient of a weight or bias that is None")
    return (fresh(c, t) if mask[0] else None, fresh(c, tensor_arg(c, 5)) if mask[1] else None,
            fresh(c, tensor_arg(c, 6)) if mask[2] else None)


cdef object group_norm_backward(Call* c):
    """Arguments: grad_out, input, mean, rstd, weight, N, C, HxW, group, eps, output_mask."""
    cdef Tensor t = tensor_arg(c, 1)
    cdef dim_t n = int_arg(c, 6)
    mask = three(arg(c, 10))
    return (fresh(c, t) if mask[0] else None, parameter(c, 4, t.dtype, n) if mask[1] else None,
            parameter(c, 4, t.dtype, n) if mask[2] else None)


cdef object batch_norm_backward(Call* c):
    """Arguments: grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask."""
    cdef Tensor t = tensor_arg(c, 1)
    cdef dim_t n = t.sizes[1] if t.ndim > 1 else 0
    mask = three(arg(c, 9))
    return (fresh(c, t) if mask[0] else None, parameter(c, 2, t.dtype, n) if mask[1] else None,
            parameter(c, 2, t.dtype, n) if mask[2] else None)


cdef object batch_norm_forward(Call* c):
    """Arguments: input, running_mean, running_var, weight, bias, training, momentum, eps."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t n = channels_of(t) if bool_arg(c, 5) or result_device(c) is META else 0
    cdef DType kept
    cdef Scope scope
    cdef Device device = result_device(c)
    check_batch_norm(c, t, -1 if is_none(c, 1) else 1, 3)
    kept = statistics_dtype(c, t, 3, 1)
    if not bool_arg(c, 5):
        return (normalized_like(c, t), new_contiguous(1, &n, kept, device), new_contiguous(1, &n, kept, device), None, None)
    made = (normalized_like(c, t), new_contiguous(1, &n, kept, device), new_contiguous(1, &n, kept, device))
    if device is not META:
        return made + (None if is_none(c, 1) else fresh(c, tensor_arg(c, 1)), None if is_none(c, 2) else fresh(c, tensor_arg(c, 2)))
    scope = pause_tracking()        # a kernel writes to the running statistics in place
    try:
        return made + (None if is_none(c, 1) else fresh(c, tensor_arg(c, 1)), None if is_none(c, 2) else fresh(c, tensor_arg(c, 2)))
    finally:
        resume_tracking(scope)


define("native_layer_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor mean, Tensor rstd, Tensor? weight, "
       "Tensor? bias, float eps, bool[] output_mask) -> (Tensor, Tensor, Tensor)", layer_norm_backward, FUNCTION_ONLY,
       "Gradients of `native_layer_norm`.")
recorded_as("native_layer_norm_backward", "norm.layer_norm_again")
define("native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, int N, int C, int HxW, "
       "int group, float eps, bool[] output_mask) -> (Tensor, Tensor, Tensor)", group_norm_backward, FUNCTION_ONLY,
       "Gradients of `native_group_norm`.")
recorded_as("native_group_norm_backward", "norm.group_norm_again")
define("native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, Tensor? running_var, "
       "Tensor? save_mean, Tensor? save_invstd, bool train, float eps, bool[] output_mask) -> (Tensor, Tensor, Tensor)",
       batch_norm_backward, FUNCTION_ONLY, "Gradients of `native_batch_norm`.")
recorded_as("native_batch_norm_backward", "norm.batch_norm_again")
define("_batch_norm_forward(Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight, Tensor? bias, bool training, "
       "float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor, Tensor)", batch_norm_forward, FUNCTION_ONLY,
       "`batch_norm` that also returns the mean and reciprocal standard deviation of the batch and the new running statistics.")
gradient("_batch_norm_forward", tangent="tangents.batch_norm", node="NativeBatchNormBackward0", joint="norm.batch_norm_gradients",
         outputs=(0,), input=True, weight=True, bias=True)
