"""Norms and distances. The results are real, even for complex inputs."""
from metatensor._core.dtype cimport DType, promotion, to_real
from metatensor._core.layout cimport Layout, broadcast_into, copy_dims, count, mul_dims
from metatensor._core.op cimport (
    COMPOSITE, EXACT_OUT, FUNCTION_ONLY, INPLACE, OUT, Call, arg, bool_arg, call, define, dim_arg, dim_list, dims_arg,
    float_arg, is_none, op_name, result_device, tensor_arg, wrap,
)
from metatensor._core.tensor cimport Tensor, new_contiguous, new_strided, shape_str
from metatensor._core.types cimport KIND_BOOL, KIND_COMPLEX, KIND_FLOAT, MAX_DIMS, dim_t
from metatensor.ops.operands cimport Operands, no_operands, operand, promoted
from metatensor.ops.pointwise cimport broadcast_result
from metatensor.ops.reduction cimport reduced, require_floating
from metatensor._core.gradient_parts import Bodies
from metatensor._core.gradients import gradient, recorded_as

_of = Bodies("reductions")


# Parts of gradients ---------------------------------------------------------------------------------

def _matrix_norm(input, ord, dim, keepdim, dtype):
    return _of.matrix_norm(input, ord, dim, keepdim, dtype)


cdef DType norm_dtype(Call* c, int slot, Tensor t):
    """Return the real dtype of a norm.

    `dtype=` must be at least as wide as the input's dtype. It must be complex if the input is, and real otherwise.
    """
    cdef DType d = t.dtype
    require_floating(c, d)
    if not is_none(c, slot):
        d = <DType>c.args[slot]
        require_floating(c, d)
        if (t.dtype.kind == KIND_COMPLEX) != (d.kind == KIND_COMPLEX):
            raise RuntimeError(f"{op_name(c)}(): dtype must be {'complex' if t.dtype.kind == KIND_COMPLEX else 'real'} "
                               f"for {t.dtype.name} inputs, got {d.name}")
        if promotion[t.dtype.code][d.code] != d.code:
            raise RuntimeError(f"{op_name(c)}(): dtype {d.name} is narrower than that of input, {t.dtype.name}")
    return to_real(d)


cdef object vector_norm_meta(Call* c):
    """Arguments: input, Scalar ord, int[]? dim, keepdim, dtype."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef DType d = norm_dtype(c, 4, t)
    cdef bint chosen[MAX_DIMS]
    cdef int i, named = dim_list(c, 2, t.ndim, chosen)
    cdef double order
    if isinstance(arg(c, 1), complex):
        raise RuntimeError(f"{op_name(c)}(): expected a non-complex ord, got {arg(c, 1)!r}")
    order = float_arg(c, 1)
    if t.total == 0 and (order < 0 or order == float("inf")):
        # Without elements there is no largest or smallest one, and the sum 0 has no negative power.
        for i in range(t.ndim):
            if chosen[i] and (not named or t.sizes[i] == 0):
                raise RuntimeError(f"{op_name(c)}(): the {order} norm is not defined for zero elements; input has "
                                   f"shape {shape_str(t)}, dimension {i} is reduced")
    return reduced(t, chosen, bool_arg(c, 3), d, result_device(c))


cdef object matrix_norm_meta(Call* c):
    """Arguments: input, ord, int[] dim, keepdim, dtype."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef DType d = norm_dtype(c, 4, t)
    cdef object order = arg(c, 1)
    cdef dim_t dims[MAX_DIMS]
    cdef bint chosen[MAX_DIMS]
    cdef int i, first, second, n = dims_arg(c, 2, dims)
    cdef bint by_values, known
    if t.ndim < 2:
        raise RuntimeError(f"{op_name(c)}(): input must have at least 2 dimensions, got shape {shape_str(t)}")
    if n != 2:
        raise RuntimeError(f"{op_name(c)}(): dim must name 2 dimensions, got {n}")
    if isinstance(order, str):
        known = order in ("fro", "nuc")
        by_values = order == "nuc"
    else:
        known = not isinstance(order, complex) and abs(order) in (1, 2, float("inf"))
        by_values = known and abs(order) == 2
    if not known:
        raise RuntimeError(f"{op_name(c)}(): ord must be 'fro', 'nuc', inf, -inf, 1, -1, 2 or -2, got {order!r}")
    first = wrap(c, dims[0], t.ndim)
    second = wrap(c, dims[1], t.ndim)
    if first == second:
        raise RuntimeError(f"{op_name(c)}(): dim must name different dimensions, got {first} twice")
    if by_values and t.dtype.itemsize < 4 + 4 * (t.dtype.kind == KIND_COMPLEX) and is_none(c, 4):
        raise RuntimeError(f"{op_name(c)}(): ord {order!r} needs singular values, which are not supported for "
                           f"{t.dtype.name}")
    if t.total == 0 and not isinstance(order, str):
        _check_matrix_empty(c, t, <double>order, first, second)
    for i in range(t.ndim):
        chosen[i] = i == first or i == second
    cdef Tensor out = reduced(t, chosen, bool_arg(c, 3), d, result_device(c))
    if by_values and bool_arg(c, 3):
        return _from_values(c, out, chosen)
    return out


