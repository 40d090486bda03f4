"""Reductions and normalizations over the elements that a mask selects: `masked.*`.

The mask must broadcast to the input's shape. It is converted to bool. Where it is True, elements are selected. Where
it is False, they are masked out, which means that they are replaced by the identity of the operation, such as 0 in a
sum, 1 in a product and the lowest value in a maximum. Without a mask, all elements are selected.
"""
from metatensor._core.device cimport META
from metatensor._core.dtype cimport F32, I64, U8, DType, by_code, to_real
from metatensor._core.layout cimport dims_equal
from metatensor._core.op cimport (
    COMPOSITE, Call, arg, bool_arg, call, define, dim_arg, dim_list, is_none, op_name, tensor_arg,
)
from metatensor._core.tensor cimport Tensor, shape_str
from metatensor._core.types cimport KIND_BOOL, KIND_COMPLEX, KIND_FLOAT, KIND_INT, MAX_DIMS
from metatensor.ops.view cimport dims_tuple

# The value that replaces a masked-out element.
cdef enum Neutral:
    ZERO, ONE, LOWEST, HIGHEST, LOG_ZERO, NOTHING


# Masks --------------------------------------------------------------------------------------

cdef object extreme(Call* c, DType d, bint lowest):
    """Return the lowest or highest value of a dtype. Raise for dtypes without an order or a supported range."""
    cdef object reach
    if d.kind == KIND_FLOAT:
        return float("-inf" if lowest else "inf")
    if d.kind == KIND_COMPLEX:
        raise TypeError(f"{op_name(c)}(): complex numbers have no order; input is {d.name}")
    if d.kind != KIND_INT or (not d.is_signed and d.code != U8):
        raise NotImplementedError(f"{op_name(c)}(): a mask is not supported for {d.name}")
    if not d.is_signed:
        return 0 if lowest else 255
    reach = 1 << <object>(8 * d.itemsize - 1)
    return -reach if lowest else reach - 1


cdef object neutral(Call* c, DType d, int which):
    """Return the value for masked-out elements.

    It is a Python number of the dtype's category, so that it does not promote the input.
    """
    if which == LOG_ZERO and d.kind == KIND_COMPLEX:
        return complex(float("-inf"), 0)
    if which == LOWEST or which == LOG_ZERO:
        return extreme(c, d, True)
    if which == HIGHEST:
        return extreme(c, d, False)
    if which == NOTHING:
        return float("nan")
    if d.kind == KIND_BOOL:
        return which == ONE
    return complex(which == ONE) if d.kind == KIND_COMPLEX else int(which == ONE)


cdef Tensor shown(Call* c, Tensor t, int slot):
    """Return the mask in a slot as bool, expanded to the shape of `t`."""
    cdef Tensor mask = tensor_arg(c, slot)
    if mask.ndim != t.ndim or not dims_equal(mask.sizes, t.sizes, t.ndim):
        if mask.ndim > t.ndim:
            raise IndexError(f"{op_name(c)}(): a mask of shape {shape_str(mask)} does not broadcast to the shape "
                             f"{shape_str(t)}, which has fewer dimensions")
        mask = <Tensor>call("broadcast_to", (call("clone", (mask,)), dims_tuple(t.ndim, t.sizes)))
    return <Tensor>call("bool", (mask,))


cdef Tensor hide(Call* c, Tensor t, int slot, int which):
    """Return `t` with its masked-out elements replaced by the value for `which`, or `t` itself without a mask."""
    cdef Tensor mask
    if is_none(c, slot):
        return t
    mask = shown(c, t, slot)
    return <Tensor>call("where", (mask, t, neutral(c, t.dtype, which)))


# Arguments ------------------------------------------------------------------------------------

cdef list dims_of(Call* c, int slot, int ndim):
    """Return the dimensions given in a slot in ascending order, or all dimensions if none are given."""
    cdef bint chosen[MAX_DIMS]
    cdef int i
    if dim_list(c, slot, ndim, chosen) and ndim == 0:
        return [0]
    return [i for i in range(ndim) if chosen[i]]


