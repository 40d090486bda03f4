"""Matrix products. Results are contiguous. The inputs must have the same dtype, except for `outer` and `addr`."""
from metatensor._core.dtype cimport BF16, F16, F32, I32, I8, U8, DType, by_code
from metatensor._core.layout cimport Layout, broadcast_into, can_broadcast, copy_dims
from metatensor._core.op cimport (
    NO_OVERLAP, EXACT_OUT, FUNCTION_ONLY, INPLACE, OUT, QUIET_OUT, Call, Overload, alias_op, arg, define, dtype_arg, is_none,
    op_name, result_device, set_slot, tensor_arg,
)
from metatensor._core.tensor cimport S_MATMUL, Tensor, new_contiguous, shape_str
from metatensor._core.types cimport KIND_BOOL, KIND_COMPLEX, KIND_FLOAT, KIND_INT, MAX_DIMS, dim_t
from metatensor.ops.operands cimport Operands, no_operands, promoted, refuse, shape_operand, type_operand
from metatensor.ops.pointwise cimport elementwise_result
from metatensor._core.gradient_parts import conj, times
from metatensor._core.gradients import gradient, ops, recorded_as
from metatensor._core.gradients import recorded_as


# Checks ---------------------------------------------------------------------------------

cdef int alike(Call* c, Tensor a, Tensor b, str name_a, str name_b) except -1:
    if a.dtype is not b.dtype:
        raise RuntimeError(f"{op_name(c)}(): {name_a} and {name_b} must have the same dtype, got {a.dtype.name} and "
                           f"{b.dtype.name}")
    return 0


cdef int same_dtype(Call* c, Tensor a, Tensor b, str name_a, str name_b) except -1:
    """Check the dtypes of two factors. Bool matrices are accepted only if one is empty. Bool vectors never are."""
    alike(c, a, b, name_a, name_b)
    if a.dtype.kind == KIND_BOOL and (a.total and b.total or a.ndim == 1 == b.ndim):
        refuse(c, a.dtype)
    return 0


cdef int need_dims(Call* c, Tensor t, int n, str name) except -1:
    if t.ndim != n:
        raise RuntimeError(f"{op_name(c)}(): {name} must have {n} dimension{'s' if n > 1 else ''}, got shape "
                           + shape_str(t))
    return 0


cdef int no_product(Call* c, Tensor a, Tensor b, str name_a, str name_b) except -1:
    if a.ndim == 2 and b.ndim == 2:
        raise RuntimeError(f"{op_name(c)}(): {name_a} and {name_b} shapes cannot be multiplied "
                           f"({a.sizes[0]}x{a.sizes[1]} and {b.sizes[0]}x{b.sizes[1]})")
    raise RuntimeError(f"{op_name(c)}(): {name_a} and {name_b} shapes cannot be multiplied ({shape_str(a)} and "
                       f"{shape_str(b)})")


cdef int check_added(Call* c, Tensor t, int ndim, const dim_t* sizes) except -1:
    """Raise RuntimeError unless the summand `t` expands to the shape of the product."""
    cdef int i
    if not can_broadcast(t.ndim, t.sizes, ndim, sizes):
        raise RuntimeError(f"{op_name(c)}(): input of shape {shape_str(t)} does not expand to the product's shape "
                           f"{[sizes[i] for i in range(ndim)]}")
    return 0


cdef Tensor product_of(Call* c, int ndim, const dim_t* sizes, DType dtype, int out_slot):
    """Return a new contiguous result, of the dtype in `out_slot` if one is given."""
    cdef DType wide
    if out_slot >= 0 and not is_none(c, out_slot):
        wide = <DType>c.args[out_slot]
        if wide is not dtype and not (wide.code == F32 and (dtype.code == F16 or dtype.code == BF16)):
            raise RuntimeError(f"{op_name(c)}(): out_dtype must be the dtype of the inputs, {dtype.name}, or float32 "
                               f"for float16 and bfloat16, got {wide.name}")
        dtype = wide
    return new_contiguous(ndim, sizes, dtype, result_device(c))


# Plain products ----------------------------------------------------------------------------

