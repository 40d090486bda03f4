"""Backward halves of losses. They return the gradient of the input, of the input's sizes (of the broadcast sizes for losses that
broadcast input and target)."""
from metatensor._core.op cimport FUNCTION_ONLY, Call, arg, define, result_device, tensor_arg
from metatensor._core.tensor cimport Tensor, new_contiguous
from metatensor.ops.pointwise cimport Operands, elementwise_like, elementwise_result, no_operands, operand, promoted
from metatensor._core.gradients import gradient, ops
from metatensor._core.gradients import recorded_as


cdef object broadcast_pair(Call* c):
    """Arguments: grad_output, input, target, ..."""
    cdef Operands o
    no_operands(&o)
    operand(&o, tensor_arg(c, 1))
    operand(&o, tensor_arg(c, 2))
    return elementwise_result(c, &o, promoted(c, &o))


cdef object like_input(Call* c):
    cdef Tensor t = tensor_arg(c, 1)
    return elementwise_like(t, t.dtype, result_device(c))


cdef object contiguous_input(Call* c):
    cdef Tensor t = tensor_arg(c, 1)
    return new_contiguous(t.ndim, t.sizes, t.dtype, result_device(c))


cdef object nll_loss_forward(Call* c):
    """Arguments: input, target, weight, reduction, ignore_index. Return the loss and the total weight of the samples."""
    cdef Tensor t = tensor_arg(c, 0), target = tensor_arg(c, 1)
    if arg(c, 3) == "none":
        return (new_contiguous(target.ndim if t.ndim > 1 else 0, target.sizes, t.dtype, result_device(c)),
                new_contiguous(0, NULL, t.dtype, result_device(c)))
    return (new_contiguous(0, NULL, t.dtype, result_device(c)), new_contiguous(0, NULL, t.dtype, result_device(c)))


cdef str _pair = "Tensor grad_output, Tensor input, Tensor target"

define(f"mse_loss_backward({_pair}, str reduction) -> Tensor", broadcast_pair, FUNCTION_ONLY, "Gradient of `mse_loss`.")
define(f"smooth_l1_loss_backward({_pair}, str reduction, float beta) -> Tensor", broadcast_pair, FUNCTION_ONLY, "Gradient of `smooth_l1_loss`.")
define(f"huber_loss_backward({_pair}, str reduction, float delta) -> Tensor", broadcast_pair, FUNCTION_ONLY, "Gradient of `huber_loss`.")
define(f"soft_margin_loss_backward({_pair}, str reduction) -> Tensor", like_input, FUNCTION_ONLY, "Gradient of `soft_margin_loss`.")
define(f"binary_cross_entropy_backward({_pair}, Tensor? weight, str reduction) -> Tensor", like_input, FUNCTION_ONLY,
       "Gradient of `binary_cross_entropy`.")
define(f"multi_margin_loss_backward({_pair}, int p, float margin, Tensor? weight, str reduction) -> Tensor", contiguous_input, FUNCTION_ONLY,
       "Gradient of `multi_margin_loss`.")
define(f"multilabel_margin_loss_backward({_pair}, str reduction) -> Tensor", contiguous_input, FUNCTION_ONLY,
       "Gradient of `multilabel_margin_loss`.")
define(f"nll_loss_backward({_pair}, Tensor? weight, str reduction, int ignore_index, Tensor total_weight) -> Tensor", contiguous_input,
       FUNCTION_ONLY, "Gradient of `nll_loss`.")
for _name in ("mse_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss", "binary_cross_entropy", "multi_margin_loss",
              "multilabel_margin_loss"):
    recorded_as(f"{_name}_backward", f"losses.{_name}_backward")
gradient("nll_loss_backward", grad_output="losses.nll_loss_twice", input=lambda grad, input_meta: grad.new_zeros(input_meta.shape))
define("_nll_loss_forward(Tensor input, Tensor target, Tensor? weight, str reduction, int ignore_index) -> (Tensor, Tensor)",
       nll_loss_forward, FUNCTION_ONLY, "`nll_loss` that also returns the total weight of the samples.")
gradient("_nll_loss_forward", node="losses.nll_loss_node", outputs=(0,),
         input=lambda grad, input, target, weight, reduction, ignore_index, result1: ops.nll_loss_backward(
             grad, input, target, weight, reduction, ignore_index, result1))