cdef bint flag(Call* c, int slot) except -1:
    """Return a bool argument. None counts as False."""
    return not is_none(c, slot) and bool_arg(c, slot)


cdef DType sum_type(Call* c, int slot, DType d):
    if not is_none(c, slot):
        return <DType>arg(c, slot)
    return by_code(I64) if d.kind == KIND_BOOL or (d.kind == KIND_INT and (d.is_signed or d.code == U8)) else d


cdef DType own_type(Call* c, int slot):
    return tensor_arg(c, 0).dtype if is_none(c, slot) else <DType>arg(c, slot)


cdef Tensor as_type(Tensor t, DType d):
    return <Tensor>call("to", (t,), {"dtype": d})


# Sums -----------------------------------------------------------------------------------------

cdef object sum_body(Call* c):
    """Arguments: input, dim, keepdim, dtype, mask. Reductions without a docstring take the same arguments."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef list dims = dims_of(c, 1, t.ndim)
    return call("sum", (hide(c, t, 4, ZERO), dims, flag(c, 2)), {"dtype": sum_type(c, 3, t.dtype)})


cdef object prod_body(Call* c):
    cdef Tensor t = tensor_arg(c, 0), shown_part
    cdef list dims = dims_of(c, 1, t.ndim)
    cdef bint keepdim = flag(c, 2)
    cdef DType d = sum_type(c, 3, t.dtype)
    shown_part = t = as_type(hide(c, t, 4, ONE), d)
    if not is_none(c, 1) and arg(c, 1) == ():
        return t                # unlike the other reductions, as in PyTorch
    for dim in reversed(dims):
        t = <Tensor>call("prod", (t, dim, keepdim))
    return t


cdef object running_body(Call* c, str name, int which):
    """Arguments: input, dim, dtype, mask. Unlike `masked.sum`, integer inputs keep their dtype."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef DType d = own_type(c, 2)
    cdef int dim = dim_arg(c, 1, t.ndim)
    return as_type(<Tensor>call(name, (hide(c, t, 3, which), dim), {"dtype": d}), d)


cdef object cumsum_body(Call* c):
    return running_body(c, "cumsum", ZERO)


cdef object cumprod_body(Call* c):
    return running_body(c, "cumprod", ONE)


cdef object count_of(Call* c, Tensor t, Tensor mask, int slot, bint keepdim):
    """Return the number of elements in each sum, as a tensor of the result's shape."""
    dims_of(c, slot, t.ndim)        # errors name this operator
    if mask is None and t.storage.device is META:       # as PyTorch does it, which shows in the memory
        mask = <Tensor>call("ones", (dims_tuple(t.ndim, t.sizes),), {"dtype": by_code(I64), "device": META})
    elif mask is None:
        mask = <Tensor>call("ones", ((1,) * t.ndim,), {"dtype": by_code(I64), "device": t.storage.device})
        mask = <Tensor>call("broadcast_to", (mask, dims_tuple(t.ndim, t.sizes)))
    return call("sum", (mask, arg(c, slot), keepdim))


cdef Tensor masked_sum(Tensor t, Tensor mask, object dims, bint keepdim, DType d):
    return <Tensor>call("masked.sum", (t, dims), {"keepdim": keepdim, "dtype": d, "mask": mask})


cdef object mean_body(Call* c):
    cdef Tensor t = tensor_arg(c, 0), mask = None
    cdef DType d = own_type(c, 3)
    cdef bint keepdim = flag(c, 2)
    cdef object count
    if d.kind != KIND_FLOAT and d.kind != KIND_COMPLEX:
        raise ValueError(f"{op_name(c)}(): the dtype of a mean must be floating-point or complex, not {d.name}; pass "
                         "another one as 'dtype'")
    if not is_none(c, 4):
        mask = shown(c, t, 4)
    count = count_of(c, t, mask, 1, keepdim)
    return call("div", (masked_sum(t, mask, arg(c, 1), keepdim, d), count))


