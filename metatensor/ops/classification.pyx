"""Losses for classification. They compare class scores with class indices, class probabilities or label sequences.

`reduction` is 'none', 'mean' or 'sum'.
"""
from metatensor._core.dtype cimport F32, F64, I32, I64, U8, DType, promote
from metatensor._core.layout cimport dims_equal
from metatensor._core.op cimport (
    COMPOSITE, FUNCTION_ONLY, Call, arg, call, define, float_arg, int_arg, is_none, op_name,
    result_device, tensor_arg,
)
from metatensor._core.tensor cimport Tensor, new_contiguous, shape_str
from metatensor._core.types cimport KIND_FLOAT, MAX_DIMS, T_RETRIED, dim_t
from metatensor.ops.loss cimport R_NONE, legacy_reduction, reduction_arg, scalar_result
from metatensor.ops.operands cimport refuse
from metatensor.ops.spatial cimport FLOATS, fail, fail_slot, need_dtype
from metatensor._core.gradients import gradient, ops
from metatensor._core.gradients import recorded_as


cdef int class_weight(Call* c, int slot, dim_t classes, DType d) except -1:
    """Check the optional vector of class weights. `d` is its required dtype, or None if any dtype is allowed."""
    cdef Tensor w
    if is_none(c, slot):
        return 0
    w = tensor_arg(c, slot)
    if w.ndim != 1 or w.sizes[0] != classes:
        fail_slot(c, slot, f"must have shape [{classes}], one weight for each class, got {shape_str(w)}")
    if d is not None and w.dtype is not d:
        fail_slot(c, slot, f"must be {d.name} like the input, got {w.dtype.name}")
    return 0


cdef Tensor per_sample(Call* c, Tensor t, DType d, int reduction):
    """Return a 0-d result. If `reduction` is R_NONE, return a result with the sizes of `t` except that of the class
    dimension, which is dimension 1, or 0 for a vector."""
    cdef dim_t sizes[MAX_DIMS]
    cdef int i
    if reduction != R_NONE:
        return scalar_result(c, d, reduction)
    if t.ndim == 1:
        return new_contiguous(0, NULL, d, result_device(c))
    sizes[0] = t.sizes[0]
    for i in range(2, t.ndim):
        sizes[i - 1] = t.sizes[i]
    return new_contiguous(t.ndim - 1, sizes, d, result_device(c))


cdef int check_class_indices(Call* c, Tensor t, Tensor target) except -1:
    """Check that the target holds class indices and has the input's shape without the class dimension."""
    if t.ndim < 1:
        raise ValueError(f"{op_name(c)}(): expected an input of 1 or more dimensions, got none")
    if t.ndim == 1:
        if target.ndim > 1:
            fail(c, f"with an input of shape {shape_str(t)} the target must be one class, got shape "
                    f"{shape_str(target)}")
        if target.ndim == 1 and target.sizes[0] != 1:
            raise ValueError(f"{op_name(c)}(): with an input of shape {shape_str(t)} the target must be one class, got "
                             f"shape {shape_str(target)}")
    else:
        if target.ndim == 0 or t.sizes[0] != target.sizes[0]:
            raise ValueError(f"{op_name(c)}(): input and target must have the same batch size, got shapes "
                             f"{shape_str(t)} and {shape_str(target)}")
        if target.ndim != t.ndim - 1 or not dims_equal(target.sizes + 1, t.sizes + 2, t.ndim - 2):
            fail(c, f"with an input of shape {shape_str(t)} the target must have the same shape without dimension 1, "
                    f"got {shape_str(target)}")
    if target.dtype.code != I64 and target.dtype.code != U8 and not c.flags & T_RETRIED:
        fail_slot(c, 1, f"must be int64 or uint8, got {target.dtype.name}")
    return 0


cdef object nll_loss(Call* c):
    cdef Tensor t = tensor_arg(c, 0), target = tensor_arg(c, 1)
    cdef int reduction = legacy_reduction(c, 3, 5, 6)
    check_class_indices(c, t, target)
    need_dtype(c, t, FLOATS)
    class_weight(c, 2, t.sizes[0 if t.ndim == 1 else 1], None if c.flags & T_RETRIED else t.dtype)
    return per_sample(c, t, t.dtype, reduction)


