"""Cumulative ops. Results are contiguous and have the input's shape."""
from metatensor._core.dtype cimport I64, by_code
from metatensor._core.op cimport (
    EXACT_OUT, INPLACE, IN_PLACE, OUT, Call, arg, define, dim_arg, is_none, make_returns, op_name, result_device, tensor_arg,
)
from metatensor._core.tensor cimport Tensor, new_contiguous
from metatensor._core.types cimport KIND_BOOL
from metatensor.ops.operands cimport refuse
from metatensor.ops.reduction cimport require_real, sum_dtype

from metatensor._core import errors
from metatensor._core.gradient_parts import Bodies
from metatensor._core.gradients import gradient

_of = Bodies("reductions")


cdef object cumsum_meta(Call* c):
    """Arguments: input, int dim, dtype."""
    cdef Tensor t = tensor_arg(c, 0)
    dim_arg(c, 1, t.ndim)
    if c.variant == IN_PLACE:
        if not is_none(c, 2) and arg(c, 2) is not t.dtype:
            raise errors.cannot_cast(op_name(c), arg(c, 2), t.dtype)
        if t.dtype.kind == KIND_BOOL:
            refuse(c, t.dtype)
    return new_contiguous(t.ndim, t.sizes, sum_dtype(c, 2, t), result_device(c))


cdef object cummax_meta(Call* c):
    """Arguments: input, int dim. Returns (values, indices)."""
    cdef Tensor t = tensor_arg(c, 0)
    if t.total or t.dtype.is_complex:       # PyTorch does not check `dim` for empty tensors
        dim_arg(c, 1, t.ndim)
    if t.ndim:
        require_real(c, t)
    return make_returns(c, (new_contiguous(t.ndim, t.sizes, t.dtype, result_device(c)),
                            new_contiguous(t.ndim, t.sizes, by_code(I64), result_device(c))))


cdef object logcumsumexp_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    dim_arg(c, 1, t.ndim)
    if not t.dtype.is_floating_point and not t.dtype.is_complex:
        refuse(c, t.dtype)
    return new_contiguous(t.ndim, t.sizes, t.dtype, result_device(c))


define("cumsum(Tensor input, int dim, *, dtype? dtype=None) -> Tensor", cumsum_meta, INPLACE | OUT,
       "Cumulative sum along `dim`. Integers and bool give int64 unless `dtype` is given.")
gradient("cumsum", linear="input", input=lambda grad, dim: grad.flip(dim).cumsum(dim).flip(dim) if grad.ndim else grad)
define("cumprod(Tensor input, int dim, *, dtype? dtype=None) -> Tensor", cumsum_meta, INPLACE | OUT,
       "Cumulative product along `dim`. Integers and bool give int64 unless `dtype` is given.")
gradient("cumprod", input=lambda grad, input, dim, result: _of.accumulated_product(grad, input, dim, result))
define("cummax(Tensor input, int dim) -> (Tensor values, Tensor indices)", cummax_meta, OUT | EXACT_OUT,
       "Cumulative maximum along `dim`, and the int64 index where it last occurred, as (values, indices).")
gradient("cummax", input=lambda grad, input, dim, indices: grad.new_zeros(input.shape).scatter_add(dim, indices, grad))
define("cummin(Tensor input, int dim) -> (Tensor values, Tensor indices)", cummax_meta, OUT | EXACT_OUT,
       "Cumulative minimum along `dim`, and the int64 index where it last occurred, as (values, indices).")
gradient("cummin", input=lambda grad, input, dim, indices: grad.new_zeros(input.shape).scatter_add(dim, indices, grad))
define("logcumsumexp(Tensor input, int dim) -> Tensor", logcumsumexp_meta, OUT | EXACT_OUT,
       "Logarithm of the cumulative sum of exponentials along `dim`.")
gradient("logcumsumexp", tangent="tangents.logcumsumexp",
         input=lambda grad, input, dim, result: _of.accumulated_exponentials(grad, input, dim, result))