cdef object spread_body(Call* c):
    """Compute var or std. Arguments: input, dim, unbiased, correction, keepdim, dtype, mask."""
    cdef Tensor t = tensor_arg(c, 0), mask = None, x, mean, sums, total
    cdef DType d = own_type(c, 5), compute
    cdef bint keepdim = flag(c, 4)
    cdef object dims = arg(c, 1), count, correction = 1
    if not is_none(c, 2) and not is_none(c, 3):
        raise AssertionError(f"{op_name(c)}(): unbiased and correction cannot be given together")
    if not is_none(c, 2):
        correction = 1 if bool_arg(c, 2) else 0
    elif not is_none(c, 3):
        correction = arg(c, 3)
    compute = d
    if d.kind != KIND_FLOAT and d.kind != KIND_COMPLEX:
        compute = by_code(F32)
        if is_none(c, 5):
            d = compute
    if not is_none(c, 6):
        mask = shown(c, t, 6)
    count = count_of(c, t, mask, 1, True)
    sums = masked_sum(t, mask, dims, True, d)
    mean = <Tensor>call("div", (sums, count))
    x = <Tensor>call("sub", (t, mean))
    total = masked_sum(<Tensor>call("mul", (x, call("conj", (x,)))), mask, dims, keepdim, compute)
    if not keepdim:
        count = call("reshape", (count, dims_tuple(total.ndim, total.sizes)))
    if correction != 0:
        count = call("sub", (as_type(<Tensor>count, to_real(compute)), correction))
        count = call("maximum", (count, call("new_zeros", (count, ()))))
    total = as_type(<Tensor>call("div", (total, count)), d)
    return call("sqrt", (total,)) if op_name(c) == "masked.std" else total