cdef object cross_entropy(Call* c):
    cdef Tensor t = tensor_arg(c, 0), target = tensor_arg(c, 1)
    cdef int reduction = legacy_reduction(c, 3, 5, 6)
    cdef double smoothing = float_arg(c, 7)
    cdef DType d = t.dtype
    cdef bint probabilities = t.ndim == target.ndim and dims_equal(t.sizes, target.sizes, t.ndim)
    if probabilities:
        if target.dtype.kind != KIND_FLOAT:
            fail_slot(c, 1, f"has the input's shape, so it holds probabilities and must be floating-point, got "
                            f"{target.dtype.name}")
        if t.ndim == 0:
            raise IndexError(f"{op_name(c)}(): expected an input of 1 or more dimensions, got none")
        if int_arg(c, 4) >= 0:
            fail_slot(c, 4, "is not supported for class probabilities")
        d = promote(d, target.dtype)
    if not 0 <= smoothing <= 1:
        fail_slot(c, 7, f"must lie in [0, 1], got {smoothing}")
    need_dtype(c, t, FLOATS)
    if t.ndim == 0:
        raise IndexError(f"{op_name(c)}(): expected an input of 1 or more dimensions, got none")
    if not probabilities and not c.flags & T_RETRIED:   # not when `refuse` repeats the call
        check_class_indices(c, t, target)
    class_weight(c, 2, t.sizes[0 if t.ndim == 1 else 1], None if probabilities else t.dtype)
    return per_sample(c, t, d, reduction)


# Margins ------------------------------------------------------------------------------

cdef int check_scores(Call* c, Tensor t) except -1:
    """Check scores of shape (N, C), (C,) or ()."""
    if t.ndim > 2 or (t.ndim and t.sizes[t.ndim - 1] == 0):
        fail(c, f"expected scores of shape (classes) or (batch, classes), got {shape_str(t)}")
    return need_dtype(c, t, FLOATS)


cdef object multi_margin_loss(Call* c):
    cdef Tensor t = tensor_arg(c, 0), target = tensor_arg(c, 1)
    cdef int reduction = legacy_reduction(c, 5, 6, 7)
    cdef dim_t n
    if int_arg(c, 2) != 1 and int_arg(c, 2) != 2:
        raise ValueError(f"{op_name(c)}(): argument 'p' must be 1 or 2, got {arg(c, 2)}")
    if not is_none(c, 4) and tensor_arg(c, 4).ndim != 1:
        raise ValueError(f"{op_name(c)}(): argument 'weight' must have 1 dimension, got shape "
                         f"{shape_str(tensor_arg(c, 4))}")
    check_scores(c, t)
    n = t.sizes[0] if t.ndim == 2 else 1
    if target.ndim > 1 or target.total != n:
        fail(c, f"with scores of shape {shape_str(t)} the target must have shape [{n}], got {shape_str(target)}")
    if target.dtype.code != I64:
        fail_slot(c, 1, f"must be int64, got {target.dtype.name}")
    class_weight(c, 4, t.sizes[t.ndim - 1] if t.ndim else 1, t.dtype)
    if reduction != R_NONE:
        return scalar_result(c, t.dtype, reduction)
    return new_contiguous(target.ndim, target.sizes, t.dtype, result_device(c))


cdef object multilabel_margin_loss(Call* c):
    cdef Tensor t = tensor_arg(c, 0), target = tensor_arg(c, 1)
    cdef int reduction = legacy_reduction(c, 2, 3, 4)
    check_scores(c, t)
    if target.ndim != t.ndim or not dims_equal(t.sizes, target.sizes, t.ndim):
        fail(c, f"the target must have the input's shape {shape_str(t)}, got {shape_str(target)}")
    if target.dtype.code != I64 and not c.flags & T_RETRIED:
        fail_slot(c, 1, f"must be int64, got {target.dtype.name}")
    if reduction != R_NONE:
        return scalar_result(c, t.dtype, reduction)
    return new_contiguous(1 if t.ndim == 2 else 0, t.sizes, t.dtype, result_device(c))


# Sequences --------------------------------------------------------------------------------