cdef int product_sizes(Call* c, Tensor a, Tensor b, Layout* to) except -1:
    cdef int na = a.ndim, nb = b.ndim, n
    if na == 0 or nb == 0:
        raise RuntimeError(f"{op_name(c)}(): both arguments must have at least 1 dimension, got shapes {shape_str(a)} "
                           f"and {shape_str(b)}")
    if a.sizes[na - 1] != b.sizes[nb - 2 if nb > 1 else 0]:
        no_product(c, a, b, "mat1", "mat2")
    if nb <= 2:
        # In the usual case, a batch of rows times one matrix, no broadcasting is needed.
        copy_dims(to.sizes, a.sizes, na - 1)
        n = na - 1
    else:
        to.ndim = nb - 2
        copy_dims(to.sizes, b.sizes, nb - 2)
        if na > 2 and broadcast_into(to, na - 2, a.sizes):
            raise RuntimeError(f"{op_name(c)}(): the batch dimensions of shapes {shape_str(a)} and {shape_str(b)} do "
                               "not broadcast")
        n = to.ndim
        if na > 1:
            to.sizes[n] = a.sizes[na - 2]
            n += 1
    if nb > 1:
        to.sizes[n] = b.sizes[nb - 1]
        n += 1
    to.ndim = n
    return 0


cdef object matmul_meta(Call* c):
    cdef Tensor a = tensor_arg(c, 0), b = tensor_arg(c, 1)
    cdef Layout lay
    if a.dtype is not b.dtype or a.dtype.kind == KIND_BOOL:
        same_dtype(c, a, b, "input", "other")
    product_sizes(c, a, b, &lay)
    return new_contiguous(lay.ndim, lay.sizes, a.dtype, result_device(c))


cdef object mm_meta(Call* c):
    """Arguments: input (n, k), mat2 (k, m), out_dtype."""
    cdef Tensor a = tensor_arg(c, 0), b = tensor_arg(c, 1)
    cdef dim_t sizes[2]
    need_dims(c, a, 2, "input")
    need_dims(c, b, 2, "mat2")
    if a.sizes[1] != b.sizes[0]:
        no_product(c, a, b, "mat1", "mat2")
    same_dtype(c, a, b, "input", "mat2")
    sizes[0] = a.sizes[0]
    sizes[1] = b.sizes[1]
    return product_of(c, 2, sizes, a.dtype, 2)


cdef object int_mm_meta(Call* c):
    """Do the same as `mm_meta` for int8 matrices (the first may be uint8) and an int32 result."""
    cdef Tensor a = tensor_arg(c, 0), b = tensor_arg(c, 1)
    cdef dim_t sizes[2]
    need_dims(c, a, 2, "input")
    need_dims(c, b, 2, "mat2")
    if a.sizes[1] != b.sizes[0]:
        no_product(c, a, b, "mat1", "mat2")
    if b.dtype.code != I8 or (a.dtype.code != I8 and a.dtype.code != U8):
        raise RuntimeError(f"{op_name(c)}(): input must be int8 or uint8 and mat2 int8, got {a.dtype.name} and "
                           f"{b.dtype.name}")
    sizes[0] = a.sizes[0]
    sizes[1] = b.sizes[1]
    return new_contiguous(2, sizes, by_code(I32), result_device(c))


cdef int check_scale(Call* c, Tensor scale, str name, dim_t rows, dim_t columns) except -1:
    """Check a float32 scale: one element, or shape (rows, columns)."""
    if scale.dtype.code != F32:
        raise RuntimeError(f"{op_name(c)}(): {name} must be float32, got {scale.dtype.name}")
    if scale.total != 1 and not (scale.ndim == 2 and scale.sizes[0] == rows and scale.sizes[1] == columns):
        raise RuntimeError(f"{op_name(c)}(): {name} must have one element or the shape [{rows}, {columns}], got shape "
                           + shape_str(scale))
    return 0