cdef int _check_matrix_empty(Call* c, Tensor t, double order, int first, int second) except -1:
    """Raise IndexError if the norm is the smallest of several sums or singular values, but there are none."""
    cdef int dim
    if order > 0:
        return 0
    for dim in (first, second):
        if t.sizes[dim] == 0 and (order == -2 or (order == -1) == (dim == second)):
            raise IndexError(f"{op_name(c)}(): the {order} norm is not defined for zero elements; dimension {dim} of "
                             f"input {shape_str(t)} is empty")
    return 0


cdef Tensor _from_values(Call* c, Tensor out, const bint* reduced_dims):
    """Return a new result like `out` with the strides of PyTorch's norms of singular values.

    PyTorch computes the result with the reduced dimensions last, so that they have stride 1.
    """
    cdef dim_t strides[MAX_DIMS]
    cdef dim_t step = 1
    cdef int i
    for i in range(out.ndim - 1, -1, -1):
        strides[i] = 1
        if not reduced_dims[i]:
            strides[i] = step
            step = mul_dims(step, max(out.sizes[i], 1))
    return new_strided(out.ndim, out.sizes, strides, out.dtype, result_device(c))


define("linalg.vector_norm(Tensor input, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, dtype? dtype=None) "
       "-> Tensor", vector_norm_meta, OUT | EXACT_OUT,
       "Vector norm of order `ord` over `dim`, or over all elements if `dim` is None.")
gradient("linalg.vector_norm",
         input=lambda grad, input, ord, dim, keepdim, result: _of.vector_norm(grad, input, ord, dim, keepdim, result))
define("linalg.matrix_norm(Tensor input, any ord='fro', int[] dim=(-2, -1), bool keepdim=False, *, dtype? dtype=None) "
       "-> Tensor", matrix_norm_meta, OUT | EXACT_OUT,
       "Norm of the matrices in the two dimensions `dim`. `ord` is 'fro', 'nuc', inf, -inf, 1, -1, 2 or -2.")
recorded_as("linalg.matrix_norm", _matrix_norm)


# Vector or matrix norm ---------------------------------------------------------------------

