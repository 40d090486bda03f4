"""Top-level versions of functions in `nn.functional`, with the argument order of PyTorch's native functions.

A reduction is a number: 0 (none), 1 (mean) or 2 (sum).
"""
from metatensor._core.compute cimport same_sizes
from metatensor._core.op cimport (
    COMPOSITE, FUNCTION_ONLY, Call, Overload, arg, call, define, int_arg, op_name, tensor_arg, wrap,
)
from metatensor._core.tensor cimport Tensor

cdef tuple REDUCTIONS = ("none", "mean", "sum")


cdef int _fit(str name, dict given) except -1:
    """Broadcast the tensors of functions that broadcast natively, but not in `nn.functional`."""
    cdef Tensor t
    cdef int n = 0
    if name == "binary_cross_entropy_with_logits":
        t = <Tensor>given["target"]
        if not same_sizes(t, <Tensor>given["input"]):
            given["input"] = call("expand", (given["input"], t.shape))
    elif name == "margin_ranking_loss":
        for key in ("input1", "input2", "target"):
            n = max(n, (<Tensor>given[key]).ndim)
        for key in ("input1", "input2", "target"):
            while (<Tensor>given[key]).ndim < n:
                given[key] = call("unsqueeze", (given[key], 0))
    return 0


cdef object forward_body(Call* c):
    """Call the function of the same name in `nn.functional`, passing the arguments by name."""
    cdef Overload ov = <Overload>c.overload
    cdef dict given = {}
    cdef object value
    cdef str name
    cdef int i
    for i in range(ov.nslots):
        name, value = <str>ov.slots[i].name, arg(c, i)
        if name.startswith("cudnn_"):
            continue
        if name == "reduction":
            if not 0 <= value <= 2:
                raise ValueError(f"{op_name(c)}(): reduction must be 0 (none), 1 (mean) or 2 (sum), got {value}")
            value = REDUCTIONS[<int>value]
        given[name] = value
    _fit(op_name(c), given)
    return call(f"nn.functional.{op_name(c)}", (), given)


cdef str AFFINE = "Tensor? weight=None, Tensor? bias=None"
cdef str STATISTICS = "Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var"

for _schema in (
    f"layer_norm(Tensor input, int[] normalized_shape, {AFFINE}, float eps=1e-05, bool cudnn_enable=True)",
    f"group_norm(Tensor input, int num_groups, {AFFINE}, float eps=1e-05, bool cudnn_enabled=True)",
    "rms_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, float? eps=None)",
    f"batch_norm(Tensor input, {STATISTICS}, bool training, float momentum, float eps, bool cudnn_enabled)",
    f"instance_norm(Tensor input, {STATISTICS}, bool use_input_stats, float momentum, float eps, bool cudnn_enabled)",
    "bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None)",
    "binary_cross_entropy_with_logits(Tensor input, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, "
    "int reduction=0)",
    "cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int reduction=0)",
    "hinge_embedding_loss(Tensor input, Tensor target, float margin=1.0, int reduction=0)",
    "kl_div(Tensor input, Tensor target, int reduction=0, *, bool log_target=False)",
    "margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int reduction=0)",
    "poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, int reduction)",
    "triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, float p=2.0, float eps=1e-06, "
    "bool swap=False, int reduction=0)",
    "ctc_loss(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank=0, int reduction=0, "
    "bool zero_infinity=False)",
    "ctc_loss.ints(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank=0, "
    "int reduction=0, bool zero_infinity=False)",
):
    define(f"{_schema} -> Tensor", forward_body, COMPOSITE | FUNCTION_ONLY,
           f"Like `nn.functional.{_schema.partition('(')[0]}`, with the argument order of PyTorch's native function.")


# A norm ---------------------------------------------------------------------------------------

cdef object norm_except_dim_body(Call* c):
    """Arguments: v, pow, dim. Returns the norm of each slice along a dimension, shaped to broadcast with v."""
    cdef Tensor v = tensor_arg(c, 0)
    cdef object dim = int_arg(c, 2)
    if dim == -1:
        return call("norm", (v, int_arg(c, 1)))
    dim = wrap(c, dim, v.ndim)
    if v.ndim == 1:
        return call("norm", (call("unsqueeze", (v, 1)), int_arg(c, 1), [1]))     # an empty list would mean all dimensions
    return call("norm", (v, int_arg(c, 1), [i for i in range(v.ndim) if i != dim], True))


define("norm_except_dim(Tensor v, int pow=2, int dim=0) -> Tensor", norm_except_dim_body, COMPOSITE | FUNCTION_ONLY,
       "The `pow`-norm over all dimensions except `dim`. The reduced dimensions are kept with size 1. If `dim` is -1, "
       "the norm is over all dimensions, and the result is 0-d.")
