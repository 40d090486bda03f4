"""Reductions. Results are contiguous. Reduced dimensions are removed, or kept with size 1 if `keepdim` is true."""
from metatensor._core.device cimport META, Device
from metatensor._core.dtype cimport BOOL, I64, U8, DType, by_code, default_float, to_real
from metatensor._core.op cimport (
    ELEMENTWISE, COMPOSITE, EXACT_OUT, IN_PLACE, METHOD_ONLY, NO_GRAD, NO_OVERLAP, OPTION_A, OPTION_B, OUT, REAL_ONLY, WITH_OUT,
    Call, alias_op, arg, bool_arg, call, define, dim_arg, dim_list, dims_arg, is_none, make_returns, op_flags, op_name,
    result_device, tensor_arg,
)
from metatensor._core.tensor cimport Tensor, new_contiguous, shape_str
from metatensor._core.types cimport KIND_BOOL, KIND_COMPLEX, KIND_FLOAT, KIND_INT, MAX_DIMS, SET_DIMS, dim_t
from metatensor.ops.operands cimport exact_out, refuse
from metatensor.ops.pointwise cimport binary
from metatensor._core.gradient_parts import Bodies, share, spread, within
from metatensor._core.gradients import gradient, ops, recorded_as

_of = Bodies("reductions")
_tangent = Bodies("tangents")


# Parts of gradients ---------------------------------------------------------------------------------

def _nanmean(input, dim, keepdim, dtype):
    return _of.mean_of_numbers(input, dim, keepdim, dtype)


# Shapes -----------------------------------------------------------------------------

cdef int require_set(Tensor t) except -1:
    if t.ndim > SET_DIMS:
        raise RuntimeError(f"reductions support at most {SET_DIMS} dimensions, got {t.ndim}")
    return 0


cdef Tensor reduced(Tensor t, const bint* chosen, bint keepdim, DType dtype, Device device):
    cdef dim_t sizes[MAX_DIMS]
    cdef int i, n = 0
    require_set(t)
    for i in range(t.ndim):
        if not chosen[i]:
            sizes[n] = t.sizes[i]
            n += 1
        elif keepdim:
            sizes[n] = 1
            n += 1
    return new_contiguous(n, sizes, dtype, device)


cdef Tensor reduced_dim(Tensor t, int dim, bint keepdim, DType dtype, Device device):
    cdef dim_t sizes[MAX_DIMS]
    cdef int i, n = 0
    require_set(t)
    for i in range(t.ndim):
        if dim >= 0 and i != dim:
            sizes[n] = t.sizes[i]
            n += 1
        elif keepdim:
            sizes[n] = 1
            n += 1
    return new_contiguous(n, sizes, dtype, device)


cdef Tensor put_back(Tensor t, const bint* chosen):
    """Set the strides of an empty meta result as PyTorch's meta kernels do, which insert the reduced dimensions again.

    The stride of an inserted dimension is stride * size of the next dimension that is not reduced. It is 0 if that
    dimension is empty.
    """
    cdef int i
    cdef dim_t step = 1
    if t.total == 0 and t.storage.device is META:
        for i in range(t.ndim - 1, -1, -1):
            if chosen[i]:
                t.strides[i] = step
            else:
                step = t.strides[i] * t.sizes[i]
    return t


cdef Tensor reduced_back(Call* c, Tensor t, const bint* chosen, bint keepdim, DType dtype):
    cdef Tensor made = reduced(t, chosen, keepdim, dtype, result_device(c))
    return put_back(made, chosen) if keepdim else made


cdef Tensor reduced_dim_back(Call* c, Tensor t, int dim, bint keepdim, DType dtype):
    cdef bint chosen[MAX_DIMS]
    cdef int i
    for i in range(t.ndim):
        chosen[i] = dim < 0 or i == dim
    return reduced_back(c, t, chosen, keepdim, dtype)


# Checks -----------------------------------------------------------------------------

cdef int require_nonempty(Call* c, Tensor t, int dim) except -1:
    if t.ndim and t.sizes[dim] == 0:
        raise IndexError(f"{op_name(c)}(): dimension {dim} of input has size 0, and the result for zero "
                         f"elements is not defined; input has shape {shape_str(t)}")
    return 0


