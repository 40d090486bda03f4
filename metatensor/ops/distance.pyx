"""Similarities and distances of vectors, and the losses based on them."""
from metatensor._core.dtype cimport DType, default_float, promote, to_real
from metatensor._core.layout cimport Layout, copy_dims, dims_equal, mul_dims
from metatensor._core.op cimport (
    COMPOSITE, FUNCTION_ONLY, Call, alias_op, arg, bool_arg, call, define, dim_arg, float_arg, op_name,
    result_device, tensor_arg,
)
from metatensor._core.tensor cimport Tensor, new_contiguous, shape_str
from metatensor._core.types cimport KIND_BOOL, KIND_COMPLEX, KIND_FLOAT, KIND_INT, dim_t
from metatensor.ops.loss cimport (
    R_NONE, legacy_reduction, reduced_loss, reduction_arg, scalar_result,
)
from metatensor.ops.operands cimport float_operand
from metatensor.ops.pointwise cimport Operands, broadcast_result, no_operands, operand, promoted, refuse, shape_operand
from metatensor.ops.spatial cimport FLOATS, fail, fail_slot, need_dtype
from metatensor._core.sharding import sharding
from metatensor._core.gradients import gradient, ops, recorded_as


cdef DType vector_dtype(Call* c, Operands* o):
    """Return the dtype of a norm over the operands, which is real and floating-point."""
    cdef DType d = promoted(c, o)
    if d.kind == KIND_BOOL:
        fail(c, "bool tensors cannot be subtracted")
    return default_float() if d.kind == KIND_INT else to_real(d)


cdef Tensor without(Call* c, Layout* lay, int dim, bint keepdim, DType d):
    """Return a contiguous result with the sizes in `lay` but without dimension `dim`, or with size 1 if `keepdim`."""
    cdef int i
    if keepdim:
        lay.sizes[dim] = 1
    else:
        lay.ndim -= 1
        for i in range(dim, lay.ndim):
            lay.sizes[i] = lay.sizes[i + 1]
    return new_contiguous(lay.ndim, lay.sizes, d, result_device(c))


cdef object cosine_similarity(Call* c):
    cdef Operands o
    cdef Layout lay
    cdef DType d
    cdef int dim
    no_operands(&o)
    operand(&o, tensor_arg(c, 0))
    operand(&o, tensor_arg(c, 1))
    d = promoted(c, &o)
    if d.kind != KIND_FLOAT:
        fail(c, f"the inputs must be floating-point, got {d.name}")
    broadcast_result(c, &o, &lay)
    dim = dim_arg(c, 2, lay.ndim)
    if lay.ndim == 0:
        return new_contiguous(0, NULL, d, result_device(c))
    return without(c, &lay, dim, False, d)


cdef object pairwise_distance(Call* c):
    cdef Operands o
    cdef Layout lay
    cdef DType d
    no_operands(&o)
    operand(&o, tensor_arg(c, 0))
    operand(&o, tensor_arg(c, 1))
    if tensor_arg(c, 0).dtype.kind == KIND_BOOL or tensor_arg(c, 1).dtype.kind == KIND_BOOL:
        fail(c, "bool tensors cannot be subtracted")
    d = vector_dtype(c, &o)
    broadcast_result(c, &o, &lay)
    if lay.ndim == 0:
        return new_contiguous(0, NULL, d, result_device(c))
    if lay.sizes[lay.ndim - 1] == 0 and (float_arg(c, 2) < 0 or float_arg(c, 2) > 1e308):
        fail(c, "the infinity norm of vectors of length 0 is not defined")
    return without(c, &lay, lay.ndim - 1, bool_arg(c, 4), d)


