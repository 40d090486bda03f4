"""Losses that compare two tensors element by element, and the reduction that all losses share.

`input` and `target` broadcast unless stated otherwise. `reduction` is 'none', 'mean' (the default) or 'sum'. The
formulas give the loss of each element before the reduction. `size_average` and `reduce` are the deprecated form of
`reduction`.
"""
import warnings

from cpython.object cimport PyObject
from metatensor._core.compute cimport same_sizes
from metatensor._core.dtype cimport DType, can_cast_to, default_float, promote, to_real
from metatensor._core.layout cimport Layout, can_broadcast, dims_equal
from metatensor._core.op cimport (
    FUNCTION_ONLY, OPTION_A, OPTION_B, OPTION_C, Call, arg, bool_arg, define, float_arg, is_none, op_flags, op_name, result_device,
    tensor_arg,
)
from metatensor._core.tensor cimport Tensor, new_contiguous, shape_str
from metatensor._core.types cimport KIND_BOOL, KIND_COMPLEX, KIND_FLOAT, KIND_INT, T_RETRIED
from metatensor.ops.operands cimport float_operand
from metatensor.ops.pointwise cimport (
    Operands, broadcast_result, elementwise_result, no_operands, operand, promoted, refuse, shape_operand,
)
from metatensor.ops.spatial cimport FLOATS, fail, fail_slot, need_dtype

from metatensor._core import errors
from metatensor._core.gradients import gradient, ops
from metatensor._core.gradients import recorded_as


# Reduction ------------------------------------------------------------------------------

cdef tuple _names = ("none", "mean", "sum", "batchmean")


cdef int reduction_arg(Call* c, int slot, bint batchmean=False) except -1:
    """Return the `Reduction` for 'none', 'mean', 'sum' or, if `batchmean`, 'batchmean'. Raise ValueError for others."""
    cdef str value = arg(c, slot)
    if value == "mean":
        return R_MEAN
    if value == "none":
        return R_NONE
    if value == "sum":
        return R_SUM
    if batchmean and value == "batchmean":
        return R_BATCHMEAN
    raise ValueError(f"{op_name(c)}(): argument 'reduction' must be 'none', 'mean' or 'sum', got {value!r}")


cdef int legacy_reduction(Call* c, int average_slot, int reduce_slot, int slot, bint batchmean=False) except -1:
    """Return the reduction. The deprecated `size_average` and `reduce` override `reduction`. If one of them is given,
    also replace the argument in `slot`, because the kernel reads it."""
    cdef int r
    if is_none(c, average_slot) and is_none(c, reduce_slot):
        return reduction_arg(c, slot, batchmean)
    if not is_none(c, reduce_slot) and not arg(c, reduce_slot):
        r = R_NONE
    else:
        r = R_MEAN if is_none(c, average_slot) or arg(c, average_slot) else R_SUM
    warnings.warn(f"{op_name(c)}(): size_average and reduce are deprecated; use reduction={_names[r]!r}",
                  UserWarning, stacklevel=2)
    c.args[slot] = <PyObject*>_names[r]
    return r


cdef Tensor scalar_result(Call* c, DType dtype, int reduction):
    """Return the 0-d result of a reduction. Raise if the mean of an integer or bool dtype is requested."""
    if reduction == R_MEAN and dtype.kind != KIND_FLOAT and dtype.kind != KIND_COMPLEX:
        fail(c, f"the mean of {dtype.name} values is not supported; use floating-point inputs")
    return new_contiguous(0, NULL, dtype, result_device(c))


cdef Tensor reduced_loss(Call* c, Operands* o, DType dtype, int reduction):
    """Return the result of an element-wise loss over the operands, after the reduction."""
    cdef Layout lay
    if reduction == R_NONE:
        return elementwise_result(c, o, dtype)
    broadcast_result(c, o, &lay)
    return scalar_result(c, dtype, reduction)


cdef int check_weight(Call* c, int slot, Tensor like) except -1:
    """Check that a weight expands to the shape of `like`."""
    cdef Tensor w = tensor_arg(c, slot)
    if not can_broadcast(w.ndim, w.sizes, like.ndim, like.sizes):
        fail_slot(c, slot, f"of shape {shape_str(w)} does not expand to {shape_str(like)}")
    return 0


# Element-wise distances --------------------------------------------------------------------