cdef object linalg_norm_body(Call* c):
    """Arguments: A, ord, dim, keepdim, dtype."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef object order = arg(c, 1), dim = arg(c, 2)
    cdef int n = 1 if isinstance(dim, int) else 0 if dim is None else len(dim)
    if dim is not None and n not in (1, 2):
        raise RuntimeError(f"linalg.norm(): dim must name 1 or 2 dimensions, got {dim}")
    if order is not None:
        if dim is None and t.ndim not in (1, 2):
            raise RuntimeError("linalg.norm(): with ord but without dim the input must have 1 or 2 dimensions, got "
                               "shape "
                               + shape_str(t))
        if n == 2 or (dim is None and t.ndim == 2):
            return call("linalg.matrix_norm", (t, order, (0, 1) if dim is None else dim, arg(c, 3)),
                        {"dtype": arg(c, 4)})
        if isinstance(order, str):
            raise RuntimeError(f"linalg.norm(): ord {order!r} is for matrices, but "
                               f"{'dim names one dimension' if dim is not None else 'the input has shape ' + shape_str(t)}")
        return call("linalg.vector_norm", (t, order, dim, arg(c, 3)), {"dtype": arg(c, 4)})
    return call("linalg.vector_norm", (t, 2, dim, arg(c, 3)), {"dtype": arg(c, 4)})


cdef object norm_body(Call* c):
    """Arguments: input, p, dim, keepdim, dtype."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef object p = arg(c, 1), dim = arg(c, 2)
    cdef dict dtype = {"dtype": arg(c, 4)}
    if isinstance(p, str):
        if p == "fro" and (dim is None or isinstance(dim, int) or len(dim) <= 2):
            return call("linalg.vector_norm", (t, 2, dim, arg(c, 3)), dtype)
        if dim is None:
            dim = list(range(t.ndim))
        return call("linalg.matrix_norm", (t, p, (dim,) if isinstance(dim, int) else dim, arg(c, 3)), dtype)
    return call("linalg.vector_norm", (t, 2 if p is None else p, dim, arg(c, 3)), dtype)


define("linalg.norm(Tensor input, any? ord=None, int[1]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
       linalg_norm_body, COMPOSITE | OUT | EXACT_OUT,
       "Vector or matrix norm. It is `linalg.matrix_norm` if `ord` is given and either `dim` names two dimensions, or "
       "`dim` is None and the input is a matrix. Otherwise it is `linalg.vector_norm`.")
define("norm(Tensor input, any? p='fro', int[1]? dim=None, bool keepdim=False, dtype? dtype=None) -> Tensor",
       norm_body, COMPOSITE | OUT | EXACT_OUT,
       "Vector norm of order `p` over `dim`, or over all elements if `dim` is None. 'nuc' is a matrix norm over two "
       "dimensions.")


# Distances ------------------------------------------------------------------------------------

cdef object dist_meta(Call* c):
    cdef Operands o
    cdef Layout lay
    cdef DType d
    no_operands(&o)
    operand(&o, tensor_arg(c, 0))
    operand(&o, tensor_arg(c, 1))
    if tensor_arg(c, 0).dtype.kind == KIND_BOOL or tensor_arg(c, 1).dtype.kind == KIND_BOOL:
        raise RuntimeError(f"{op_name(c)}(): bool tensors cannot be subtracted")
    broadcast_result(c, &o, &lay)
    d = promoted(c, &o)
    require_floating(c, d)
    if count(lay.ndim, lay.sizes) == 0 and not isinstance(arg(c, 2), complex) \
            and (arg(c, 2) < 0 or arg(c, 2) == float("inf")):
        raise RuntimeError(f"{op_name(c)}(): the {arg(c, 2)} norm is not defined for zero elements; the shapes are "
                           f"{shape_str(tensor_arg(c, 0))} and {shape_str(tensor_arg(c, 1))}")
    return new_contiguous(0, NULL, to_real(d), result_device(c))


cdef object cdist_meta(Call* c):
    """Arguments: x1 (..., n, k), x2 (..., m, k), p, compute_mode. Returns (..., n, m)."""
    cdef Tensor a = tensor_arg(c, 0), b = tensor_arg(c, 1)
    cdef Layout lay
    cdef object mode = arg(c, 3)
    for t in (a, b):
        if (<Tensor>t).ndim < 2:
            raise RuntimeError(f"cdist(): {'x1' if t is a else 'x2'} must have at least 2 dimensions, got shape "
                               + shape_str(<Tensor>t))
        if (<Tensor>t).dtype.kind != KIND_FLOAT:
            raise RuntimeError(f"cdist(): {'x1' if t is a else 'x2'} must be floating-point, got "
                               f"{(<Tensor>t).dtype.name}")
    if a.dtype is not b.dtype:
        raise RuntimeError(f"cdist(): x1 and x2 must have the same dtype, got {a.dtype.name} and {b.dtype.name}")
    if a.sizes[a.ndim - 1] != b.sizes[b.ndim - 1]:
        raise RuntimeError(f"cdist(): x1 and x2 must have the same number of columns, got shapes {shape_str(a)} and "
                           f"{shape_str(b)}")
    if not float_arg(c, 2) >= 0:
        raise RuntimeError(f"cdist(): p must not be negative, got {arg(c, 2)}")
    if mode not in ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist",
                    "donot_use_mm_for_euclid_dist"):
        raise ValueError(f"cdist(): {mode!r} is not a value of compute_mode")
    lay.ndim = a.ndim - 2
    copy_dims(lay.sizes, a.sizes, lay.ndim)
    if broadcast_into(&lay, b.ndim - 2, b.sizes):
        raise RuntimeError(f"cdist(): the batch dimensions of x1 and x2 do not broadcast: {shape_str(a)} and "
                           + shape_str(b))
    lay.sizes[lay.ndim] = a.sizes[a.ndim - 2]
    lay.sizes[lay.ndim + 1] = b.sizes[b.ndim - 2]
    return new_contiguous(lay.ndim + 2, lay.sizes, a.dtype, result_device(c))


