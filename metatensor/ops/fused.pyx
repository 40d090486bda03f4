"""Operators that some devices compute in one kernel (attention with its logsumexp, RMS norm), and their gradients.

A kernel policy (`metatensor.rules.policies`) decides on which devices a call of attention or RMS norm runs one of these operators.
"""
from metatensor._core.dtype cimport BF16, F16, F32, I64, U64, DType, by_code
from metatensor._core.sharding import sharding
from metatensor._core.gradients import gradient, recorded_as
from metatensor._core.layout cimport can_broadcast, dims_equal
from metatensor._core.op cimport (
    FUNCTION_ONLY, RANDOM, Call, arg, bool_arg, define, dims_arg, float_arg, is_none, op_name, result_device, tensor_arg,
)
from metatensor._core.random cimport take_ticket
from metatensor._core.tensor cimport Tensor, new_contiguous, new_strided, shape_str
from metatensor._core.types cimport MAX_DIMS, dim_t
from metatensor.ops.pointwise cimport elementwise_like
from metatensor.ops.spatial cimport FLOATS, fail, need_dtype


cdef Tensor like(Call* c, Tensor t):
    return elementwise_like(t, t.dtype, result_device(c))


cdef Tensor vector(Call* c, int code, int n=0, dim_t size=0):
    """Return a new tensor without dimensions, or a vector."""
    return new_contiguous(n, &size, by_code(code), result_device(c))


cdef DType wide(DType d):
    """Return the dtype in which sums are kept."""
    return by_code(F32) if d.code == F16 or d.code == BF16 else d


# Attention --------------------------------------------------------------------------------------------------

cdef int check_attention(Call* c, int slot=0, bint one_width=True) except -1:
    """Check query, key and value, from a slot on. FlashAttention needs values as wide as the keys."""
    cdef Tensor q = tensor_arg(c, slot), k = tensor_arg(c, slot + 1), v = tensor_arg(c, slot + 2)
    cdef str shapes = f"query {shape_str(q)}, key {shape_str(k)}, value {shape_str(v)}"
    if q.ndim != 4 or k.ndim != 4 or v.ndim != 4:
        fail(c, f"query, key and value need 4 dimensions: {shapes}")
    if q.dtype is not k.dtype or q.dtype is not v.dtype:
        fail(c, f"query, key and value must have the same dtype, got {q.dtype.name}, {k.dtype.name}, {v.dtype.name}")
    need_dtype(c, q, FLOATS)
    if q.sizes[0] != k.sizes[0] or q.sizes[0] != v.sizes[0] or k.sizes[1] != v.sizes[1] or k.sizes[2] != v.sizes[2] \
            or q.sizes[3] != k.sizes[3] or one_width and q.sizes[3] != v.sizes[3] or not k.sizes[1] or q.sizes[1] % k.sizes[1]:
        fail(c, f"the sizes do not match: {shapes}")
    return 0


cdef Tensor logsumexp(Call* c, Tensor q, dim_t rows, DType dtype):
    cdef dim_t sizes[3]
    sizes[0], sizes[1], sizes[2] = q.sizes[0], q.sizes[1], rows
    return new_contiguous(3, sizes, dtype, result_device(c))


cdef int draw(Call* c, int p_slot, int generator_slot) except -1:
    cdef double p = float_arg(c, p_slot)
    if not 0 <= p < 1:
        fail(c, f"dropout_p must be at least 0 and less than 1, got {p}")
    if p > 0:
        take_ticket(c, generator_slot)
    return 0


cdef object flash(Call* c):
    """Arguments: query, key, value, dropout_p, is_causal, scale, generator."""
    cdef Tensor q = tensor_arg(c, 0)
    check_attention(c)
    draw(c, 3, 6)
    return (like(c, q), logsumexp(c, q, q.sizes[2], by_code(F32)), vector(c, U64, 1, 2), vector(c, U64))