cdef object scaled_mm_meta(Call* c):
    """Arguments: input (n, k), mat2 (k, m), scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum."""
    cdef Tensor a = tensor_arg(c, 0), b = tensor_arg(c, 1)
    cdef dim_t sizes[2]
    need_dims(c, a, 2, "input")
    need_dims(c, b, 2, "mat2")
    if a.sizes[1] != b.sizes[0]:
        no_product(c, a, b, "mat1", "mat2")
    for t in (a, b):
        if (<Tensor>t).dtype.itemsize != 1 or (<Tensor>t).dtype.kind != KIND_FLOAT:
            raise RuntimeError(f"{op_name(c)}(): both matrices must be of an 8-bit floating-point dtype, got "
                               f"{a.dtype.name} and {b.dtype.name}")
    sizes[0] = a.sizes[0]
    sizes[1] = b.sizes[1]
    check_scale(c, tensor_arg(c, 2), "scale_a", sizes[0], 1)
    check_scale(c, tensor_arg(c, 3), "scale_b", 1, sizes[1])
    if not is_none(c, 4) and (tensor_arg(c, 4).total != sizes[1] or tensor_arg(c, 4).ndim != 1):
        raise RuntimeError(f"{op_name(c)}(): bias must have the shape [{sizes[1]}], got {shape_str(tensor_arg(c, 4))}")
    return new_contiguous(2, sizes, dtype_arg(c, 6, a.dtype), result_device(c))


cdef int batched_sizes(Call* c, Tensor a, Tensor b, str name_a, str name_b, dim_t* sizes) except -1:
    need_dims(c, a, 3, name_a)
    need_dims(c, b, 3, name_b)
    if a.sizes[0] != b.sizes[0] or a.sizes[2] != b.sizes[1]:
        raise RuntimeError(f"{op_name(c)}(): {name_a} of shape {shape_str(a)} needs {name_b} of shape "
                           f"[{a.sizes[0]}, {a.sizes[2]}, *], got {shape_str(b)}")
    same_dtype(c, a, b, name_a, name_b)
    sizes[0] = a.sizes[0]
    sizes[1] = a.sizes[1]
    sizes[2] = b.sizes[2]
    return 0


cdef object bmm_meta(Call* c):
    """Arguments: input (b, n, k), mat2 (b, k, m), out_dtype."""
    cdef dim_t sizes[3]
    batched_sizes(c, tensor_arg(c, 0), tensor_arg(c, 1), "input", "mat2", sizes)
    return product_of(c, 3, sizes, tensor_arg(c, 0).dtype, 2)


cdef object mv_meta(Call* c):
    """Arguments: input (n, k), vec (k)."""
    cdef Tensor a = tensor_arg(c, 0), b = tensor_arg(c, 1)
    if a.ndim == 0:
        raise IndexError(f"{op_name(c)}(): input must have 2 dimensions, got shape []")
    need_dims(c, a, 2, "input")
    need_dims(c, b, 1, "vec")
    if a.sizes[1] != b.sizes[0]:
        no_product(c, a, b, "input", "vec")
    same_dtype(c, a, b, "input", "vec")
    return new_contiguous(1, a.sizes, a.dtype, result_device(c))


cdef object dot_meta(Call* c):
    cdef Tensor a = tensor_arg(c, 0), b = tensor_arg(c, 1)
    need_dims(c, a, 1, "input")
    need_dims(c, b, 1, "the second vector")
    same_dtype(c, a, b, "input", "the second vector")
    if a.sizes[0] != b.sizes[0]:
        raise RuntimeError(f"{op_name(c)}(): both vectors must have the same number of elements, got shapes "
                           f"{shape_str(a)} and "
                           + shape_str(b))
    return new_contiguous(0, NULL, a.dtype, result_device(c))


cdef object outer_meta(Call* c):
    cdef Tensor a = tensor_arg(c, 0), b = tensor_arg(c, 1)
    cdef dim_t sizes[2]
    cdef Operands o
    need_dims(c, a, 1, "input")
    need_dims(c, b, 1, "vec2")
    no_operands(&o)
    type_operand(&o, a)
    type_operand(&o, b)
    sizes[0] = a.sizes[0]
    sizes[1] = b.sizes[0]
    return new_contiguous(2, sizes, promoted(c, &o), result_device(c))


define("matmul(Tensor input, Tensor other) -> Tensor", matmul_meta, OUT | EXACT_OUT,
       "Matrix product over the last two dimensions: (..., n, k) and (..., k, m) give (..., n, m). The other "
       "dimensions broadcast. A vector counts as a row on the left and as a column on the right.")
recorded_as("matmul", "products.matmul", op="mm", ndim=2)
define("mm(Tensor input, Tensor mat2, dtype? out_dtype=None) -> Tensor", mm_meta, OUT | EXACT_OUT,
       "Product of two matrices: (n, k) and (k, m) give (n, m).")