cdef int require_elements(Call* c, Tensor t) except -1:
    if t.total == 0:
        raise RuntimeError(f"{op_name(c)}(): input is empty (shape {shape_str(t)}); pass a dimension "
                           "that is not empty as 'dim'")
    return 0


cdef int require_some(Call* c, Tensor t, int named, const bint* chosen) except -1:
    cdef int i
    if t.total == 0:
        if not named:
            require_elements(c, t)
        for i in range(t.ndim):
            if chosen[i]:
                require_nonempty(c, t, i)
    return 0


cdef int require_real(Call* c, Tensor t) except -1:
    if t.dtype.kind == KIND_COMPLEX:
        raise NotImplementedError(f"{op_name(c)}(): complex numbers have no order; input is {t.dtype.name}")
    return 0


cdef int require_ordered(Call* c, Tensor t) except -1:
    """Do the same as `require_real` for argmax, argmin and max or min over `dim`, which raise RuntimeError instead."""
    if t.dtype.kind == KIND_COMPLEX:
        raise RuntimeError(f"{op_name(c)}(): complex numbers have no order; input is {t.dtype.name}")
    return 0


cdef int require_floating(Call* c, DType dtype) except -1:
    if dtype.kind != KIND_FLOAT and dtype.kind != KIND_COMPLEX:
        raise RuntimeError(f"{op_name(c)}(): only floating-point and complex dtypes are supported, got {dtype.name}")
    return 0


# sum, prod, mean ----------------------------------------------------------------------

cdef DType sum_dtype(Call* c, int slot, Tensor t):
    if not is_none(c, slot):
        exact_out(c, <DType>c.args[slot])
        return <DType>c.args[slot]
    if c.variant == IN_PLACE:
        return t.dtype
    if c.out != NULL and isinstance(<object>c.out, Tensor):
        return (<Tensor>c.out).dtype
    return by_code(I64) if t.dtype.kind <= KIND_INT else t.dtype


cdef object sum_meta(Call* c):
    """Arguments: input, int[]? dim, keepdim, dtype."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef bint chosen[MAX_DIMS]
    dim_list(c, 1, t.ndim, chosen)
    return reduced_back(c, t, chosen, bool_arg(c, 2), sum_dtype(c, 3, t))


cdef object mean_meta(Call* c):
    """Do the same as `sum_meta`, but only for floating-point and complex results."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef DType dtype = t.dtype
    cdef bint chosen[MAX_DIMS]
    if not is_none(c, 3):
        dtype = <DType>c.args[3]
        exact_out(c, dtype)
    elif c.out != NULL and isinstance(<object>c.out, Tensor):
        dtype = (<Tensor>c.out).dtype
    require_floating(c, dtype)
    dim_list(c, 1, t.ndim, chosen)
    return reduced(t, chosen, bool_arg(c, 2), dtype, result_device(c))


cdef int _need_real_out(Call* c) except -1:
    """Raise NotImplementedError if the sum has the dtype of `out=` and this is not a real floating-point dtype."""
    if is_none(c, 3) and c.variant == WITH_OUT and isinstance(<object>c.out, Tensor):
        if (<Tensor>c.out).dtype.kind != KIND_FLOAT:
            raise NotImplementedError(f"{op_name(c)}(): not implemented for {(<Tensor>c.out).dtype.name}")
    return 0


cdef object nan_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef bint chosen[MAX_DIMS]
    if op_flags(c) & OPTION_A:
        require_floating(c, t.dtype)
        dim_list(c, 1, t.ndim, chosen)
    if t.dtype.kind == KIND_COMPLEX:
        raise RuntimeError(f"{op_name(c)}(): complex inputs are not supported")
    if op_flags(c) & OPTION_A:
        _need_real_out(c)
        return mean_meta(c)
    dim_list(c, 1, t.ndim, chosen)
    if t.dtype.kind == KIND_FLOAT:
        _need_real_out(c)
    return reduced(t, chosen, bool_arg(c, 2), sum_dtype(c, 3, t), result_device(c))