cdef enum:
    ANY_NUMBER = OPTION_A       # accepts integers and complex numbers too
    SUBTRACTS = OPTION_B        # bool operands are not supported
    INTO_INPUT = OPTION_C       # the result is stored in the input's dtype


cdef object difference(Call* c, int reduction, int weight):
    """Return the result of a loss that is a function of input - target. `weight` is a slot, or -1. Warn if the shapes of
    input and target differ."""
    cdef Tensor a = tensor_arg(c, 0), b = tensor_arg(c, 1), w
    cdef Operands o
    cdef DType d
    if not same_sizes(a, b) and not c.flags & T_RETRIED:
        warnings.warn(f"{op_name(c)}(): the target's shape {shape_str(b)} differs from the input's shape {shape_str(a)}; they "
                      "are broadcast, so that elements which do not belong together may be compared. Use the same shape "
                      "for both", UserWarning, stacklevel=1)
    no_operands(&o)
    operand(&o, a)
    operand(&o, b)
    if weight >= 0 and not is_none(c, weight):
        w = tensor_arg(c, weight)
        if not same_sizes(w, a):
            raise ValueError(f"{op_name(c)}(): the weight must have the input's shape {shape_str(a)}, "
                             f"got {shape_str(w)}")
        operand(&o, w)
    d = promoted(c, &o)
    if op_flags(c) & SUBTRACTS and (a.dtype.kind == KIND_BOOL or b.dtype.kind == KIND_BOOL):
        fail(c, "bool tensors cannot be subtracted")
    if d.kind == KIND_BOOL or (d.kind != KIND_FLOAT and not op_flags(c) & ANY_NUMBER):
        refuse(c, d)
    if op_flags(c) & INTO_INPUT and not can_cast_to(d, a.dtype):
        raise errors.cannot_cast(op_name(c), d, a.dtype)
    if d.kind == KIND_COMPLEX:
        d = to_real(d)
    return reduced_loss(c, &o, d, reduction)


cdef object mse_loss(Call* c):
    return difference(c, legacy_reduction(c, 2, 3, 4), 5)


cdef object smooth_l1_loss(Call* c):
    if float_arg(c, 5) < 0:
        fail_slot(c, 5, f"must not be negative, got {arg(c, 5)}")
    return difference(c, legacy_reduction(c, 2, 3, 4), -1)


cdef object huber_loss(Call* c):
    cdef int reduction = reduction_arg(c, 2)
    if not float_arg(c, 3) > 0:
        fail_slot(c, 3, f"must be positive, got {arg(c, 3)}")
    return difference(c, reduction, 4)


# Likelihoods ---------------------------------------------------------------------------------

cdef int need_floats(Call* c, Tensor t) except -1:
    return need_dtype(c, t, FLOATS)


cdef int need_same_sizes(Call* c, Tensor a, Tensor b) except -1:
    if not same_sizes(a, b):
        raise ValueError(f"{op_name(c)}(): the target must have the input's shape {shape_str(a)}, got {shape_str(b)}")
    return 0


cdef object binary_cross_entropy(Call* c):
    cdef Tensor a = tensor_arg(c, 0), b = tensor_arg(c, 1)
    cdef Operands o
    cdef int reduction = legacy_reduction(c, 3, 4, 5)
    need_same_sizes(c, a, b)
    if not is_none(c, 2):
        check_weight(c, 2, a)
    if a.dtype is not b.dtype:
        fail(c, f"input and target must have the same dtype, got {a.dtype.name} and {b.dtype.name}")
    need_floats(c, a)
    no_operands(&o)
    operand(&o, a)
    operand(&o, b)
    return reduced_loss(c, &o, a.dtype, reduction)


cdef object binary_cross_entropy_with_logits(Call* c):
    cdef Tensor a = tensor_arg(c, 0), b = tensor_arg(c, 1)
    cdef Operands o
    cdef int reduction = legacy_reduction(c, 3, 4, 5)
    need_same_sizes(c, a, b)
    if not is_none(c, 2):
        check_weight(c, 2, a)
    if not is_none(c, 6):
        check_weight(c, 6, a)
    need_floats(c, a)
    if b.dtype.kind != KIND_FLOAT:
        fail_slot(c, 1, f"must be floating-point, got {b.dtype.name}")
    # PyTorch computes 1 - target and then the loss in place, so the result has the dtype and strides of the target.
    no_operands(&o)
    operand(&o, b)
    operand(&o, a)
    return reduced_loss(c, &o, b.dtype, reduction)


