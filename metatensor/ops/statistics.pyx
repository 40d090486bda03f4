"""Covariance, correlation and hashing."""
from metatensor._core.dtype cimport I64, U64, by_code
from metatensor._core.op cimport (
    EXACT_OUT, COMPOSITE, NO_GRAD, OUT, Call, arg, bool_arg, call, define, dim_list, int_arg, is_none, op_name, result_device,
    tensor_arg,
)
from metatensor._core.tensor cimport Tensor, shape_str
from metatensor._core.types cimport KIND_COMPLEX, KIND_FLOAT, KIND_INT, MAX_DIMS, dim_t
from metatensor.ops.reduction cimport reduced, require_real, require_some


cdef int check_weights(Call* c, Tensor w, str name, dim_t observations) except -1:
    if w.ndim > 1:
        raise RuntimeError(f"cov(): {name} must have at most 1 dimension, got shape {shape_str(w)}")
    if name == "fweights" and w.dtype.kind != KIND_INT:
        raise RuntimeError(f"cov(): fweights must be integers, got {w.dtype.name}")
    if name == "aweights" and w.dtype.kind != KIND_FLOAT:
        raise RuntimeError(f"cov(): aweights must be floating-point, got {w.dtype.name}")
    if w.total != observations:
        raise RuntimeError(f"cov(): {name} must have {observations} elements, one for each observation, got {w.total}")
    if observations:
        least = call("min", (w,))
        if w.storage.data is not None and least.item() < 0:
            raise RuntimeError(f"cov(): {name} must not be negative")
    return 0


cdef object cov_body(Call* c):
    """Arguments: input (variables, observations), correction, fweights, aweights."""
    cdef Tensor t = tensor_arg(c, 0), w = None
    cdef dim_t observations
    cdef object factor, total, mean, weighted, real, correction = arg(c, 1)
    if t.ndim > 2:
        raise RuntimeError(f"{op_name(c)}(): input must have at most 2 dimensions, got shape {shape_str(t)}")
    if t.dtype.kind < KIND_INT:
        raise RuntimeError(f"{op_name(c)}(): bool input is not supported")
    if t.ndim < 2:
        t = call("reshape", (t, (1, -1 if t.total else 0)))
    observations = t.sizes[1]
    if not is_none(c, 2):
        w = tensor_arg(c, 2)
        check_weights(c, w, "fweights", observations)
    if not is_none(c, 3):
        check_weights(c, tensor_arg(c, 3), "aweights", observations)
        w = tensor_arg(c, 3) if w is None else call("mul", (w, tensor_arg(c, 3)))
    if w is None:
        total = call("scalar_tensor", (observations,), {"dtype": by_code(I64), "device": result_device(c)})
        mean = call("div", (call("sum", (t, 1)), total))
    else:
        total = call("sum", (w,))
        mean = call("div", (call("sum", (call("mul", (t, w)), 1)), total))
    if w is not None and correction == 0:
        factor = total
    elif not is_none(c, 3):
        weighted = call("div", (call("sum", (call("mul", (w, tensor_arg(c, 3))),)), total))
        factor = call("sub", (total, call("mul", (weighted, correction))))
    else:
        factor = call("sub", (total, correction))
    if factor is not total:
        call("clamp_min_", (call("detach", (factor,)), 0))
    t = call("sub", (t, call("unsqueeze", (mean, 1))))
    weighted = t if w is None else call("mul", (t, w))
    weighted = call("conj", (call("t", (weighted,)),))
    t = call("mm", (t, weighted))
    if t.total == 1 and t.dtype.kind == KIND_COMPLEX:
        real = call("real", (t,))       # a variance
        t = call("complex", (real, call("zeros_like", (real,))))
    return call("squeeze", (call("div", (t, factor)),))


cdef object corrcoef_body(Call* c):
    cdef Tensor t = call("cov", (tensor_arg(c, 0),)), d
    cdef object real
    if t.ndim == 0:
        return call("div", (t, t))      # 1, or NaN if the variance is 0
    d = call("diagonal", (t,))
    real = call("sqrt", (call("real", (d,)) if d.dtype.kind == KIND_COMPLEX else d,))
    t = call("div", (call("div", (t, call("unsqueeze", (real, 1)))), call("unsqueeze", (real, 0))))
    if t.dtype.kind == KIND_COMPLEX:
        return call("complex", (call("clamp", (call("real", (t,)), -1, 1)), call("clamp", (call("imag", (t,)), -1, 1))))
    return call("clamp", (t, -1, 1))


cdef object hash_meta(Call* c):
    """Arguments: input, dim, keepdim, mode."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef bint chosen[MAX_DIMS]
    require_some(c, t, dim_list(c, 1, t.ndim, chosen), chosen)
    require_real(c, t)
    if int_arg(c, 3) != 0:
        raise RuntimeError(f"hash_tensor(): mode must be 0, got {int_arg(c, 3)}")
    return reduced(t, chosen, bool_arg(c, 2), by_code(U64), result_device(c))


define("cov(Tensor input, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor", cov_body,
       COMPOSITE,
       "Covariance matrix of V variables (rows) over N observations (columns): (V, N) gives (V, V), or a 0-d tensor if "
       "V is 1. A vector is one variable. `fweights` is an integer count and `aweights` a floating-point weight for "
       "each observation. The divisor is N - `correction`, or its weighted equivalent.")
define("corrcoef(Tensor input) -> Tensor", corrcoef_body, COMPOSITE,
       "Correlation coefficients of V variables (rows) over N observations (columns): (V, N) gives (V, V), with "
       "values in [-1, 1].")
define("hash_tensor(Tensor input, int[1]? dim=(), *, bool keepdim=False, int mode=0) -> Tensor", hash_meta,
       OUT | NO_GRAD | EXACT_OUT,
       "Hash of the elements over `dim` (default: all dimensions): the exclusive or of their 64-bit patterns, as "
       "uint64. `mode` must be 0.")