cdef object renorm_meta(Call* c):
    """Arguments: input, p, dim, maxnorm."""
    cdef Tensor t = tensor_arg(c, 0)
    if t.ndim < 2:
        raise RuntimeError(f"{op_name(c)}(): input must have at least 2 dimensions, got shape {shape_str(t)}")
    dim_arg(c, 2, t.ndim)
    require_floating(c, t.dtype)
    if isinstance(arg(c, 1), complex) or not arg(c, 1) > 0:
        raise RuntimeError(f"{op_name(c)}(): p must be a positive real number, got {arg(c, 1)!r}")
    if isinstance(arg(c, 3), complex) or not arg(c, 3) >= 0:
        raise RuntimeError(f"{op_name(c)}(): maxnorm must be a non-negative real number, got {arg(c, 3)!r}")
    return new_contiguous(t.ndim, t.sizes, t.dtype, result_device(c))


define("dist(Tensor input, Tensor other, Scalar p=2) -> Tensor", dist_meta, OUT,
       "The `p`-norm of `input - other`, as a 0-d tensor.")
gradient("dist", input=lambda grad, input, other, p, result: _of.vector_norm(grad, input - other, p, None, False, result),
         other=lambda grad, input, other, p, result: _of.vector_norm(-grad, input - other, p, None, False, result))
define("cdist(Tensor x1, Tensor x2, float p=2.0, any? compute_mode='use_mm_for_euclid_dist_if_necessary') -> Tensor",
       cdist_meta, 0,
       "The `p`-norm distance of each row of `x1` to each row of `x2`: (..., n, k) and (..., m, k) give (..., n, m).")
gradient("cdist", node="reductions.cdist_node", x1="reductions.cdist_first", x2="reductions.cdist_second")
define("renorm(Tensor input, Scalar p, int dim, Scalar maxnorm) -> Tensor", renorm_meta, INPLACE | OUT | EXACT_OUT,
       "Scale down each slice along `dim` whose `p`-norm exceeds `maxnorm`, so that its norm becomes `maxnorm`.")
gradient("renorm", input=lambda grad, input, p, dim, maxnorm: _of.renormed(grad, input, p, dim, maxnorm))


# Weight normalization -----------------------------------------------------------------------------------

cdef object weight_norm_body(Call* c):
    """Arguments: v, g, dim."""
    cdef Tensor v = tensor_arg(c, 0)
    cdef int dim = dim_arg(c, 2, v.ndim)
    cdef object norms = call("linalg.vector_norm", (v, 2.0, [i for i in range(v.ndim) if i != dim], True))
    return call("div_", (call("mul", (v, arg(c, 1))), norms)), norms


define("_weight_norm_interface(Tensor v, Tensor g, int dim=0) -> (Tensor, Tensor)", weight_norm_body, COMPOSITE | FUNCTION_ONLY,
       "Return `v` divided by its norms over all dimensions except `dim` and multiplied by `g`, and these norms as the "
       "second result.")
gradient("_weight_norm_interface", node="WeightNormInterfaceBackward0", joint="norm.weight_norm", outputs=(0,), v=True, g=True)