gradient("mm", linear="input mat2", input="products.mm_input", mat2="products.mm_mat2")
define("bmm(Tensor input, Tensor mat2, dtype? out_dtype=None) -> Tensor", bmm_meta, OUT | EXACT_OUT,
       "Batched matrix product: (b, n, k) and (b, k, m) give (b, n, m).")
gradient("bmm", linear="input mat2", input=lambda grad, mat2: grad.bmm(conj(mat2.transpose(1, 2))),
         mat2=lambda grad, input: conj(input.transpose(1, 2)).bmm(grad))
define("mv(Tensor input, Tensor vec) -> Tensor", mv_meta, OUT | EXACT_OUT,
       "Product of a matrix and a vector: (n, k) and (k,) give (n,).")
gradient("mv", linear="input vec", input=lambda grad, vec: ops.outer(grad, conj(vec)), vec=lambda grad, input: conj(input.t()).mv(grad))
define("dot(Tensor input, Tensor tensor) -> Tensor", dot_meta, OUT | EXACT_OUT,
       "Dot product of two vectors of equal length, as a 0-d tensor.")
gradient("dot", linear="input tensor", input=lambda grad, tensor: grad * conj(tensor), tensor=lambda grad, input: grad * conj(input))
define("vdot(Tensor input, Tensor other) -> Tensor", dot_meta, OUT | EXACT_OUT,
       "Dot product of two vectors of equal length with the first one conjugated, as a 0-d tensor.")
gradient("vdot", linear="input other", input=lambda grad, other: conj(grad) * other, other=lambda grad, input: grad * input)
define("outer(Tensor input, Tensor vec2) -> Tensor", outer_meta, OUT | NO_OVERLAP,
       "Outer product of two vectors: (n,) and (m,) give (n, m).")
recorded_as("outer", "products.outer")
define("_int_mm(Tensor input, Tensor mat2) -> Tensor", int_mm_meta, OUT | FUNCTION_ONLY,
       "Product of two int8 matrices, as int32. The first matrix may also be uint8.")
define("_scaled_mm(Tensor input, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias=None, "
       "Tensor? scale_result=None, dtype? out_dtype=None, bool use_fast_accum=False) -> Tensor", scaled_mm_meta,
       OUT | FUNCTION_ONLY,
       "Product of two 8-bit floating-point matrices: (n, k) and (k, m) give (n, m). Each is first multiplied by its "
       "float32 scale. `scale_a` has one element or shape (n, 1), and `scale_b` has one element or shape (1, m).")
alias_op("ger", "outer")
alias_op("linalg.matmul", "matmul")
set_slot(S_MATMUL, "matmul")


# Products added to something ------------------------------------------------------------------

cdef int check_factors(Call* c, DType d, bint filled) except -1:
    """Refuse a complex beta or alpha, the last two arguments, for a real result.

    PyTorch reads neither if the result is empty (`filled` is False), and not alpha if the sums have no terms.
    """
    cdef int n = (<Overload>c.overload).nslots
    if d.kind != KIND_COMPLEX and filled:
        _check_factor(c, n - 2, d)
        if tensor_arg(c, 1).total and tensor_arg(c, 2).total:
            _check_factor(c, n - 1, d)
    return 0


cdef int _check_factor(Call* c, int slot, DType d) except -1:
    if isinstance(arg(c, slot), complex) and arg(c, slot).imag:
        raise RuntimeError(f"{op_name(c)}(): the complex number {arg(c, slot)} cannot be converted to {d.name}")
    return 0


cdef object addmm_meta(Call* c):
    """Arguments: input, mat1 (n, k), mat2 (k, m), out_dtype, beta, alpha."""
    cdef Tensor t = tensor_arg(c, 0), a = tensor_arg(c, 1), b = tensor_arg(c, 2)
    cdef dim_t sizes[2]
    need_dims(c, a, 2, "mat1")
    need_dims(c, b, 2, "mat2")
    if a.sizes[1] != b.sizes[0]:
        no_product(c, a, b, "mat1", "mat2")
    same_dtype(c, a, b, "mat1", "mat2")
    if is_none(c, 3):
        alike(c, t, b, "input", "mat2")
    sizes[0] = a.sizes[0]
    sizes[1] = b.sizes[1]
    check_added(c, t, 2, sizes)
    check_factors(c, a.dtype, sizes[0] and sizes[1])
    return product_of(c, 2, sizes, a.dtype, 3)


