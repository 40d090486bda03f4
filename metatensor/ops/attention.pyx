"""Scaled dot-product attention."""
from metatensor._core.dtype cimport BOOL, F32
from metatensor._core.layout cimport Layout, broadcast_into, can_broadcast, dims_equal
from metatensor._core.op cimport (
    FUNCTION_ONLY, RANDOM, Call, bool_arg, define, float_arg, is_none, op_name, result_device, tensor_arg,
)
from metatensor._core.random cimport take_ticket
from metatensor._core.tensor cimport Tensor, new_contiguous, shape_str
from metatensor._core.types cimport KIND_BOOL, KIND_INT, MAX_DIMS, T_CONTIGUOUS, dim_t
from metatensor.ops.pointwise cimport elementwise_like
from metatensor.ops.spatial cimport FLOATS, fail, fail_slot, need_dtype, on_cpu


cdef str shapes(Tensor q, Tensor k, Tensor v):
    return f"query {shape_str(q)}, key {shape_str(k)}, value {shape_str(v)}"


cdef int check_heads(Call* c, Tensor q, Tensor k, Tensor v) except -1:
    """Check the requirement of enable_gqa: key and value each have a number of heads that divides the query's."""
    cdef dim_t heads, keys, values
    if q.ndim < 3 or k.ndim < 3 or v.ndim < 3:
        raise IndexError(f"{op_name(c)}(): enable_gqa needs tensors with a dimension of heads, got {shapes(q, k, v)}")
    heads = q.sizes[q.ndim - 3]
    keys = k.sizes[k.ndim - 3]
    values = v.sizes[v.ndim - 3]
    if keys < 1 or values < 1 or heads % keys or heads % values:
        fail(c, f"the number of heads of query must be a multiple of those of key and value, got {shapes(q, k, v)}")
    return 0


cdef int add_batch(Call* c, Layout* batch, Tensor t, dim_t heads) except -1:
    """Broadcast `batch` with the batch dimensions of `t`. If `heads` >= 0, it replaces the number of heads of `t`."""
    cdef dim_t sizes[MAX_DIMS]
    cdef int i, n = t.ndim - 2
    for i in range(n):
        sizes[i] = t.sizes[i]
    if heads >= 0:
        sizes[n - 1] = heads
    return broadcast_into(batch, n, sizes)


cdef inline bint fused(Tensor q, Tensor k, Tensor v) noexcept:
    """Return whether a fused kernel handles the call. Its result has the strides of the query."""
    return (q.ndim == 4 and k.ndim == 4 and v.ndim == 4 and q.sizes[3] == v.sizes[3]
            and q.strides[3] == 1 and k.strides[3] == 1 and v.strides[3] == 1
            and q.sizes[0] == k.sizes[0] and q.sizes[0] == v.sizes[0])


cdef int check_mask(Call* c, Layout* result, Tensor q, Tensor k) except -1:
    """Check that the mask expands to (..., query length, key length) and has a supported dtype."""
    cdef Tensor mask = tensor_arg(c, 3)
    cdef dim_t sizes[MAX_DIMS]
    cdef int i
    if bool_arg(c, 5) and not (on_cpu(c) and fused(q, k, tensor_arg(c, 2)) and float_arg(c, 4) == 0):
        fail(c, "attn_mask and is_causal exclude each other, except in the fused CPU kernel")
    if mask.dtype.code != BOOL and mask.dtype is not q.dtype and mask.dtype.code != F32:
        fail_slot(c, 3, f"must be bool, float32 or {q.dtype.name} like the query, got {mask.dtype.name}")
    for i in range(result.ndim - 2):
        sizes[i] = result.sizes[i]
    sizes[result.ndim - 2] = q.sizes[q.ndim - 2]
    sizes[result.ndim - 1] = k.sizes[k.ndim - 2]
    if not can_broadcast(mask.ndim, mask.sizes, result.ndim, sizes):
        fail_slot(c, 3, f"of shape {shape_str(mask)} does not expand to "
                        f"{[sizes[i] for i in range(result.ndim)]}")
    return 0


cdef object attention(Call* c):
    cdef Tensor q = tensor_arg(c, 0), k = tensor_arg(c, 1), v = tensor_arg(c, 2)
    cdef Layout lay
    cdef double p = float_arg(c, 4)
    cdef dim_t heads = -1
    cdef bint plain
    cdef int i
    if q.ndim < 2 or k.ndim < 2 or v.ndim < 2:
        fail(c, f"query, key and value need at least 2 dimensions: {shapes(q, k, v)}")
    if q.dtype is not k.dtype or q.dtype is not v.dtype:
        fail(c, f"query, key and value must have the same dtype, got {q.dtype.name}, {k.dtype.name}, {v.dtype.name}")
    if q.dtype.kind == KIND_INT or q.dtype.kind == KIND_BOOL:
        fail(c, f"query, key and value must be floating-point, got {q.dtype.name}")
    need_dtype(c, q, FLOATS)
    if not 0 <= p <= 1:
        fail_slot(c, 4, f"must lie in [0, 1], got {p}")
    if q.sizes[q.ndim - 1] != k.sizes[k.ndim - 1]:
        fail(c, f"query and key must have the same last size: {shapes(q, k, v)}")
    if k.sizes[k.ndim - 2] != v.sizes[v.ndim - 2]:
        fail(c, f"key and value must have the same length: {shapes(q, k, v)}")
    if bool_arg(c, 7):
        check_heads(c, q, k, v)
        heads = q.sizes[q.ndim - 3]
    plain = q.ndim == k.ndim and q.ndim == v.ndim and heads < 0
    for i in range(q.ndim - 2):
        plain = plain and q.sizes[i] == k.sizes[i] and q.sizes[i] == v.sizes[i]
    if plain and is_none(c, 3) and p == 0 and q.sizes[q.ndim - 1] == v.sizes[v.ndim - 1] \
            and q.flags & T_CONTIGUOUS:
        return new_contiguous(q.ndim, q.sizes, q.dtype, result_device(c))
    lay.ndim = 0
    if add_batch(c, &lay, q, heads) or add_batch(c, &lay, k, heads) or add_batch(c, &lay, v, heads):
        fail(c, f"the batch dimensions do not broadcast: {shapes(q, k, v)}")
    lay.ndim += 2
    lay.sizes[lay.ndim - 2] = q.sizes[q.ndim - 2]
    lay.sizes[lay.ndim - 1] = v.sizes[v.ndim - 1]
    if not is_none(c, 3):
        check_mask(c, &lay, q, k)
    if p > 0:
        take_ticket(c, 8)
    elif fused(q, k, v) and dims_equal(lay.sizes, q.sizes, 4):
        return elementwise_like(q, q.dtype, result_device(c))
    return new_contiguous(lay.ndim, lay.sizes, q.dtype, result_device(c))


define("nn.functional.scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, "
       "float dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool enable_gqa=False, "
       "generator? generator=None) -> Tensor", attention, FUNCTION_ONLY | RANDOM,
       "Scaled dot-product attention: `softmax(query @ key.mT * scale + attn_mask) @ value`, with query (..., L, E), "
       "key (..., S, E), value (..., S, Ev) and result (..., L, Ev). `scale` defaults to 1 / sqrt(E). A bool mask is "
       "true where attention is allowed. If `is_causal`, query i attends only to keys 0 to i. If `enable_gqa`, the "
       "heads (dimension -3) of key and value are repeated to match the number of heads of query.")