cdef object prod_meta(Call* c):
    """Arguments: input, int? dim, keepdim, dtype."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef int dim = -1 if is_none(c, 1) else dim_arg(c, 1, t.ndim)
    return reduced_dim_back(c, t, dim, bool_arg(c, 2), sum_dtype(c, 3, t))


define("sum(Tensor input, int[1]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor", sum_meta, OUT,
       "Sum over `dim` (default: all dimensions). Integers and bool give int64 unless `dtype` is given.")
gradient("sum", linear="input", node=lambda dim, keepdim: "SumBackward0" if dim is None and not keepdim else "SumBackward1",
         input=lambda grad, input_meta, dim, keepdim: spread(grad, input_meta.shape, dim, keepdim))
define("nansum(Tensor input, int[1]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor", nan_meta, OUT,
       "Sum over `dim` (default: all dimensions) with NaN counted as zero.")
gradient("nansum", input=lambda grad, input, dim, keepdim: spread(grad, input.shape, dim, keepdim) * ops.isnan(input).logical_not())
define("mean(Tensor input, int[1]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor", mean_meta, OUT,
       "Mean over `dim` (default: all dimensions). The dtype must be floating-point or complex.")
gradient("mean", linear="input", node=lambda dim, keepdim: "MeanBackward0" if dim is None and not keepdim else "MeanBackward1",
         input=lambda grad, input_meta, dim, keepdim: _of.averaged(grad, input_meta.shape, dim, keepdim))
define("nanmean(Tensor input, int[1]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor", nan_meta,
       OUT | OPTION_A,
       "Mean over `dim` (default: all dimensions) of the elements that are not NaN. The dtype must be floating-point.")
recorded_as("nanmean", _nanmean)
define("prod(Tensor input, int? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor", prod_meta, OUT,
       "Product over dimension `dim` (default: all dimensions). Integers and bool give int64 unless `dtype` is given.")
gradient("prod", node=lambda dim, keepdim: "ProdBackward0" if dim is None and not keepdim else "ProdBackward1",
         input=lambda grad, input, dim, keepdim, result: _of.multiplied(grad, input, dim, keepdim, result))


# all, any, count_nonzero ----------------------------------------------------------------

cdef object truth_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef DType d = by_code(U8 if t.dtype.code == U8 else BOOL)
    cdef bint chosen[MAX_DIMS]
    cdef int i
    dim_list(c, 1, t.ndim, chosen)
    # Unlike in other reductions, an empty list means no dimensions rather than all.
    if not is_none(c, 1) and not isinstance(arg(c, 1), int) and not arg(c, 1):
        for i in range(t.ndim):
            chosen[i] = False
    if c.out != NULL and isinstance(<object>c.out, Tensor) and (<Tensor>c.out).dtype.code in (BOOL, U8):
        d = (<Tensor>c.out).dtype       # out= may be bool or uint8
    return reduced(t, chosen, bool_arg(c, 2), d, result_device(c))


cdef object count_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef bint chosen[MAX_DIMS]
    dim_list(c, 1, t.ndim, chosen)
    return reduced(t, chosen, False, by_code(I64), result_device(c))


define("all(Tensor input, int[1]? dim=None, bool keepdim=False) -> Tensor", truth_meta, OUT | EXACT_OUT | NO_GRAD,
       "Test whether all elements over `dim` (default: all dimensions) are true. The result is bool, or uint8 for "
       "uint8.")
define("any(Tensor input, int[1]? dim=None, bool keepdim=False) -> Tensor", truth_meta, OUT | EXACT_OUT | NO_GRAD,
       "Test whether any element over `dim` (default: all dimensions) is true. The result is bool, or uint8 for uint8.")
define("count_nonzero(Tensor input, int[1]? dim=None) -> Tensor", count_meta, OUT | NO_GRAD,
       "Count the elements over `dim` (default: all dimensions) that are not zero. The result is int64.")


# Largest and smallest ---------------------------------------------------------------------

cdef object amax_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef bint chosen[MAX_DIMS]
    cdef int named = dim_list(c, 1, t.ndim, chosen)
    require_real(c, t)
    require_some(c, t, named, chosen)
    if c.out != NULL and isinstance(<object>c.out, Tensor) and (<Tensor>c.out).dtype is not t.dtype:
        raise RuntimeError(f"{op_name(c)}(): out must have the dtype of input, {t.dtype.name}, "
                           f"got {(<Tensor>c.out).dtype.name}")
    return reduced_back(c, t, chosen, bool_arg(c, 2), t.dtype)


cdef object aminmax_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef bint keepdim = bool_arg(c, 2)
    cdef int dim = -1
    if is_none(c, 1):
        require_elements(c, t)
    else:
        dim = dim_arg(c, 1, t.ndim)
        require_nonempty(c, t, dim)
    require_real(c, t)
    return make_returns(c, (reduced_dim_back(c, t, dim, keepdim, t.dtype),
                            reduced_dim_back(c, t, dim, keepdim, t.dtype)))


cdef object max_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    require_real(c, t)
    require_elements(c, t)
    return new_contiguous(0, NULL, t.dtype, result_device(c))


cdef object values_indices(Call* c, Tensor t, int dim, bint keepdim):
    cdef Device device = result_device(c)
    return make_returns(c, (reduced_dim(t, dim, keepdim, t.dtype, device),
                            reduced_dim(t, dim, keepdim, by_code(I64), device)))


cdef object max_dim_meta(Call* c):
    """Arguments: input, int dim, keepdim. Returns (values, indices)."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef int dim = dim_arg(c, 1, t.ndim)
    require_nonempty(c, t, dim)
    require_ordered(c, t)
    return values_indices(c, t, dim, bool_arg(c, 2))