cdef object addmv_meta(Call* c):
    """Arguments: input, mat (n, k), vec (k), beta, alpha."""
    cdef Tensor t = tensor_arg(c, 0), a = tensor_arg(c, 1), b = tensor_arg(c, 2)
    need_dims(c, a, 2, "mat")
    need_dims(c, b, 1, "vec")
    if a.sizes[1] != b.sizes[0]:
        no_product(c, a, b, "mat", "vec")
    same_dtype(c, a, b, "mat", "vec")
    alike(c, t, a, "input", "mat")
    check_added(c, t, 1, a.sizes)
    check_factors(c, a.dtype, a.sizes[0])
    return new_contiguous(1, a.sizes, a.dtype, result_device(c))


cdef object addr_meta(Call* c):
    """Arguments: input, vec1 (n), vec2 (m), beta, alpha.

    PyTorch computes this element by element. Therefore the dtypes are promoted, and the strides follow those of
    `input`.
    """
    cdef Tensor t = tensor_arg(c, 0), a = tensor_arg(c, 1), b = tensor_arg(c, 2)
    cdef dim_t sizes[2]
    cdef dim_t shapes[4]
    cdef dim_t strides[4]
    cdef Operands o
    need_dims(c, a, 1, "vec1")
    need_dims(c, b, 1, "vec2")
    sizes[0] = a.sizes[0]
    sizes[1] = b.sizes[0]
    check_added(c, t, 2, sizes)
    no_operands(&o)
    shape_operand(&o, t)
    type_operand(&o, t)
    type_operand(&o, a)
    type_operand(&o, b)
    if promoted(c, &o).kind <= KIND_INT and (isinstance(arg(c, 3), float) or isinstance(arg(c, 4), float)):
        raise RuntimeError(f"{op_name(c)}(): beta and alpha must be integers for integer tensors, got {arg(c, 3)} and "
                           f"{arg(c, 4)}")
    # Broadcast vec1 as a column and vec2 as a row.
    shapes[0], shapes[1], shapes[2], shapes[3] = sizes[0], 1, 1, sizes[1]
    strides[0], strides[1], strides[2], strides[3] = a.strides[0], 1, b.sizes[0] * b.strides[0], b.strides[0]
    o.n = 3
    o.contiguous = False
    o.first = NULL
    o.ndims[1] = o.ndims[2] = 2
    o.sizes[1], o.sizes[2] = shapes, shapes + 2
    o.strides[1], o.strides[2] = strides, strides + 2
    return elementwise_result(c, &o, promoted(c, &o))


cdef int added_sizes(Call* c, Tensor a, Tensor b, dim_t* sizes) except -1:
    """Compute the sizes of batch1 @ batch2. Raise IndexError if a factor has too few dimensions."""
    if a.ndim < 2 or b.ndim < 3:
        raise IndexError(f"{op_name(c)}(): batch1 and batch2 must have 3 dimensions, got shapes {shape_str(a)} and {shape_str(b)}")
    return batched_sizes(c, a, b, "batch1", "batch2", sizes)


cdef object addbmm_meta(Call* c):
    """Arguments: input, batch1 (b, n, k), batch2 (b, k, m), beta, alpha. The products are summed over the batch."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t sizes[3]
    added_sizes(c, tensor_arg(c, 1), tensor_arg(c, 2), sizes)
    alike(c, t, tensor_arg(c, 1), "input", "batch1")
    check_added(c, t, 2, sizes + 1)
    check_factors(c, t.dtype, sizes[1] and sizes[2])
    return new_contiguous(2, sizes + 1, t.dtype, result_device(c))


cdef object baddbmm_meta(Call* c):
    """Arguments: input, batch1 (b, n, k), batch2 (b, k, m), out_dtype, beta, alpha."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t sizes[3]
    added_sizes(c, tensor_arg(c, 1), tensor_arg(c, 2), sizes)
    if is_none(c, 3):
        alike(c, t, tensor_arg(c, 1), "input", "batch1")
    check_added(c, t, 3, sizes)
    check_factors(c, tensor_arg(c, 1).dtype, sizes[0] and sizes[1] and sizes[2])
    return product_of(c, 3, sizes, tensor_arg(c, 1).dtype, 3)