cdef object efficient(Call* c):
    """Arguments: query, key, value, attn_bias, compute_log_sumexp, dropout_p, is_causal, scale, generator."""
    cdef Tensor q = tensor_arg(c, 0), v = tensor_arg(c, 2)
    cdef dim_t sizes[4]
    cdef dim_t strides[4]
    check_attention(c, 0, False)
    draw(c, 5, 8)
    sizes[0], sizes[1], sizes[2], sizes[3] = q.sizes[0], q.sizes[1], q.sizes[2], v.sizes[3]
    strides[1], strides[2], strides[3] = v.sizes[3], q.sizes[1] * v.sizes[3], 1       # in memory it is (B, L, H, Ev)
    strides[0] = strides[2] * q.sizes[2]
    return (new_strided(4, sizes, strides, q.dtype, result_device(c)),
            logsumexp(c, q, (q.sizes[2] + 31) // 32 * 32 if bool_arg(c, 4) else 0, by_code(F32)),
            vector(c, I64), vector(c, I64))


cdef object flash_cpu(Call* c):
    """Arguments: query, key, value, dropout_p, is_causal, attn_mask, scale."""
    cdef Tensor q = tensor_arg(c, 0)
    check_attention(c)
    if float_arg(c, 3):
        fail(c, "there is no dropout of attention weights in this kernel")
    return (like(c, q), logsumexp(c, q, q.sizes[2], wide(q.dtype)))


cdef int check_results(Call* c, int slot, bint padded) except -1:
    """Check grad_out, and the results of the forward operator from a slot on: out and logsumexp, whose rows may be padded."""
    cdef Tensor q = tensor_arg(c, 1), v = tensor_arg(c, 3), lse = tensor_arg(c, slot + 1)
    cdef Tensor t
    cdef int i
    for i in (0, slot):
        t = tensor_arg(c, i)
        if t.ndim != 4 or not dims_equal(t.sizes, q.sizes, 3) or t.sizes[3] != v.sizes[3]:
            fail(c, f"{'out' if i else 'grad_out'} must have the shape of the result of attention, got {shape_str(t)} for query "
                    f"{shape_str(q)} and value {shape_str(v)}")
    if lse.ndim != 3 or not dims_equal(lse.sizes, q.sizes, 2) or lse.sizes[2] != q.sizes[2] and not padded:
        fail(c, f"logsumexp must have an element for each row of query, got {shape_str(lse)} for query {shape_str(q)}")
    return 0


cdef object attention_gradients(Call* c, bint one_width):
    check_attention(c, 1, one_width)
    return (like(c, tensor_arg(c, 1)), like(c, tensor_arg(c, 2)), like(c, tensor_arg(c, 3)))


cdef object attention_backward(Call* c):
    """Arguments: grad_out, query, key, value, out, logsumexp, ..."""
    cdef object made = attention_gradients(c, True)
    check_results(c, 4, False)
    return made


cdef int check_mask(Call* c, int slot, Tensor q, Tensor k) except -1:
    """Check that a mask expands to the shape of the scores."""
    cdef Tensor mask
    cdef dim_t sizes[4]
    if is_none(c, slot):
        return 0
    mask = tensor_arg(c, slot)
    sizes[0], sizes[1], sizes[2], sizes[3] = q.sizes[0], q.sizes[1], q.sizes[2], k.sizes[2]
    if not can_broadcast(mask.ndim, mask.sizes, 4, sizes):
        fail(c, f"attn_mask of shape {shape_str(mask)} does not expand to {[sizes[i] for i in range(4)]}")
    return 0


cdef object attention_backward_for_cpu(Call* c):
    """Arguments: grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, attn_mask, scale."""
    cdef object made = attention_backward(c)
    check_mask(c, 8, tensor_arg(c, 1), tensor_arg(c, 2))
    return made


cdef object efficient_backward(Call* c):
    """Arguments: grad_out, query, key, value, attn_bias, out, logsumexp, philox_seed, philox_offset, dropout_p, grad_input_mask."""
    mask = arg(c, 10)
    if len(mask) != 4:
        raise RuntimeError(f"grad_input_mask must have 4 values, got {mask}")
    made = attention_gradients(c, False)
    check_results(c, 5, True)
    return (*made, like(c, tensor_arg(c, 4)) if mask[3] and not is_none(c, 4) else None)


define("_scaled_dot_product_flash_attention(Tensor query, Tensor key, Tensor value, float dropout_p=0.0, bool is_causal=False, *, "
       "float? scale=None, generator? generator=None) -> (Tensor output, Tensor logsumexp, Tensor rng_state, Tensor unused)",
       flash, FUNCTION_ONLY | RANDOM,
       "Attention without a mask in one kernel, which also returns the logarithm of the sum of the exponentials of each row.")
define("_scaled_dot_product_flash_attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, "
       "Tensor logsumexp, float dropout_p, bool is_causal, Tensor? rng_state, Tensor? unused, *, float? scale=None) "
       "-> (Tensor, Tensor, Tensor)", attention_backward, FUNCTION_ONLY, "Gradients of `_scaled_dot_product_flash_attention`.")
define("_scaled_dot_product_efficient_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, bool compute_log_sumexp, "
       "float dropout_p=0.0, bool is_causal=False, *, float? scale=None, generator? generator=None) "
       "-> (Tensor output, Tensor log_sumexp, Tensor philox_seed, Tensor philox_offset)", efficient, FUNCTION_ONLY | RANDOM,
       "Attention in one kernel, with a term that is added to the scores. If `compute_log_sumexp`, it also returns the logarithm of "
       "the sum of the exponentials of each row; the number of rows is rounded up to a multiple of 32.")
define("_scaled_dot_product_efficient_attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor? attn_bias, "
       "Tensor out, Tensor logsumexp, Tensor? philox_seed, Tensor? philox_offset, float dropout_p, bool[] grad_input_mask, "
       "bool is_causal=False, *, float? scale=None) -> (Tensor, Tensor, Tensor, Tensor)", efficient_backward, FUNCTION_ONLY,
       "Gradients of `_scaled_dot_product_efficient_attention`.")
define("_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0.0, bool is_causal=False, "
       "*, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)", flash_cpu, FUNCTION_ONLY,
       "Attention in one kernel of the cpu, which also returns the logarithm of the sum of the exponentials of each row.")
define("_scaled_dot_product_flash_attention_for_cpu_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, "
       "Tensor logsumexp, float dropout_p, bool is_causal, *, Tensor? attn_mask=None, float? scale=None) "
       "-> (Tensor, Tensor, Tensor)", attention_backward_for_cpu, FUNCTION_ONLY,
       "Gradients of `_scaled_dot_product_flash_attention_for_cpu`.")

# Batch and heads are independent of each other. Without dropout nothing is drawn, and the two last results are the same on all parts.
sharding("_scaled_dot_product_flash_attention", "cut key, query, value -> cat, cat, same, same no empty parts where batch2=True")
for _bias in ("attn_bias, ", ""):
    sharding("_scaled_dot_product_efficient_attention",
             f"cut {_bias}key, query, value -> cat, cat, same, same no empty parts where batch2=True")
    for _results in ("cat, cat, cat", f"cat, cat, cat, {'cat' if _bias else 'sum'}"):
        sharding("_scaled_dot_product_efficient_attention_backward",
                 f"cut {_bias}grad_out, key, logsumexp, out, query, value -> {_results} no empty parts where batch1=True")

gradient("_scaled_dot_product_flash_attention", outputs=(0,), joint="fused.flash", query=True, key=True, value=True)
gradient("_scaled_dot_product_efficient_attention", outputs=(0,), joint="fused.efficient", query=True, key=True, value=True,
         attn_bias=True)
gradient("_scaled_dot_product_flash_attention_for_cpu", outputs=(0,), joint="fused.flash_for_cpu", query=True, key=True, value=True,
         ignored=("attn_mask",))
recorded_as("_scaled_dot_product_flash_attention_backward", "fused.flash_attention_again")
recorded_as("_scaled_dot_product_efficient_attention_backward", "fused.efficient_attention_again")
recorded_as("_scaled_dot_product_flash_attention_for_cpu_backward", "fused.flash_attention_for_cpu_again")


# RMS norm -----------------------------------------------------------------------------------------------------

cdef object rms_norm(Call* c):
    """Arguments: input, normalized_shape, weight, eps."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t sizes[MAX_DIMS]
    cdef dim_t kept[MAX_DIMS]
    cdef int i, n = dims_arg(c, 1, sizes)
    need_dtype(c, t, FLOATS)
    if n == 0 or n > t.ndim:
        fail(c, f"normalized_shape {list(arg(c, 1))} does not fit an input of shape {shape_str(t)}")
    for i in range(t.ndim):
        kept[i] = t.sizes[i] if i < t.ndim - n else 1
        if i >= t.ndim - n and sizes[i - t.ndim + n] != t.sizes[i]:
            fail(c, f"the shape of the input, {shape_str(t)}, must end with normalized_shape {list(arg(c, 1))}")
    if not is_none(c, 2) and (tensor_arg(c, 2).ndim != n or not dims_equal(tensor_arg(c, 2).sizes, sizes, n)):
        fail(c, f"the weight must have the shape {list(arg(c, 1))}, got {shape_str(tensor_arg(c, 2))}")
    return (like(c, t), new_contiguous(t.ndim, kept, wide(t.dtype), result_device(c)))


cdef object rms_norm_backward(Call* c):
    """Arguments: grad_out, input, normalized_shape, rstd, weight, output_mask."""
    mask = arg(c, 5)
    if len(mask) != 2 or mask[1] and is_none(c, 4):
        raise RuntimeError(f"{op_name(c)}(): output_mask must have 2 values, the second for a weight that is given, got {mask}")
    return (like(c, tensor_arg(c, 1)) if mask[0] else None, like(c, tensor_arg(c, 4)) if mask[1] else None)


define("_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)", rms_norm, FUNCTION_ONLY,
       "`rms_norm` in one kernel, which also returns the reciprocal of the root of the mean square.")
sharding("_fused_rms_norm_backward", *(f"cut grad_out, input, rstd -> {joins}" for joins in ("cat, sum", "cat", "sum")))
define("_fused_rms_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor rstd, Tensor? weight, "
       "bool[] output_mask) -> (Tensor, Tensor)", rms_norm_backward, FUNCTION_ONLY, "Gradients of `_fused_rms_norm`.")
gradient("_fused_rms_norm", outputs=(0,), joint="fused.fused_rms_norm", input=True, weight=True)
recorded_as("_fused_rms_norm_backward", "fused.rms_norm_backward")
