"""softmax, log_softmax and softmin. Results are contiguous and have the input's shape. Their dtype is `dtype` if given,
else the input's."""
from metatensor._core.dtype cimport DType
from metatensor._core.op cimport (
    EXACT_OUT, FUNCTION_ONLY, OUT, Call, alias_op, define, dim_arg, dtype_arg, is_none, op_name, result_device, tensor_arg,
)
from metatensor._core.tensor cimport Tensor, new_contiguous
from metatensor._core.types cimport KIND_FLOAT
from metatensor._core.gradients import gradient


cdef object softmax_of(Call* c, DType dtype):
    cdef Tensor t = tensor_arg(c, 0)
    if dtype.kind != KIND_FLOAT and t.total:        # as in PyTorch, empty tensors may have any dtype
        raise NotImplementedError(f"{op_name(c)}(): the result must be floating-point, not {dtype.name}; pass a dtype")
    return new_contiguous(t.ndim, t.sizes, dtype, result_device(c))


cdef object softmax_meta(Call* c):
    """Arguments: input, dim, dtype."""
    cdef Tensor t = tensor_arg(c, 0)
    dim_arg(c, 1, t.ndim)
    return softmax_of(c, dtype_arg(c, 2, t.dtype))


cdef object softmax_layer_meta(Call* c):
    """Arguments: input, int? dim, _stacklevel, dtype."""
    cdef Tensor t = tensor_arg(c, 0)
    if not is_none(c, 1):
        dim_arg(c, 1, t.ndim)
    return softmax_of(c, dtype_arg(c, 3, t.dtype))


define("softmax(Tensor input, int dim, dtype? dtype=None) -> Tensor", softmax_meta, OUT | EXACT_OUT,
       "Exponentials along `dim`, divided by their sum. The dtype must be floating-point.")
define("log_softmax(Tensor input, int dim, dtype? dtype=None) -> Tensor", softmax_meta, OUT | EXACT_OUT,
       "Logarithm of `softmax`, computed without overflow.")
define("_safe_softmax(Tensor input, int dim, dtype? dtype=None) -> Tensor", softmax_meta, FUNCTION_ONLY,
       "`softmax`, but 0 where all elements along `dim` are -inf.")
alias_op("special.softmax", "softmax")
alias_op("special.log_softmax", "log_softmax")
define("nn.functional.softmax(Tensor input, int? dim=None, int _stacklevel=3, dtype? dtype=None) -> Tensor",
       softmax_layer_meta, 0,
       "Like `softmax`. `dim` defaults to 0 if the input has 0, 1 or 3 dimensions, else to 1.")
define("nn.functional.log_softmax(Tensor input, int? dim=None, int _stacklevel=3, dtype? dtype=None) -> Tensor",
       softmax_layer_meta, 0,
       "Like `log_softmax`. `dim` defaults to 0 if the input has 0, 1 or 3 dimensions, else to 1.")
define("nn.functional.softmin(Tensor input, int? dim=None, int _stacklevel=3, dtype? dtype=None) -> Tensor",
       softmax_layer_meta, 0,
       "Softmax of `-input`. `dim` defaults to 0 if the input has 0, 1 or 3 dimensions, else to 1.")

gradient("softmax", tangent="tangents.softmax", input="activation.softmax")
gradient("_safe_softmax", tangent="tangents.softmax", input="activation.softmax")
gradient("log_softmax", tangent="tangents.log_softmax", input="activation.log_softmax")
gradient("nn.functional.softmax", tangent="tangents.softmax", node="SoftmaxBackward0", input="activation.softmax")
gradient("nn.functional.log_softmax", tangent="tangents.log_softmax", node="LogSoftmaxBackward0", input="activation.log_softmax")
gradient("nn.functional.softmin", tangent="tangents.softmin", node="SoftmaxBackward0", input="activation.softmin")