cdef int check_lengths(Call* c, int slot, dim_t batch) except -1:
    cdef object value = arg(c, slot)
    cdef Tensor t
    if isinstance(value, Tensor):
        t = <Tensor>value
        if t.dtype.code != I64 and t.dtype.code != I32 and t.dtype.code != U8:
            fail_slot(c, slot, f"must hold integers, got {t.dtype.name}")
        if t.total != batch or t.ndim > 1:
            fail_slot(c, slot, f"must have shape [{batch}], one length for each sequence, got {shape_str(t)}")
    elif len(value) != batch:
        fail_slot(c, slot, f"must hold {batch} lengths, one for each sequence, got {len(value)}")
    return 0


cdef object ctc_loss(Call* c):
    """log_probs has shape (T, N, C) or (T, C). Targets have shape (N, S), or are concatenated to one vector."""
    cdef Tensor t = tensor_arg(c, 0), targets = tensor_arg(c, 1)
    cdef int reduction = reduction_arg(c, 5)
    cdef dim_t batch, classes, blank = int_arg(c, 4), longest
    if t.ndim != 2 and t.ndim != 3:
        fail(c, f"expected log-probabilities of 2 or 3 dimensions, got shape {shape_str(t)}")
    batch = t.sizes[1] if t.ndim == 3 else 1
    classes = t.sizes[t.ndim - 1]
    if t.dtype.code != F32 and t.dtype.code != F64:
        refuse(c, t.dtype)
    if not 0 <= blank < classes:
        fail_slot(c, 4, f"must be one of the {classes} classes, got {blank}")
    check_lengths(c, 2, batch)
    check_lengths(c, 3, batch)
    if targets.ndim != 1 and targets.ndim != 2:
        fail_slot(c, 1, f"must have 1 or 2 dimensions, got shape {shape_str(targets)}")
    if targets.ndim == 2 and targets.sizes[0] != batch:
        fail_slot(c, 1, f"must hold {batch} sequences, got shape {shape_str(targets)}")
    longest = t.sizes[0]
    if not isinstance(arg(c, 2), Tensor):
        for n in arg(c, 2):
            if not 0 <= n <= longest:
                fail_slot(c, 2, f"must hold lengths from 0 to {longest}, got {n}")
    if not isinstance(arg(c, 3), Tensor):
        total = 0
        for n in arg(c, 3):
            total += n
            if n < 0 or (targets.ndim == 2 and n > targets.sizes[1]):
                fail_slot(c, 3, f"must hold the lengths of targets of shape {shape_str(targets)}, got {n}")
        if targets.ndim == 1 and total != targets.sizes[0]:
            fail_slot(c, 3, f"must add up to the {targets.sizes[0]} targets, but adds up to {total}")
    if reduction != R_NONE or t.ndim == 2:
        return scalar_result(c, t.dtype, R_NONE)
    return new_contiguous(1, &batch, t.dtype, result_device(c))


cdef object linear_cross_entropy(Call* c):
    """Apply a linear layer, then cross_entropy. A weight of shape (C, ..., D) gives scores of shape (N, C, ...)."""
    cdef Tensor t = tensor_arg(c, 0), w = tensor_arg(c, 1), target = tensor_arg(c, 2)
    cdef object bias = arg(c, 3)
    reduction_arg(c, 5)
    if t.ndim != 1 and t.ndim != 2:
        fail(c, f"expected an input of 1 or 2 dimensions, got shape {shape_str(t)}")
    if w.ndim < 2 or w.sizes[w.ndim - 1] != t.sizes[t.ndim - 1]:
        fail(c, f"a weight of shape {shape_str(w)} does not fit an input of shape {shape_str(t)}")
    if w.ndim > 2 and t.ndim == 1:
        fail(c, f"a weight of shape {shape_str(w)} needs an input with a batch, got shape {shape_str(t)}")
    if bias is not None and tuple(bias.shape) != tuple(w.shape[:w.ndim - 1]):
        fail(c, f"a bias of shape {shape_str(<Tensor>bias)} does not fit a weight of shape {shape_str(w)}")
    shape = t.shape[:t.ndim - 1] + w.shape[:w.ndim - 1]
    if w.ndim > 2:
        w = call("reshape", (w, (-1, w.sizes[w.ndim - 1])))
        bias = None if bias is None else call("reshape", (bias, (-1,)))
    scores = call("nn.functional.linear", (t, w, bias))
    return call("nn.functional.cross_entropy", (call("reshape", (scores, shape)), target), {
        "weight": arg(c, 4), "reduction": arg(c, 5), "label_smoothing": arg(c, 7),
        "ignore_index": -100 if is_none(c, 6) else arg(c, 6)})