cdef object kl_div(Call* c):
    cdef Tensor a = tensor_arg(c, 0), b = tensor_arg(c, 1)
    cdef Operands o
    cdef int reduction = legacy_reduction(c, 2, 3, 4, True)
    if a.dtype.kind != KIND_FLOAT or b.dtype.kind != KIND_FLOAT:
        fail(c, f"input and target must be floating-point, got {a.dtype.name} and {b.dtype.name}")
    if reduction == R_BATCHMEAN and a.ndim == 0:
        raise IndexError(f"{op_name(c)}(): 'batchmean' needs an input with a batch dimension, got a 0-d tensor")
    no_operands(&o)
    operand(&o, b)
    operand(&o, a)
    return reduced_loss(c, &o, promoted(c, &o), reduction)


cdef object hinge_embedding_loss(Call* c):
    cdef Tensor a = tensor_arg(c, 0), b = tensor_arg(c, 1)
    cdef Operands o
    cdef int reduction = legacy_reduction(c, 3, 4, 5)
    if a.dtype.kind == KIND_BOOL:
        fail(c, "bool tensors cannot be subtracted")
    if a.dtype.kind == KIND_COMPLEX:
        refuse(c, a.dtype)
    no_operands(&o)
    shape_operand(&o, b)
    shape_operand(&o, a)
    return reduced_loss(c, &o, a.dtype, reduction)


cdef object soft_margin_loss(Call* c):
    cdef Tensor a = tensor_arg(c, 0), b = tensor_arg(c, 1)
    cdef Operands o
    cdef DType d
    cdef int reduction = legacy_reduction(c, 2, 3, 4)
    if not can_broadcast(b.ndim, b.sizes, a.ndim, a.sizes):
        fail(c, f"a target of shape {shape_str(b)} does not expand to the input's shape {shape_str(a)}")
    no_operands(&o)
    operand(&o, a)
    operand(&o, b)
    d = a.dtype
    if d.kind != KIND_FLOAT and d.kind != KIND_COMPLEX:
        fail(c, f"the input must be floating-point or complex, got {d.name}")
    if not can_cast_to(b.dtype, d):
        raise errors.cannot_cast(op_name(c), b.dtype, d)
    return reduced_loss(c, &o, d, reduction)


cdef object poisson_nll_loss(Call* c):
    cdef Tensor a = tensor_arg(c, 0), b = tensor_arg(c, 1)
    cdef DType product
    cdef Operands o
    cdef int reduction = legacy_reduction(c, 4, 6, 7)
    cdef bint log_input = bool_arg(c, 2)
    if a.dtype.kind == KIND_BOOL and (b.dtype.kind == KIND_BOOL or not log_input) \
            or b.dtype.kind == KIND_BOOL and bool_arg(c, 3):
        fail(c, "bool tensors cannot be subtracted")
    product = a.dtype
    if log_input:
        no_operands(&o)
        operand(&o, a)
        operand(&o, b)
        product = promoted(c, &o)
    # The exponential or the logarithm of an integer is a float.
    no_operands(&o)
    float_operand(&o, a)
    operand(&o, b)
    return reduced_loss(c, &o, promote(promoted(c, &o), product), reduction)


cdef object gaussian_nll_loss(Call* c):
    """`var` is a number, or a tensor shaped like the input, possibly with size 1 in the last dimension or
    without it."""
    cdef Tensor a = tensor_arg(c, 0), b = tensor_arg(c, 1), v
    cdef Operands o
    cdef DType d
    cdef int reduction, n
    if a.dtype.kind == KIND_BOOL or b.dtype.kind == KIND_BOOL:
        fail(c, "bool tensors cannot be subtracted")
    no_operands(&o)
    operand(&o, a)
    operand(&o, b)
    if isinstance(arg(c, 2), Tensor):
        v = tensor_arg(c, 2)
        n = a.ndim - 1
        if not same_sizes(v, a) and not (n >= 0 and (v.ndim == n or (v.ndim == n + 1 and v.sizes[n] == 1))
                                         and dims_equal(v.sizes, a.sizes, n)):
            raise ValueError(f"{op_name(c)}(): argument 'var' of shape {shape_str(v)} does not fit an input of shape "
                             f"{shape_str(a)}")
        if v.dtype.kind == KIND_COMPLEX:
            refuse(c, v.dtype)
        if v.dtype.kind == KIND_BOOL or (v.dtype.kind == KIND_INT and isinstance(arg(c, 4), float)):
            fail(c, f"argument 'var' has the dtype {v.dtype.name}, so it cannot be clamped to eps={arg(c, 4)}")
        if v.ndim == a.ndim:
            operand(&o, v)
    elif arg(c, 2) < 0:
        raise ValueError(f"{op_name(c)}(): argument 'var' must not be negative, got {arg(c, 2)}")
    reduction = reduction_arg(c, 5)
    d = promoted(c, &o)
    return reduced_loss(c, &o, default_float() if d.kind == KIND_INT else d, reduction)