cdef object argmax_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef int dim = -1
    require_ordered(c, t)
    if t.dtype.kind == KIND_BOOL:
        raise RuntimeError(f"{op_name(c)}(): bool input is not supported")
    if not is_none(c, 1):
        dim = dim_arg(c, 1, t.ndim)
        require_nonempty(c, t, dim)
    elif t.total == 0:
        raise IndexError(f"{op_name(c)}(): input is empty (shape {shape_str(t)}); pass a dimension that is not "
                         "empty as 'dim'")
    return reduced_dim(t, dim, bool_arg(c, 2), by_code(I64), result_device(c))


define("amax(Tensor input, int[1]? dim=(), bool keepdim=False) -> Tensor", amax_meta, OUT,
       "Largest element over `dim` (default: all dimensions).")
gradient("amax", input=lambda grad, input, dim, keepdim, result: _of.shared(grad, input, dim, keepdim, result))
define("amin(Tensor input, int[1]? dim=(), bool keepdim=False) -> Tensor", amax_meta, OUT,
       "Smallest element over `dim` (default: all dimensions).")
gradient("amin", input=lambda grad, input, dim, keepdim, result: _of.shared(grad, input, dim, keepdim, result))
define("aminmax(Tensor input, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)", aminmax_meta, OUT | EXACT_OUT,
       "Smallest and largest element over dimension `dim` (default: all dimensions), as (min, max).")
gradient("aminmax", input=lambda grads, input, dim, keepdim, min, max: _of.shared_ends(grads, input, dim, keepdim, min, max))
define("max(Tensor input) -> Tensor", max_meta, OUT,
       "Largest element. With `dim`, return the largest element along that dimension and its int64 index, as (values, "
       "indices). With `other`, return the larger element of the two tensors at each position, like `maximum`.")
gradient("max", node="MaxBackward1", input=lambda grad, input, result: _of.shared_by_all(grad, input, result))
# The overload with a tensor comes first, because a 0-d integer tensor is also accepted as `dim`.
define("max.other(Tensor input, Tensor other) -> Tensor", binary, OUT | REAL_ONLY | ELEMENTWISE)
gradient("max.other", node="MaximumBackward0", input=lambda grad, input, other: share(grad, input, other, input < other),
         other=lambda grad, input, other: share(grad, input, other, input > other))
define("max.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", max_dim_meta,
       OUT | EXACT_OUT | NO_OVERLAP)
gradient("max.dim", input=lambda grad, input_meta, dim, keepdim, indices: _of.chosen(grad, input_meta.shape, dim, keepdim, indices))
define("min(Tensor input) -> Tensor", max_meta, OUT,
       "Smallest element. With `dim`, return the smallest element along that dimension and its int64 index, as "
       "(values, indices). With `other`, return the smaller element of the two tensors at each position, like "
       "`minimum`.")
gradient("min", node="MinBackward1", input=lambda grad, input, result: _of.shared_by_all(grad, input, result))
define("min.other(Tensor input, Tensor other) -> Tensor", binary, OUT | REAL_ONLY | ELEMENTWISE)
gradient("min.other", node="MinimumBackward0", input=lambda grad, input, other: share(grad, input, other, input > other),
         other=lambda grad, input, other: share(grad, input, other, input < other))
