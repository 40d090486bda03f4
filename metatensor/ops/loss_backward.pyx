"""Operators that compute the gradients of losses with respect to the input.

The gradient has the shape of the input, or the broadcast shape if the loss broadcasts input and target.
"""
from metatensor._core.op cimport FUNCTION_ONLY, Call, arg, define, result_device, tensor_arg
from metatensor._core.tensor cimport Tensor, new_contiguous, shape_str
from metatensor._core.types cimport dim_t
from metatensor.ops.pointwise cimport Operands, elementwise_like, elementwise_result, no_operands, operand, promoted
from metatensor.ops.spatial cimport fail
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
define(f"smooth_l1_loss_backward({_pair}, str reduction, float beta) -> Tensor", broadcast_pair, FUNCTION_ONLY,
       "Gradient of `smooth_l1_loss`.")
define(f"huber_loss_backward({_pair}, str reduction, float delta) -> Tensor", broadcast_pair, FUNCTION_ONLY, "Gradient of `huber_loss`.")
define(f"soft_margin_loss_backward({_pair}, str reduction) -> Tensor", like_input, FUNCTION_ONLY, "Gradient of `soft_margin_loss`.")
define(f"binary_cross_entropy_backward({_pair}, Tensor? weight, str reduction) -> Tensor", like_input, FUNCTION_ONLY,
       "Gradient of `binary_cross_entropy`.")
define(f"multi_margin_loss_backward({_pair}, int p, float margin, Tensor? weight, str reduction) -> Tensor",
       contiguous_input, FUNCTION_ONLY,
       "Gradient of `multi_margin_loss`.")
define(f"multilabel_margin_loss_backward({_pair}, str reduction, Tensor is_target) -> Tensor", contiguous_input, FUNCTION_ONLY,
       "Gradient of `multilabel_margin_loss`.")
define(f"nll_loss_backward({_pair}, Tensor? weight, str reduction, int ignore_index, Tensor total_weight) -> Tensor", contiguous_input,
       FUNCTION_ONLY, "Gradient of `nll_loss`.")
for _name in ("mse_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss", "binary_cross_entropy", "multi_margin_loss",
              "multilabel_margin_loss"):
    recorded_as(f"{_name}_backward", f"losses.{_name}_backward")
gradient("nll_loss_backward", grad_output="losses.nll_loss_twice", input=lambda grad, input_meta: grad.new_zeros(input_meta.shape))
define("_nll_loss_forward(Tensor input, Tensor target, Tensor? weight, str reduction, int ignore_index) -> (Tensor, Tensor)",
       nll_loss_forward, FUNCTION_ONLY, "Like `nll_loss`, but also returns the total weight of the samples.")
gradient("_nll_loss_forward", node="losses.nll_loss_node", outputs=(0,),
         input=lambda grad, input, target, weight, reduction, ignore_index, result1: ops.nll_loss_backward(
             grad, input, target, weight, reduction, ignore_index, result1))


# ctc_loss and multilabel_margin_loss -----------------------------------------------------------------

cdef object ctc_forward(Call* c):
    """Arguments: log_probs (T, N, C), targets, input_lengths, target_lengths, blank, zero_infinity."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t sizes[3]
    if t.ndim != 3:
        fail(c, f"log_probs must have 3 dimensions, got shape {shape_str(t)}")
    sizes[0], sizes[1], sizes[2] = t.sizes[1], t.sizes[0], 2 * max(arg(c, 3), default=0) + 1
    return (new_contiguous(1, sizes, t.dtype, result_device(c)), new_contiguous(3, sizes, t.dtype, result_device(c)))


cdef object multilabel_forward(Call* c):
    """Arguments: input, target, reduction. Return the loss and a mask of the classes that are targets."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef int n = 1 if t.ndim == 2 and arg(c, 2) == "none" else 0
    return (new_contiguous(n, t.sizes, t.dtype, result_device(c)), new_contiguous(t.ndim, t.sizes, t.dtype, result_device(c)))


define("_ctc_loss(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank, bool zero_infinity) "
       "-> (Tensor, Tensor)", ctc_forward, FUNCTION_ONLY,
       "`ctc_loss` of each sequence, and the logarithms of the forward probabilities.")
gradient("_ctc_loss", node="CtcLossBackward0", outputs=(0,),
         log_probs=lambda grad, log_probs, targets, input_lengths, target_lengths, blank, zero_infinity, result, result1:
         ops._ctc_loss_backward(grad, log_probs, targets, input_lengths, target_lengths, blank, zero_infinity, result, result1))
define("_ctc_loss_backward(Tensor grad_output, Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank, "
       "bool zero_infinity, Tensor loss, Tensor log_alpha) -> Tensor", contiguous_input, FUNCTION_ONLY, "Gradient of `ctc_loss`.")
for _name in ("nn.functional.ctc_loss", "nn.functional.ctc_loss.ints"):
    recorded_as(_name, "ctc.ctc_loss")
define("_multilabel_margin_loss_forward(Tensor input, Tensor target, str reduction) -> (Tensor, Tensor)", multilabel_forward, FUNCTION_ONLY,
       "Like `multilabel_margin_loss`, but also returns a mask of the classes that are targets.")
gradient("_multilabel_margin_loss_forward", node="MultilabelMarginLossBackward0", outputs=(0,),
         input=lambda grad, input, target, reduction, result1: ops.multilabel_margin_loss_backward(grad, input, target, reduction, result1))
recorded_as("nn.functional.multilabel_margin_loss",
            lambda input, target, size_average, reduce, reduction: ops._multilabel_margin_loss_forward(input, target, reduction)[0])