cdef object multilabel_soft_margin_loss(Call* c):
    """Average the loss over the classes, the last dimension."""
    cdef Tensor a = tensor_arg(c, 0), b = tensor_arg(c, 1)
    cdef Operands o
    cdef Layout lay
    cdef DType d
    cdef int reduction = legacy_reduction(c, 3, 4, 5)
    if a.ndim == 0:
        raise IndexError(f"{op_name(c)}(): the input needs a dimension of classes")
    need_floats(c, a)
    if b.dtype.kind == KIND_BOOL:
        fail(c, "bool tensors cannot be subtracted")
    no_operands(&o)
    operand(&o, a)
    operand(&o, b)
    if not is_none(c, 2):
        operand(&o, tensor_arg(c, 2))
    d = promoted(c, &o)
    broadcast_result(c, &o, &lay)
    if reduction != R_NONE:
        return scalar_result(c, d, reduction)
    return new_contiguous(lay.ndim - 1, lay.sizes, d, result_device(c))


cdef str _legacy = "bool? size_average=None, bool? reduce=None, str reduction='mean'"

define(f"nn.functional.mse_loss(Tensor input, Tensor target, {_legacy}, Tensor? weight=None) -> Tensor", mse_loss,
       FUNCTION_ONLY,
       "Squared error: `(input - target) ** 2`. `weight` has the shape of `input` and multiplies each term. If it is "
       "given, 'mean' divides by the sum of the weights.")
define(f"nn.functional.l1_loss(Tensor input, Tensor target, {_legacy}, Tensor? weight=None) -> Tensor", mse_loss,
       FUNCTION_ONLY | ANY_NUMBER | SUBTRACTS,
       "Absolute error: `abs(input - target)`. `weight` has the shape of `input` and multiplies each term. If it is "
       "given, 'mean' divides by the sum of the weights.")
define(f"nn.functional.smooth_l1_loss(Tensor input, Tensor target, {_legacy}, float beta=1.0) -> Tensor",
       smooth_l1_loss, FUNCTION_ONLY,
       "Smooth L1 loss, with `d = abs(input - target)`: `0.5 * d ** 2 / beta` if d < beta, else `d - 0.5 * beta`.")
define("nn.functional.huber_loss(Tensor input, Tensor target, str reduction='mean', float delta=1.0, "
       "Tensor? weight=None) -> Tensor", huber_loss, FUNCTION_ONLY | INTO_INPUT,
       "Huber loss, with `d = abs(input - target)`: `0.5 * d ** 2` if d < delta, else `delta * (d - 0.5 * delta)`.")
define(f"nn.functional.binary_cross_entropy(Tensor input, Tensor target, Tensor? weight=None, {_legacy}) -> Tensor",
       binary_cross_entropy, FUNCTION_ONLY,
       "Binary cross entropy of probabilities `input` in [0, 1]: `-(target * log(input) + (1 - target) * log(1 - "
       "input))`. Both tensors have the same shape and dtype. `weight` expands to that shape and multiplies the loss.")
define("nn.functional.binary_cross_entropy_with_logits(Tensor input, Tensor target, Tensor? weight=None, "
       f"{_legacy}, Tensor? pos_weight=None) -> Tensor", binary_cross_entropy_with_logits, FUNCTION_ONLY,
       "Binary cross entropy of the probabilities `sigmoid(input)`, computed from the logits `input` for numerical "
       "stability. `input` and `target` have the same shape. `pos_weight` multiplies the term of positive targets, and "
       "`weight` multiplies the whole loss. Both expand to this shape.")