define("min.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", max_dim_meta,
       OUT | EXACT_OUT | NO_OVERLAP)
gradient("min.dim", input=lambda grad, input_meta, dim, keepdim, indices: _of.chosen(grad, input_meta.shape, dim, keepdim, indices))
define("argmax(Tensor input, int? dim=None, bool keepdim=False) -> Tensor", argmax_meta, OUT | EXACT_OUT | NO_GRAD,
       "Index of the largest element along `dim`, or in the flattened input if `dim` is None, as int64.")
define("argmin(Tensor input, int? dim=None, bool keepdim=False) -> Tensor", argmax_meta, OUT | EXACT_OUT | NO_GRAD,
       "Index of the smallest element along `dim`, or in the flattened input if `dim` is None, as int64.")


# Variance and standard deviation -----------------------------------------------------------

cdef object var_meta(Call* c):
    """Arguments: input, int[]? dim, unbiased or correction, keepdim."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef DType real = to_real(t.dtype)
    cdef bint chosen[MAX_DIMS]
    cdef bint keepdim = bool_arg(c, 3)
    cdef Tensor deviation
    require_floating(c, t.dtype)
    dim_list(c, 1, t.ndim, chosen)
    deviation = reduced(t, chosen, keepdim, real, result_device(c))
    if op_flags(c) & OPTION_B and keepdim and real is t.dtype:      # else PyTorch returns a copy
        put_back(deviation, chosen)
    if op_flags(c) & OPTION_A:
        return deviation, reduced(t, chosen, keepdim, t.dtype, result_device(c))
    return deviation


cdef object var_all_meta(Call* c):
    """Arguments: input, unbiased."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef Tensor v
    require_floating(c, t.dtype)
    v = new_contiguous(0, NULL, to_real(t.dtype), result_device(c))
    return (v, new_contiguous(0, NULL, t.dtype, result_device(c))) if op_flags(c) & OPTION_A else v


cdef int define_var(str name, str result, long flags, str doc) except -1:
    define(f"{name}(Tensor input, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> {result}",
           var_meta, flags, doc)
    define(f"{name}.dim(Tensor input, int[1]? dim, bool unbiased=True, bool keepdim=False) -> {result}",
           var_meta, flags)
    define(f"{name}.unbiased(Tensor input, bool unbiased=True) -> {result}", var_all_meta, flags)
    return 0

define_var("var", "Tensor", OUT | OPTION_B,
           "Variance over `dim` (default: all dimensions): the sum of squared deviations from the mean, divided by the "
           "number of elements minus `correction`, which defaults to 1.")
define_var("std", "Tensor", OUT, "Standard deviation over `dim`: the square root of `var`.")
define_var("var_mean", "(Tensor, Tensor)", OPTION_A | OPTION_B, "Variance (see `var`) and mean over `dim`, as a tuple.")
define_var("std_mean", "(Tensor, Tensor)", OPTION_A, "Standard deviation (see `std`) and mean over `dim`, as a tuple.")

gradient("var", input=lambda grad, input, dim, correction, keepdim: _of.variance(grad, input, dim, correction, keepdim))
gradient("var.dim", input=lambda grad, input, dim, unbiased, keepdim: _of.variance(grad, input, dim, int(unbiased), keepdim))
gradient("var.unbiased", input=lambda grad, input, unbiased: _of.variance(grad, input, None, int(unbiased), False))
gradient("std", input=lambda grad, input, dim, correction, keepdim, result: _of.deviation(grad, input, dim, correction, keepdim, result))
gradient("std.dim", input=lambda grad, input, dim, unbiased, keepdim, result:
         _of.deviation(grad, input, dim, int(unbiased), keepdim, result))
gradient("std.unbiased", input=lambda grad, input, unbiased, result: _of.deviation(grad, input, None, int(unbiased), False, result))
gradient("var_mean", input=lambda grads, input, dim, correction, keepdim: _of.variance_and_mean(grads, input, dim, correction, keepdim),
         tangent=lambda input, input_tangent, dim, correction, keepdim:
         _tangent.variance_and_mean(input, input_tangent, dim, correction, keepdim))