cdef object norm_body(Call* c):
    """Arguments: input, ord, dim, keepdim, dtype, mask."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef DType d = own_type(c, 4)
    cdef object order = arg(c, 1)
    cdef bint smallest = order == float("-inf")
    if smallest and not is_none(c, 5) and t.dtype.kind != KIND_FLOAT:
        shown(c, t, 5)
        raise AssertionError(f"{op_name(c)}(): with ord=-inf and a mask the input must be floating-point, got "
                             f"{t.dtype.name}")
    t = hide(c, t, 5, HIGHEST if smallest else ZERO)
    return call("linalg.vector_norm", (t, order, dims_of(c, 2, t.ndim), flag(c, 3)), {"dtype": d})


cdef object normalize_body(Call* c):
    """Arguments: input, ord, dim, eps, dtype, mask."""
    cdef Tensor t = tensor_arg(c, 0), length
    length = <Tensor>call("masked.norm", (t, arg(c, 1), arg(c, 2)),
                          {"keepdim": True, "dtype": own_type(c, 4), "mask": arg(c, 5)})
    least = call("maximum", (length, call("full", ((), arg(c, 3)), {"dtype": length.dtype, "device": length.storage.device})))
    return call("div", (hide(c, t, 5, ZERO), least))


# Order ------------------------------------------------------------------------------------------

cdef object amax_body(Call* c):
    cdef Tensor t = hide(c, tensor_arg(c, 0), 4, LOWEST)
    return as_type(<Tensor>call("amax", (t, dims_of(c, 1, t.ndim), flag(c, 2))), own_type(c, 3))


cdef object amin_body(Call* c):
    cdef Tensor t = hide(c, tensor_arg(c, 0), 4, HIGHEST)
    return as_type(<Tensor>call("amin", (t, dims_of(c, 1, t.ndim), flag(c, 2))), own_type(c, 3))


cdef object argmax_body(Call* c):
    """Without `dtype`, the index has the dtype of the input, as in PyTorch."""
    cdef Tensor t = hide(c, tensor_arg(c, 0), 4, LOWEST)
    return as_type(<Tensor>call("argmax", (t, arg(c, 1), flag(c, 2))), own_type(c, 3))


cdef object argmin_body(Call* c):
    cdef Tensor t = hide(c, tensor_arg(c, 0), 4, HIGHEST)
    return as_type(<Tensor>call("argmin", (t, arg(c, 1), flag(c, 2))), own_type(c, 3))


cdef object median_body(Call* c):
    """Convert integers to float32, and masked-out elements to NaN, before taking the median.

    Raise ValueError if a row of integers has no selected element, because the median is NaN, which their dtype cannot
    hold.
    """
    cdef Tensor t = tensor_arg(c, 0), found
    cdef DType d = own_type(c, 3)
    cdef int dim = dim_arg(c, 1, t.ndim)
    cdef bint floating = t.dtype.kind == KIND_FLOAT
    if not floating:
        t = as_type(t, by_code(F32))
    t = hide(c, t, 4, NOTHING)
    found = <Tensor>(<object>call("nanmedian", (t, dim, bool_arg(c, 2)))).values
    if floating:
        return found
    if found.storage.data is not None and call("any", (call("isnan", (found,)),)).item():
        raise ValueError(f"{op_name(c)}(): a row without selected elements has median NaN, which {d.name} cannot hold")
    return as_type(found, d)


# Exponentials -------------------------------------------------------------------------------------

cdef object logsumexp_body(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef list dims = dims_of(c, 1, t.ndim)
    cdef DType d = own_type(c, 3)
    return as_type(<Tensor>call("logsumexp", (hide(c, t, 4, LOG_ZERO), dims, bool_arg(c, 2))), d)


cdef object logaddexp_body(Call* c):
    """Arguments: input, other, dtype, input_mask, other_mask."""
    cdef Tensor a = hide(c, tensor_arg(c, 0), 3, LOWEST), b = hide(c, tensor_arg(c, 1), 4, LOWEST)
    return as_type(<Tensor>call("logaddexp", (a, b)), own_type(c, 2))


cdef object share_body(Call* c, str name, int which):
    """Arguments: input, dim, dtype, mask."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef int dim = dim_arg(c, 1, t.ndim)
    return call(name, (hide(c, t, 3, which), dim), {"dtype": own_type(c, 2)})


cdef object softmax_body(Call* c):
    return share_body(c, "nn.functional.softmax", LOWEST)


cdef object log_softmax_body(Call* c):
    return share_body(c, "nn.functional.log_softmax", LOWEST)


cdef object softmin_body(Call* c):
    return share_body(c, "nn.functional.softmin", HIGHEST)


cdef str REDUCE = "int[1]? dim=None, *, bool? keepdim=False, dtype? dtype=None, Tensor? mask=None) -> Tensor"
cdef str ALONG = "int dim, *, dtype? dtype=None, Tensor? mask=None) -> Tensor"

define(f"masked.sum(Tensor input, {REDUCE}", sum_body, COMPOSITE,
       "Sum of the selected elements over `dim`, or 0 if there are none. Inputs of bools, signed integers or uint8 give int64.")
define(f"masked.prod(Tensor input, {REDUCE}", prod_body, COMPOSITE,
       "Product of the selected elements over `dim`, or 1 if there are none. Inputs of bools, signed integers or uint8 give int64.")
define(f"masked.cumsum(Tensor input, {ALONG}", cumsum_body, COMPOSITE,
       "Cumulative sum of the selected elements along `dim`, in the dtype of `input` unless `dtype` is given.")
define(f"masked.cumprod(Tensor input, {ALONG}", cumprod_body, COMPOSITE,
       "Cumulative product of the selected elements along `dim`, in the dtype of `input` unless `dtype` is given.")
define(f"masked.mean(Tensor input, {REDUCE}", mean_body, COMPOSITE,
       "Mean of the selected elements over `dim`, or NaN if there are none. The dtype must be floating-point or "
       "complex.")