define("addmm(Tensor input, Tensor mat1, Tensor mat2, dtype? out_dtype=None, *, Scalar beta=1, Scalar alpha=1) "
       "-> Tensor", addmm_meta, INPLACE | OUT | EXACT_OUT,
       "`beta * input + alpha * (mat1 @ mat2)`. `input` broadcasts to the shape of the product.")
gradient("addmm", linear="mat1+input mat2", input=lambda grad, beta: times(grad, beta),
         mat1="products.addmm_mat1", mat2="products.addmm_mat2")
define("addmv(Tensor input, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor", addmv_meta,
       INPLACE | OUT | EXACT_OUT, "`beta * input + alpha * (mat @ vec)`. `input` broadcasts to the shape of the "
                                  "product.")
gradient("addmv", linear="mat+input vec",
         input=lambda grad, beta: times(grad, beta), mat=lambda grad, vec, alpha: times(ops.outer(grad, conj(vec)), alpha),
         vec=lambda grad, mat, alpha: times(conj(mat.t()).mv(grad), alpha))
define("addr(Tensor input, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", addr_meta,
       INPLACE | OUT, "`beta * input + alpha * outer(vec1, vec2)`. `input` broadcasts to the shape of the outer "
                      "product.")
gradient("addr", linear="vec1+input vec2",
         input=lambda grad, beta: times(grad, beta), vec1=lambda grad, vec2, alpha: times(grad.mv(conj(vec2)), alpha),
         vec2=lambda grad, vec1, alpha: times(grad.t().mv(conj(vec1)), alpha))
define("addbmm(Tensor input, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", addbmm_meta,
       INPLACE | OUT | EXACT_OUT | QUIET_OUT,
       "`beta * input + alpha * (batch1 @ batch2).sum(0)`, for batches of shapes (b, n, k) and (b, k, m).")
gradient("addbmm", linear="batch1+input batch2", input=lambda grad, beta: times(grad, beta),
         batch1=lambda grad, batch2, alpha: times(grad.expand(batch2.shape[0], *grad.shape).bmm(conj(batch2.transpose(1, 2))), alpha),
         batch2=lambda grad, batch1, alpha: times(conj(batch1.transpose(1, 2)).bmm(grad.expand(batch1.shape[0], *grad.shape)), alpha))
define("baddbmm(Tensor input, Tensor batch1, Tensor batch2, dtype? out_dtype=None, *, Scalar beta=1, "
       "Scalar alpha=1) -> Tensor", baddbmm_meta, INPLACE | OUT | EXACT_OUT,
       "`beta * input + alpha * (batch1 @ batch2)`, for batches of shapes (b, n, k) and (b, k, m).")
gradient("baddbmm", linear="batch1+input batch2", input=lambda grad, beta: times(grad, beta),
         batch1=lambda grad, batch2, alpha: times(grad.bmm(conj(batch2.transpose(1, 2))), alpha),
         batch2=lambda grad, batch1, alpha: times(conj(batch1.transpose(1, 2)).bmm(grad), alpha))


# Layers ------------------------------------------------------------------------------------------

cdef int linear_misfit(Call* c, Tensor t, Tensor w) except -1:
    if w.ndim == 0 or w.ndim > 2:
        raise RuntimeError(f"linear(): weight must have 1 or 2 dimensions, got shape {shape_str(w)}")
    if t.ndim == 0:
        raise RuntimeError(f"linear(): input must have at least 1 dimension; input has shape {shape_str(t)}, weight "
                           + shape_str(w))
    same_dtype(c, t, w, "input", "weight")
    cdef dim_t k = t.sizes[t.ndim - 1]
    weight = f"{w.sizes[1]}x{w.sizes[0]}" if w.ndim == 2 else f"{w.sizes[0]}"
    raise RuntimeError(f"linear(): mat1 and mat2 shapes cannot be multiplied ({t.total // max(k, 1)}x{k} and {weight}): "
                       f"input has shape {shape_str(t)} and weight {shape_str(w)}, whose last dimensions must be equal")