gradient("var_mean.dim", input=lambda grads, input, dim, unbiased, keepdim:
         _of.variance_and_mean(grads, input, dim, int(unbiased), keepdim),
         tangent=lambda input, input_tangent, dim, unbiased, keepdim:
         _tangent.variance_and_mean(input, input_tangent, dim, int(unbiased), keepdim))
gradient("var_mean.unbiased", input=lambda grads, input, unbiased: _of.variance_and_mean(grads, input, None, int(unbiased), False),
         tangent=lambda input, input_tangent, unbiased: _tangent.variance_and_mean(input, input_tangent, None, int(unbiased), False))
gradient("std_mean", input=lambda grads, input, dim, correction, keepdim, result:
         _of.deviation_and_mean(grads, input, dim, correction, keepdim, result),
         tangent=lambda input, input_tangent, dim, correction, keepdim, result:
         _tangent.deviation_and_mean(input, input_tangent, dim, correction, keepdim, result))
gradient("std_mean.dim", input=lambda grads, input, dim, unbiased, keepdim, result:
         _of.deviation_and_mean(grads, input, dim, int(unbiased), keepdim, result),
         tangent=lambda input, input_tangent, dim, unbiased, keepdim, result:
         _tangent.deviation_and_mean(input, input_tangent, dim, int(unbiased), keepdim, result))
gradient("std_mean.unbiased", input=lambda grads, input, unbiased, result:
         _of.deviation_and_mean(grads, input, None, int(unbiased), False, result),
         tangent=lambda input, input_tangent, unbiased, result:
         _tangent.deviation_and_mean(input, input_tangent, None, int(unbiased), False, result))


# Others ------------------------------------------------------------------------------------

cdef object logsumexp_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef DType d = default_float() if t.dtype.kind <= KIND_INT else t.dtype
    cdef bint chosen[MAX_DIMS]
    dim_list(c, 1, t.ndim, chosen)
    if d.kind == KIND_COMPLEX and c.out != NULL and isinstance(<object>c.out, Tensor) and (<Tensor>c.out).dtype.kind == KIND_FLOAT:
        d = to_real(d)      # PyTorch drops the imaginary part of the sum before it takes the logarithm
    return reduced(t, chosen, bool_arg(c, 2), d, result_device(c))


cdef object trace_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    if t.ndim != 2:
        raise RuntimeError(f"trace(): input must be a matrix, got shape {shape_str(t)}")
    if t.dtype.kind == KIND_BOOL:
        refuse(c, t.dtype)
    return new_contiguous(0, NULL, by_code(I64) if t.dtype.kind <= KIND_INT else t.dtype, result_device(c))


cdef object sum_to_size_body(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t sizes[MAX_DIMS]
    cdef int n = dims_arg(c, 1, sizes), shift = t.ndim - n, i
    cdef bint fits = shift >= 0, same = shift == 0
    cdef list dims = []
    if fits:
        for i in range(t.ndim):
            if i < shift:
                dims.append(i)
            elif sizes[i - shift] != t.sizes[i]:
                fits = fits and sizes[i - shift] == 1
                same = False
                dims.append(i)
    if not fits:
        raise RuntimeError(f"sum_to_size(): size {[sizes[i] for i in range(n)]} does not expand to the shape of "
                           f"input, {shape_str(t)}")
    if n == 0:
        return call("sum", (t,))
    if same:
        return t
    t = call("sum", (t, dims, True))
    return call("reshape", (t, [sizes[i] for i in range(n)])) if shift else t


define("logsumexp(Tensor input, int[1] dim, bool keepdim=False) -> Tensor", logsumexp_meta, OUT,
       "Logarithm of the sum of exponentials over `dim`, computed without overflow. Integers give the default float "
       "dtype.")
gradient("logsumexp", input=lambda grad, input, dim, keepdim, result: _of.log_summed(grad, input, dim, keepdim, result))
alias_op("special.logsumexp", "logsumexp")
define("trace(Tensor input) -> Tensor", trace_meta, OUT, "Sum of the main diagonal of a matrix.")
gradient("trace", linear="input", input=lambda grad, input_meta: within(grad, input_meta.shape, "diagonal"))
define("sum_to_size(Tensor input, int[] size) -> Tensor", sum_to_size_body, COMPOSITE | METHOD_ONLY,
       "Undo a broadcast: sum over the dimensions that a tensor of shape `size` would gain or repeat if it were "
       "broadcast to the input's shape. The result has shape `size`.")