cdef object pdist(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t n
    if t.ndim != 2:
        fail(c, f"expected an input of 2 dimensions, got shape {shape_str(t)}")
    if t.dtype.kind != KIND_FLOAT:
        fail(c, f"expected a floating-point input, got {t.dtype.name}")
    if not float_arg(c, 1) >= 0:
        fail_slot(c, 1, f"must not be negative, got {arg(c, 1)}")
    need_dtype(c, t, FLOATS)
    n = t.sizes[0]
    n = 0 if n < 2 else mul_dims(n, n - 1) // 2
    return new_contiguous(1, &n, t.dtype, result_device(c))


cdef int need_like(Call* c, Tensor grad, Tensor t, Tensor distances) except -1:
    """Check that a gradient has the dtype of the input and the shape of the distances."""
    if grad.dtype is not t.dtype or distances.dtype is not t.dtype:
        fail(c, f"expected {t.dtype.name} like the input, got {grad.dtype.name} and {distances.dtype.name}")
    if grad.ndim != distances.ndim or not dims_equal(grad.sizes, distances.sizes, grad.ndim):
        fail(c, f"the gradient must have the shape of the distances, {shape_str(distances)}, got {shape_str(grad)}")
    return 0


cdef object pdist_backward(Call* c):
    """Arguments: grad, input, p, pdist."""
    cdef Tensor grad = tensor_arg(c, 0), t = tensor_arg(c, 1), distances = tensor_arg(c, 3)
    if t.ndim != 2 or t.dtype.kind != KIND_FLOAT:
        fail(c, f"expected a floating-point input of 2 dimensions, got {t.dtype.name} of shape {shape_str(t)}")
    need_like(c, grad, t, distances)
    if grad.ndim != 1 or grad.total != t.sizes[0] * (t.sizes[0] - 1) // 2:
        fail(c, f"the gradient of shape {shape_str(grad)} does not belong to an input of shape {shape_str(t)}")
    return new_contiguous(t.ndim, t.sizes, t.dtype, result_device(c))


cdef object cdist_backward(Call* c):
    """Arguments: grad (..., n, m), x1 (..., n, k), x2 (..., m, k), p, cdist. The result is (..., n, k), with the batch
    of `grad`."""
    cdef Tensor grad = tensor_arg(c, 0), t = tensor_arg(c, 1), other = tensor_arg(c, 2)
    cdef Layout lay
    if t.ndim < 2 or other.ndim < 2 or t.dtype.kind != KIND_FLOAT or other.dtype is not t.dtype:
        fail(c, f"expected floating-point inputs of one dtype and at least 2 dimensions, got {t.dtype.name} of shape "
                f"{shape_str(t)} and {other.dtype.name} of shape {shape_str(other)}")
    need_like(c, grad, t, tensor_arg(c, 4))
    if grad.ndim < 2 or grad.sizes[grad.ndim - 2] != t.sizes[t.ndim - 2] or grad.sizes[grad.ndim - 1] != other.sizes[other.ndim - 2] \
            or t.sizes[t.ndim - 1] != other.sizes[other.ndim - 1]:
        fail(c, f"the gradient of shape {shape_str(grad)} does not belong to inputs of shapes {shape_str(t)} and "
                + shape_str(other))
    lay.ndim = grad.ndim
    copy_dims(lay.sizes, grad.sizes, grad.ndim - 1)
    lay.sizes[grad.ndim - 1] = t.sizes[t.ndim - 1]
    return new_contiguous(lay.ndim, lay.sizes, t.dtype, result_device(c))


# Losses -----------------------------------------------------------------------------------

cdef object margin_ranking_loss(Call* c):
    cdef Tensor a = tensor_arg(c, 0), b = tensor_arg(c, 1), y = tensor_arg(c, 2)
    cdef Operands o
    cdef DType d
    cdef int reduction = legacy_reduction(c, 4, 5, 6)
    if a.ndim != b.ndim or a.ndim != y.ndim:
        fail(c, f"the inputs and the target must have the same number of dimensions, got shapes {shape_str(a)}, "
                f"{shape_str(b)}, {shape_str(y)}")
    if a.dtype.kind == KIND_BOOL or b.dtype.kind == KIND_BOOL or y.dtype.kind == KIND_BOOL:
        fail(c, "bool tensors cannot be subtracted or negated")
    no_operands(&o)
    operand(&o, y)
    operand(&o, a)
    operand(&o, b)
    d = promoted(c, &o)
    if d.kind == KIND_COMPLEX:
        refuse(c, d)
    # The margin is a float, so the loss of integer inputs is floating-point.
    return reduced_loss(c, &o, default_float() if d.kind == KIND_INT else d, reduction)


cdef object cosine_embedding_loss(Call* c):
    cdef Tensor a = tensor_arg(c, 0), b = tensor_arg(c, 1), y = tensor_arg(c, 2)
    cdef Operands o
    cdef Layout lay, out
    cdef DType d
    cdef const dim_t* sizes
    cdef int reduction = legacy_reduction(c, 4, 5, 6)
    if y.ndim > 1:
        fail(c, f"the target must have 0 or 1 dimensions, got shape {shape_str(y)}")
    if a.ndim != y.ndim + 1 or b.ndim != y.ndim + 1:
        fail(c, f"with a target of shape {shape_str(y)}, the inputs must have {y.ndim + 1} dimensions, got "
                f"{shape_str(a)} and {shape_str(b)}")
    promote(a.dtype, b.dtype)           # raises if the product has no dtype
    no_operands(&o)
    float_operand(&o, a)
    float_operand(&o, b)
    d = promoted(c, &o)
    if d.kind == KIND_COMPLEX:
        refuse(c, d)
    broadcast_result(c, &o, &lay)
    # Each pair of vectors gives one value, which broadcasts with the target.
    lay.ndim -= 1
    sizes = lay.sizes
    no_operands(&o)
    shape_operand(&o, y)
    o.ndims[1] = lay.ndim
    o.sizes[1] = sizes
    o.strides[1] = lay.strides
    o.n = 2
    broadcast_result(c, &o, &out)
    if reduction != R_NONE:
        return scalar_result(c, d, reduction)
    return new_contiguous(out.ndim, out.sizes, d, result_device(c))


cdef int check_triplet(Call* c, Tensor a, Tensor p, Tensor n, double margin) except -1:
    if not margin > 0:
        raise ValueError(f"{op_name(c)}(): argument 'margin' must be positive, got {margin}")
    if a.ndim != p.ndim or a.ndim != n.ndim:
        fail(c, f"anchor, positive and negative must have the same number of dimensions, got shapes {shape_str(a)}, "
                f"{shape_str(p)}, {shape_str(n)}")
    return 0


cdef object triplet_margin_loss(Call* c):
    cdef Tensor a = tensor_arg(c, 0), p = tensor_arg(c, 1), n = tensor_arg(c, 2)
    cdef Operands o
    cdef Layout lay
    cdef DType d
    cdef int reduction = legacy_reduction(c, 7, 8, 9)
    check_triplet(c, a, p, n, float_arg(c, 3))
    if a.dtype.kind == KIND_BOOL or p.dtype.kind == KIND_BOOL or n.dtype.kind == KIND_BOOL:
        fail(c, "bool tensors cannot be subtracted")
    no_operands(&o)
    operand(&o, a)
    operand(&o, p)
    operand(&o, n)
    d = vector_dtype(c, &o)
    broadcast_result(c, &o, &lay)
    if reduction != R_NONE:
        return scalar_result(c, d, reduction)
    return new_contiguous(max(lay.ndim - 1, 0), lay.sizes, d, result_device(c))


cdef object triplet_margin_with_distance_loss(Call* c):
    """Compute the triplet margin loss with the caller's distance function, which takes two tensors."""
    cdef double margin = float_arg(c, 4)
    cdef str reduction = arg(c, 6)
    a, p, n = arg(c, 0), arg(c, 1), arg(c, 2)
    reduction_arg(c, 6)
    check_triplet(c, <Tensor>a, <Tensor>p, <Tensor>n, margin)
    distance = arg(c, 3)
    if distance is None:
        def distance(x, y):
            return call("nn.functional.pairwise_distance", (x, y))
    positive = distance(a, p)
    negative = distance(a, n)
    if bool_arg(c, 5):
        negative = call("minimum", (negative, distance(p, n)))
    loss = call("clamp_min", (margin + positive - negative, 0))
    if reduction == "none":
        return loss
    return call(reduction, (loss,))


cdef str _legacy = "bool? size_average=None, bool? reduce=None, str reduction='mean'"

define("cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor", cosine_similarity,
       FUNCTION_ONLY,
       "Cosine of the angle between the vectors along `dim` of `x1` and `x2`, which are broadcast together. `dim` is "
       "removed. `eps` is a lower bound for the norms.")
recorded_as("cosine_similarity", "distances.cosine_similarity")
alias_op("nn.functional.cosine_similarity", "cosine_similarity")
define("pairwise_distance(Tensor x1, Tensor x2, float p=2.0, float eps=1e-06, bool keepdim=False) -> Tensor",
       pairwise_distance, FUNCTION_ONLY, "The p-norm of `x1 - x2 + eps` over the last dimension.")
recorded_as("pairwise_distance", "distances.pairwise_distance")
alias_op("nn.functional.pairwise_distance", "pairwise_distance")
define("pdist(Tensor input, float p=2.0) -> Tensor", pdist, FUNCTION_ONLY,
       "The p-norm distances between all pairs of rows of `input` (N, M): a vector of N * (N - 1) / 2 elements, in the "
       "row-major order of the strict upper triangle of the distance matrix.")
gradient("pdist", input=lambda grad, input, p, result: ops._pdist_backward(grad, input, p, result))
define("_pdist_backward(Tensor grad, Tensor input, float p, Tensor pdist) -> Tensor", pdist_backward, FUNCTION_ONLY,
       "Gradient of `pdist`.")
recorded_as("_pdist_backward", "reductions.pairs_of_rows")
define("_cdist_backward(Tensor grad, Tensor x1, Tensor x2, float p, Tensor cdist) -> Tensor", cdist_backward, FUNCTION_ONLY,
       "Gradient of `cdist` for `x1`.")
recorded_as("_cdist_backward", "reductions.rows_apart")
alias_op("nn.functional.pdist", "pdist")
# With p=inf a gradient is divided among the largest differences, which may be in different parts.
sharding("_pdist_backward", "no cuts", *(f"cut input -> cat where p={p}" for p in (0.0, 1.0, 2.0)))
sharding("_cdist_backward", "no cuts", *(f"cut cdist, grad, {names} -> {join}" for names, join in (
    ("x1", "cat"), ("x1, x2", "cat"), ("x2", "sum"), ("x2", "cat"))), *(f"cut x1, x2 -> cat where p={p}" for p in (0.0, 1.0, 2.0)))
define("nn.functional.margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, "
       f"{_legacy}) -> Tensor", margin_ranking_loss, FUNCTION_ONLY,
       "Margin ranking loss: `max(0, -target * (input1 - input2) + margin)`, with `target` 1 or -1.")
recorded_as("nn.functional.margin_ranking_loss", "distances.margin_ranking_loss")
define("nn.functional.cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, "
       f"{_legacy}) -> Tensor", cosine_embedding_loss, FUNCTION_ONLY,
       "Cosine embedding loss. With the cosine similarity `cos` of the vectors along the last dimension, the loss is "
       "`1 - cos` where `target` is 1, and `max(0, cos - margin)` where it is -1. The inputs are (N, D) and the target "
       "is (N,). Without a batch, they are (D,) and ().")
recorded_as("nn.functional.cosine_embedding_loss", "losses.cosine_embedding_loss")
define("nn.functional.triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, "
       f"float p=2.0, float eps=1e-06, bool swap=False, {_legacy}) -> Tensor", triplet_margin_loss, FUNCTION_ONLY,
       "Triplet margin loss: `max(0, margin + d(anchor, positive) - d(anchor, negative))`, where d is the p-norm "
       "distance of `pairwise_distance`. If `swap`, the smaller of d(anchor, negative) and d(positive, negative) takes "
       "the place of d(anchor, negative).")
recorded_as("nn.functional.triplet_margin_loss", "distances.triplet_margin_loss")
define("nn.functional.triplet_margin_with_distance_loss(Tensor anchor, Tensor positive, Tensor negative, *, "
       "any distance_function=None, float margin=1.0, bool swap=False, str reduction='mean') -> Tensor",
       triplet_margin_with_distance_loss, FUNCTION_ONLY | COMPOSITE,
       "Triplet margin loss with a distance function of the caller's choice, `pairwise_distance` by default.")