define("masked.var(Tensor input, int[1]? dim=None, bool? unbiased=None, *, Scalar? correction=None, "
       "bool? keepdim=False, dtype? dtype=None, Tensor? mask=None) -> Tensor", spread_body, COMPOSITE,
       "Variance of the selected elements over `dim`: the sum of squared deviations divided by N - `correction` "
       "(default 1), where N is the number of selected elements.")
define("masked.std(Tensor input, int[1]? dim=None, bool? unbiased=None, *, Scalar? correction=None, "
       "bool? keepdim=False, dtype? dtype=None, Tensor? mask=None) -> Tensor", spread_body, COMPOSITE,
       "Standard deviation of the selected elements over `dim`: the square root of `masked.var`.")
define("masked.norm(Tensor input, Scalar? ord=2.0, int[1]? dim=None, *, bool? keepdim=False, dtype? dtype=None, "
       "Tensor? mask=None) -> Tensor", norm_body, COMPOSITE,
       "Vector norm of order `ord` of the selected elements over `dim`.")
define("masked.normalize(Tensor input, Scalar ord, int[1]? dim, *, float eps=1e-12, dtype? dtype=None, "
       "Tensor? mask=None) -> Tensor", normalize_body, COMPOSITE,
       "Divide the selected elements by their norm of order `ord` over `dim`, or by `eps` if that is larger. "
       "Masked-out elements become 0.")
define(f"masked.amax(Tensor input, {REDUCE}", amax_body, COMPOSITE, "Largest selected element over `dim`.")
define(f"masked.amin(Tensor input, {REDUCE}", amin_body, COMPOSITE, "Smallest selected element over `dim`.")
define("masked.argmax(Tensor input, int? dim=None, *, bool? keepdim=False, dtype? dtype=None, Tensor? mask=None) "
       "-> Tensor", argmax_body, COMPOSITE,
       "Index of the largest selected element along `dim`, in the dtype of `input` unless `dtype` is given.")
define("masked.argmin(Tensor input, int? dim=None, *, bool? keepdim=False, dtype? dtype=None, Tensor? mask=None) "
       "-> Tensor", argmin_body, COMPOSITE,
       "Index of the smallest selected element along `dim`, in the dtype of `input` unless `dtype` is given.")
define("masked.median(Tensor input, int dim=-1, *, bool keepdim=False, dtype? dtype=None, Tensor? mask=None) "
       "-> Tensor", median_body, COMPOSITE,
       "Median of the selected elements along `dim`, ignoring NaN. If their number is even, it is the lower of the two "
       "middle elements.")
define("masked.logsumexp(Tensor input, int[1]? dim=None, *, bool keepdim=False, dtype? dtype=None, "
       "Tensor? mask=None) -> Tensor", logsumexp_body, COMPOSITE,
       "Logarithm of the sum of the exponentials of the selected elements over `dim`.")
define("masked.logaddexp(Tensor input, Tensor other, *, dtype? dtype=None, Tensor? input_mask=None, "
       "Tensor? other_mask=None) -> Tensor", logaddexp_body, COMPOSITE,
       "`log(exp(input) + exp(other))`. Elements that are masked out by `input_mask` or `other_mask` count as -inf.")
define(f"masked.softmax(Tensor input, {ALONG}", softmax_body, COMPOSITE,
       "Softmax of the selected elements along `dim`. The other elements become 0. Slices without a selected element "
       "become NaN.")
define(f"masked.log_softmax(Tensor input, {ALONG}", log_softmax_body, COMPOSITE,
       "Logarithm of `masked.softmax`: -inf at the masked-out elements.")
define(f"masked.softmin(Tensor input, {ALONG}", softmin_body, COMPOSITE,
       "Softmax of the negated selected elements along `dim`. The other elements become 0. Slices without a selected "
       "element become NaN.")