cdef str _legacy = "bool? reduce=None, str reduction='mean'"

define("nn.functional.nll_loss(Tensor input, Tensor target, Tensor? weight=None, bool? size_average=None, "
       f"int ignore_index=-100, {_legacy}) -> Tensor", nll_loss, FUNCTION_ONLY,
       "Negative log-likelihood loss: `input` (N, C, ...) holds log-probabilities and `target` (N, ...) class indices "
       "(int64 or uint8). `weight` (C,) scales the loss of each class. Targets equal to `ignore_index` do not "
       "contribute.")
define("nn.functional.cross_entropy(Tensor input, Tensor target, Tensor? weight=None, bool? size_average=None, "
       f"int ignore_index=-100, {_legacy}, float label_smoothing=0.0) -> Tensor", cross_entropy, FUNCTION_ONLY,
       "Cross entropy between unnormalized class scores `input` (N, C, ...) and `target`: class indices (N, ...) or "
       "class probabilities (N, C, ...). `weight` (C,) scales the loss of each class. Class indices equal to "
       "`ignore_index` do not contribute. `label_smoothing` mixes the target with the uniform distribution.")
define("nn.functional.multi_margin_loss(Tensor input, Tensor target, int p=1, float margin=1.0, Tensor? weight=None, "
       f"bool? size_average=None, {_legacy}) -> Tensor", multi_margin_loss, FUNCTION_ONLY,
       "Multi-class margin loss of scores `input` (N, C) and class indices `target` (N,): the sum over the other "
       "classes i of `max(0, margin - input[target] + input[i]) ** p`, divided by C. `p` is 1 or 2. `weight` (C,) "
       "scales the loss of each target class.")
define(f"nn.functional.multilabel_margin_loss(Tensor input, Tensor target, bool? size_average=None, {_legacy}) "
       "-> Tensor", multilabel_margin_loss, FUNCTION_ONLY,
       "Multi-label margin loss of scores `input` (N, C). Row n of `target` (N, C) lists the target classes of sample "
       "n, ending at the first -1. The loss sums `max(0, 1 - input[j] + input[i])` over target classes j and other "
       "classes i, divided by C.")
define("nn.functional.ctc_loss(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, "
       "int blank=0, str reduction='mean', bool zero_infinity=False) -> Tensor", ctc_loss, FUNCTION_ONLY,
       "Connectionist temporal classification loss (Graves et al., 2006). `log_probs` (T, N, C) or (T, C) is float32 "
       "or float64. `targets` is (N, S), or a vector of the concatenated target sequences. `input_lengths` and "
       "`target_lengths` hold one length for each sequence.")
define("nn.functional.ctc_loss.ints(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, "
       "int blank=0, str reduction='mean', bool zero_infinity=False) -> Tensor", ctc_loss, FUNCTION_ONLY)
define("nn.functional.linear_cross_entropy(Tensor input, Tensor linear_weight, Tensor target, *, "
       "Tensor? linear_bias=None, Tensor? weight=None, str reduction='mean', int? ignore_index=None, "
       "float label_smoothing=0.0, any options=None) -> Tensor", linear_cross_entropy, FUNCTION_ONLY | COMPOSITE,
       "Cross entropy of the scores `linear(input, linear_weight, linear_bias)`, with `input` (N, D) or (D,) and "
       "`linear_weight` (C, ..., D).")

# Gradients -------------------------------------------------------------------------------

recorded_as("nn.functional.nll_loss", "losses.nll_loss")
recorded_as("nn.functional.cross_entropy", "losses.cross_entropy")
gradient("nn.functional.multi_margin_loss", node="MultiMarginLossBackward0",
         input=lambda grad, input, target, p, margin, weight, reduction: ops.multi_margin_loss_backward(
             grad, input, target, p, margin, weight, reduction))