define(f"nn.functional.kl_div(Tensor input, Tensor target, {_legacy}, bool log_target=False) -> Tensor", kl_div,
       FUNCTION_ONLY,
       "Kullback-Leibler divergence of log-probabilities `input` from probabilities `target`: `target * (log(target) - "
       "input)`. If `log_target` is True, `target` holds log-probabilities too. The reduction 'batchmean' divides the sum by "
       "the size of dimension 0.")
define(f"nn.functional.hinge_embedding_loss(Tensor input, Tensor target, float margin=1.0, {_legacy}) -> Tensor",
       hinge_embedding_loss, FUNCTION_ONLY,
       "Hinge embedding loss: `input` where `target` is 1, and `max(0, margin - input)` where it is -1.")
define(f"nn.functional.soft_margin_loss(Tensor input, Tensor target, {_legacy}) -> Tensor", soft_margin_loss,
       FUNCTION_ONLY,
       "Logistic loss: `log(1 + exp(-target * input))`, with `target` 1 or -1. `target` expands to the shape of "
       "`input`.")
define("nn.functional.poisson_nll_loss(Tensor input, Tensor target, bool log_input=True, bool full=False, "
       "bool? size_average=None, float eps=1e-08, bool? reduce=None, str reduction='mean') -> Tensor",
       poisson_nll_loss, FUNCTION_ONLY,
       "Negative log-likelihood of the counts `target` under Poisson distributions, up to a constant: `exp(input) - "
       "target * input`, or if `log_input` is False, `input - target * log(input + eps)`. `full` adds Stirling's "
       "approximation of `log(target!)`.")
define("nn.functional.gaussian_nll_loss(Tensor input, Tensor target, Tensor|Scalar var, bool full=False, "
       "float eps=1e-06, str reduction='mean') -> Tensor", gaussian_nll_loss, FUNCTION_ONLY,
       "Negative log-likelihood of `target` under normal distributions of mean `input` and variance `var`: `0.5 * "
       "(log(v) + (input - target) ** 2 / v)` with `v = max(var, eps)`. `full` adds the constant `0.5 * log(2 * pi)`.")
define("nn.functional.multilabel_soft_margin_loss(Tensor input, Tensor target, Tensor? weight=None, "
       f"{_legacy}) -> Tensor", multilabel_soft_margin_loss, FUNCTION_ONLY,
       "Binary cross entropy of the probabilities `sigmoid(input)`, averaged over the classes in the last dimension. "
       "`weight` scales the loss of each class.")

# Gradients -----------------------------------------------------------------------------

for _name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "hinge_embedding_loss", "poisson_nll_loss",
              "gaussian_nll_loss", "multilabel_soft_margin_loss"):
    recorded_as(f"nn.functional.{_name}", f"losses.{_name}")
gradient("nn.functional.mse_loss", node="MseLossBackward0",
         input=lambda grad, input, target, reduction: ops.mse_loss_backward(grad, input, target, reduction),
         target=lambda grad, input, target, reduction: ops.mse_loss_backward(grad, target, input, reduction))
gradient("nn.functional.smooth_l1_loss", node="SmoothL1LossBackward0",
         input=lambda grad, input, target, reduction, beta: ops.smooth_l1_loss_backward(grad, input, target, reduction, beta),
         target=lambda grad, input, target, reduction, beta: ops.smooth_l1_loss_backward(grad, target, input, reduction, beta))
gradient("nn.functional.huber_loss", node="HuberLossBackward0",
         input=lambda grad, input, target, reduction, delta: ops.huber_loss_backward(grad, input, target, reduction, delta),
         target=lambda grad, input, target, reduction, delta: ops.huber_loss_backward(grad, target, input, reduction, delta))
gradient("nn.functional.soft_margin_loss", node="SoftMarginLossBackward0",
         input=lambda grad, input, target, reduction: ops.soft_margin_loss_backward(grad, input, target, reduction))
gradient("nn.functional.binary_cross_entropy", node="BinaryCrossEntropyBackward0",
         input=lambda grad, input, target, weight, reduction: ops.binary_cross_entropy_backward(grad, input, target, weight, reduction),
         target="losses.binary_cross_entropy_target")
gradient("nn.functional.binary_cross_entropy_with_logits", node="BinaryCrossEntropyWithLogitsBackward0", input="losses.with_logits_input",
         target="losses.with_logits_target")