cdef object linear_meta(Call* c):
    """Arguments: input (..., k), weight (m, k) or (k), bias."""
    cdef Tensor t = tensor_arg(c, 0), w = tensor_arg(c, 1), b
    cdef dim_t sizes[MAX_DIMS]
    cdef int i, n = t.ndim
    if n == 0 or w.ndim == 0 or w.ndim > 2 or t.dtype is not w.dtype or t.sizes[n - 1] != w.sizes[w.ndim - 1]:
        linear_misfit(c, t, w)
    if t.dtype.kind == KIND_BOOL:
        same_dtype(c, t, w, "input", "weight")
    for i in range(n - 1):
        sizes[i] = t.sizes[i]
    if w.ndim == 2:
        sizes[n - 1] = w.sizes[0]
    else:
        n -= 1
    if not is_none(c, 2):
        b = tensor_arg(c, 2)
        if b.ndim != 1 or n == 0 or b.sizes[0] != sizes[n - 1]:
            if not can_broadcast(b.ndim, b.sizes, n, sizes):
                raise RuntimeError(f"linear(): bias of shape {shape_str(b)} does not expand to the result's shape "
                                   f"{[sizes[i] for i in range(n)]}")
        alike(c, b, w, "bias", "weight")
    return new_contiguous(n, sizes, t.dtype, result_device(c))


cdef object bilinear_meta(Call* c):
    """Arguments: input1 (..., n), input2 (..., k), weight (m, n, k), bias (m)."""
    cdef Tensor a = tensor_arg(c, 0), b = tensor_arg(c, 1), w = tensor_arg(c, 2)
    cdef dim_t sizes[MAX_DIMS]
    cdef int i, n = a.ndim
    need_dims(c, w, 3, "weight")
    if n == 0 or n != b.ndim:
        raise RuntimeError(f"bilinear(): input1 and input2 must have the same number of dimensions, got shapes "
                           f"{shape_str(a)} and "
                           + shape_str(b))
    for i in range(n - 1):
        if a.sizes[i] != b.sizes[i]:
            raise RuntimeError(f"bilinear(): input1 and input2 must agree in all dimensions but the last, got shapes "
                               f"{shape_str(a)} and {shape_str(b)}")
        sizes[i] = a.sizes[i]
    if a.sizes[n - 1] != w.sizes[1] or b.sizes[n - 1] != w.sizes[2]:
        raise RuntimeError(f"bilinear(): weight of shape {shape_str(w)} does not fit input1 {shape_str(a)} and input2 "
                           + shape_str(b))
    same_dtype(c, a, w, "input1", "weight")
    same_dtype(c, b, w, "input2", "weight")
    if not is_none(c, 3):
        same_dtype(c, tensor_arg(c, 3), w, "bias", "weight")
        need_dims(c, tensor_arg(c, 3), 1, "bias")
        if tensor_arg(c, 3).sizes[0] != w.sizes[0]:
            raise RuntimeError(f"bilinear(): bias must have {w.sizes[0]} elements, the first size of weight "
                               f"{shape_str(w)}, got shape {shape_str(tensor_arg(c, 3))}")
        same_dtype(c, tensor_arg(c, 3), w, "bias", "weight")
    sizes[n - 1] = w.sizes[0]
    return new_contiguous(n, sizes, a.dtype, result_device(c))


define("nn.functional.linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", linear_meta, OUT | EXACT_OUT,
       "Affine map `input @ weight.T + bias`: input (..., k) and weight (m, k) give (..., m). A weight of shape (k,) "
       "gives (...).")
gradient("nn.functional.linear", linear="input+bias weight", last_first=True,
         node="products.linear_node", input="products.linear_input", weight="products.linear_weight",
         bias=lambda grad: grad)
recorded_as("nn.functional.linear", "products.linear", strided=True)
define("nn.functional.bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor",
       bilinear_meta, 0,
       "`input1 @ weight[i] @ input2 + bias[i]` for each i: inputs (..., n) and (..., k) and weight (m, n, k) give "
       "(..., m).")
gradient("nn.functional.bilinear", linear="input1+bias input2 weight", sparing=True, last_first=True,
         node=lambda bias: "ViewBackward0" if bias is None else "AddBackward0",
         input1="products.bilinear_first", input2="products.bilinear_second", weight="products.bilinear_weight", bias=lambda grad: grad)
