"""Multi-head attention with its input and output projections, as `nn.MultiheadAttention` computes it.

Shapes use L for the query length, S for the key length, N for the batch size and E for the embedding width.
"""
from metatensor._core.dtype cimport BOOL
from metatensor._core.op cimport (
    COMPOSITE, FUNCTION_ONLY, MIXED, Call, arg, bool_arg, call, define, float_arg, int_arg, is_none, op_name, tensor_arg,
)
from metatensor._core.tensor cimport Tensor, shape_str
from metatensor._core.types cimport KIND_FLOAT, dim_t

# The arguments in the order of the schema.
cdef enum Slot:
    QUERY, KEY, VALUE, WIDTH, HEADS, IN_WEIGHT, IN_BIAS, BIAS_K, BIAS_V, ADD_ZERO, DROPOUT, OUT_WEIGHT, OUT_BIAS
    TRAINING, PADDING, NEED_WEIGHTS, MASK, SEPARATE, Q_WEIGHT, K_WEIGHT, V_WEIGHT, STATIC_K, STATIC_V, AVERAGE, CAUSAL


# Checks -------------------------------------------------------------------------------------

cdef int require(Call* c, bint holds, str message) except -1:
    """Raise AssertionError unless `holds`. PyTorch raises this class for most invalid arguments of this op."""
    if not holds:
        raise AssertionError(f"{op_name(c)}(): {message}")
    return 0


cdef bint has_shape(Tensor t, tuple sizes):
    return <object>t.shape == sizes


cdef int require_ranks(Call* c, Tensor query, Tensor key, Tensor value, dim_t heads) except -1:
    """Check numbers of dimensions: query, key and value are all (L or S, N, E) or all (L or S, E).

    The padding mask is (N, S), or (S,) without a batch. The attention mask has 2 or 3 dimensions.
    """
    cdef Tensor mask
    cdef int n = query.ndim
    require(c, n == 2 or n == 3, f"query must have 2 or 3 dimensions, got shape {shape_str(query)}")
    require(c, key.ndim == n and value.ndim == n,
            f"key and value must have {n} dimensions, like query, got shapes {shape_str(key)} and {shape_str(value)}")
    if not is_none(c, PADDING):
        mask = tensor_arg(c, PADDING)
        require(c, mask.ndim == n - 1, f"key_padding_mask must have {n - 1} dimensions, got shape {shape_str(mask)}")
    if is_none(c, MASK):
        return 0
    mask = tensor_arg(c, MASK)
    require(c, mask.ndim == 2 or mask.ndim == 3, f"attn_mask must have 2 or 3 dimensions, got shape {shape_str(mask)}")
    return require(c, n == 3 or mask.ndim == 2 or has_shape(mask, (heads, query.sizes[0], key.sizes[0])),
                   f"attn_mask must have shape {[heads, query.sizes[0], key.sizes[0]]}, got {shape_str(mask)}")


cdef dim_t head_width(Call* c, Tensor query, Tensor key, Tensor value, dim_t heads) except? -1:
    """Return the number of features of one head. Raise if the sizes of query, key and value do not fit together."""
    cdef dim_t width
    require(c, query.sizes[2] == int_arg(c, WIDTH), f"query must have {int_arg(c, WIDTH)} features, got {query.sizes[2]}")
    if heads == 0:
        raise ZeroDivisionError(f"{op_name(c)}(): num_heads must not be 0")
    width = query.sizes[2] // heads
    require(c, width * heads == query.sizes[2], f"{query.sizes[2]} features are not divisible by num_heads={heads}")
    if bool_arg(c, SEPARATE):
        require(c, key.sizes[0] == value.sizes[0] and key.sizes[1] == value.sizes[1],
                f"key and value must agree in length and batch, got shapes {shape_str(key)} and {shape_str(value)}")
    else:
        require(c, <object>key.shape == <object>value.shape,
                f"key and value must have the same shape, got {shape_str(key)} and {shape_str(value)}")
    return width


# Masks --------------------------------------------------------------------------------------

cdef object additive(Call* c, int slot, Tensor query):
    """Return a mask that is added to the scores: -inf where a bool mask is True.

    Floating-point masks and None are returned as they are.
    """
    cdef Tensor mask
    if is_none(c, slot):
        return None
    mask = tensor_arg(c, slot)
    require(c, mask.dtype.code == BOOL or mask.dtype.kind == KIND_FLOAT,
            f"a mask must be bool or floating-point, got {mask.dtype.name}")
    if mask.dtype.code != BOOL:
        return mask
    return call("zeros_like", (mask,), {"dtype": query.dtype}).masked_fill_(mask, float("-inf"))


cdef object shaped_mask(Call* c, object mask, dim_t groups, dim_t length, dim_t source):
    """Return the attention mask as (1, L, S) or (groups, L, S), where `groups` is N * heads."""
    cdef tuple sizes
    if mask is None:
        return None
    sizes = (length, source)
    if mask.dim() != 2:
        sizes = (groups, length, source)
    if not has_shape(mask, sizes):
        raise RuntimeError(f"{op_name(c)}(): attn_mask must have shape {list(sizes)}, got {shape_str(mask)}")
    return mask.unsqueeze(0) if mask.dim() == 2 else mask


cdef object one_more(object mask):
    """Extend a mask by one key that is not masked out."""
    return None if mask is None else call("nn.functional.pad", (mask, (0, 1)))


cdef object merged(Call* c, object mask, object padding, dim_t batch, dim_t heads):
    """Add the key padding mask (N, S) to an attention mask (1 or N * heads, L, S)."""
    cdef dim_t source
    if padding is None:
        return mask
    source = padding.size(1)
    padding = padding.view(batch, 1, 1, source).expand(-1, heads, -1, -1).reshape(batch * heads, 1, source)
    return padding if mask is None else mask + padding


# Projections --------------------------------------------------------------------------------

cdef object linear(object x, object weight, object bias):
    return call("nn.functional.linear", (x, weight, bias))


cdef object thirds(Call* c, int slot):
    """Split the argument `slot` along dimension 0 into three parts, for query, key and value."""
    cdef object parts
    if is_none(c, slot):
        return None, None, None
    parts = tensor_arg(c, slot).chunk(3)
    if len(parts) != 3:
        raise ValueError(f"{op_name(c)}(): a projection of shape {shape_str(tensor_arg(c, slot))} cannot be split into "
                         "three parts")
    return parts


cdef object stacked(object projection, dim_t n, dim_t width):
    """Return a projection (L, N, n * E) as (n, L, N, E)."""
    return projection.unflatten(-1, (n, width)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()


cdef list packed(Call* c, list inputs, dim_t width):
    """Project a key that is also the value, and perhaps the query, with one product."""
    cdef object weight = arg(c, IN_WEIGHT), bias = arg(c, IN_BIAS), one
    thirds(c, IN_WEIGHT)
    if inputs[0] is inputs[1]:
        one = stacked(linear(inputs[0], weight, bias), 3, width)
        return [one[0], one[1], one[2]]
    one, weight = weight.split((width, 2 * width))
    bias = (None, None) if bias is None else bias.split((width, 2 * width))
    one = linear(inputs[0], one, bias[0])
    weight = stacked(linear(inputs[1], weight, bias[1]), 2, width)
    return [one, weight[0], weight[1]]


cdef list projected(Call* c, list inputs):
    """Project query, key and value with weights given as one tensor or as three."""
    cdef object biases, weights
    cdef dim_t width = inputs[0].size(-1)
    cdef int i
    if not bool_arg(c, SEPARATE):
        require(c, not is_none(c, IN_WEIGHT), "in_proj_weight is needed unless use_separate_proj_weight is True")
        if inputs[1] is inputs[2]:
            return packed(c, inputs, width)
        weights, biases = thirds(c, IN_WEIGHT), thirds(c, IN_BIAS)
        return [linear(inputs[i], weights[i], biases[i]) for i in range(3)]
    weights = [arg(c, Q_WEIGHT), arg(c, K_WEIGHT), arg(c, V_WEIGHT)]
    for i in range(3):
        require(c, weights[i] is not None, f"{'qkv'[i]}_proj_weight is needed with use_separate_proj_weight")
    biases = thirds(c, IN_BIAS)
    for i in range(3):
        require(c, has_shape(weights[i], (width, inputs[i].size(-1))),
                f"{'qkv'[i]}_proj_weight must have shape {[width, inputs[i].size(-1)]}, got {shape_str(weights[i])}")
    for i in range(3):
        require(c, biases[i] is None or has_shape(biases[i], (width,)),
                f"in_proj_bias must have {3 * width} elements")
    return [linear(inputs[i], weights[i], biases[i]) for i in range(3)]


cdef object by_head(Call* c, object x, int slot, dim_t groups, dim_t width):
    """Reshape (S, N, E) to (N * heads, S, E / heads), or return the static tensor in `slot`, which has that shape."""
    cdef Tensor given
    if is_none(c, slot):
        return x.view(x.size(0), groups, width).transpose(0, 1)
    given = tensor_arg(c, slot)
    if given.ndim < 3 and (given.ndim == 0 or given.sizes[0] == groups):
        raise IndexError(f"{op_name(c)}(): static_k and static_v must have 3 dimensions, got shape {shape_str(given)}")
    require(c, given.ndim > 2 and given.sizes[0] == groups and given.sizes[2] == width,
            f"static_k and static_v must have shape {[groups, 'S', width]}, got {shape_str(given)}")
    return given


# Attention ----------------------------------------------------------------------------------

cdef tuple attended(object q, object k, object v, object mask, double dropout):
    """Return the attention output (N * heads, L, width) and the weights (N * heads, L, S)."""
    cdef object weights
    q = q * (<double>q.size(2)) ** -0.5 if q.size(2) else q
    weights = q.bmm(k.transpose(1, 2)) if mask is None else call("baddbmm", (mask, q, k.transpose(1, 2)))
    q = None                    # freed before the weights are normalized, as in PyTorch
    weights = call("nn.functional.softmax", (weights, -1))
    if dropout > 0:
        weights = call("nn.functional.dropout", (weights, dropout))
    return weights.bmm(v), weights


cdef object multi_head_body(Call* c):
    cdef Tensor query = tensor_arg(c, QUERY), key = tensor_arg(c, KEY), value = tensor_arg(c, VALUE)
    cdef dim_t heads = int_arg(c, HEADS), length, batch, source, width
    cdef bint batched = query.ndim == 3, causal = bool_arg(c, CAUSAL), need_weights = bool_arg(c, NEED_WEIGHTS)
    cdef double dropout = float_arg(c, DROPOUT) if bool_arg(c, TRAINING) else 0.0
    cdef object mask = None, padding, weights = None, q, k, v, output
    require_ranks(c, query, key, value, heads)
    padding = additive(c, PADDING, query)
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        padding = None if padding is None else padding.unsqueeze(0)
    length, batch, source = query.sizes[0], query.sizes[1], key.sizes[0]
    if causal and is_none(c, MASK):
        raise RuntimeError(f"{op_name(c)}(): is_causal=True is a hint about attn_mask, so attn_mask must be given too")
    if not causal or need_weights or padding is not None:
        causal = False
        mask = additive(c, MASK, query)
    width = head_width(c, query, key, value, heads)
    q, k, v = projected(c, [query, key, value])
    mask = shaped_mask(c, mask, batch * heads, length, source)

    require(c, is_none(c, BIAS_K) == is_none(c, BIAS_V), "bias_k and bias_v must be given together")
    if not is_none(c, BIAS_K):
        require(c, is_none(c, STATIC_K) and is_none(c, STATIC_V),
                "bias_k and bias_v cannot be combined with static_k and static_v")
        k = call("cat", ((k, tensor_arg(c, BIAS_K).repeat(1, batch, 1)),))
        v = call("cat", ((v, tensor_arg(c, BIAS_V).repeat(1, batch, 1)),))
        mask, padding = one_more(mask), one_more(padding)
    q = q.view(length, batch * heads, width).transpose(0, 1)
    k = by_head(c, k, STATIC_K, batch * heads, width)
    v = by_head(c, v, STATIC_V, batch * heads, width)
    if bool_arg(c, ADD_ZERO):
        k = call("cat", ((k, k.new_zeros((batch * heads, 1, width))), 1))
        v = call("cat", ((v, v.new_zeros((batch * heads, 1, width))), 1))
        mask, padding = one_more(mask), one_more(padding)
    source = k.size(1)
    require(c, padding is None or has_shape(padding, (batch, source)),
            f"key_padding_mask must have shape {[batch, source]}, got {None if padding is None else shape_str(padding)}")
    mask = merged(c, mask, padding, batch, heads)

    if need_weights:
        output, weights = attended(q, k, v, mask, dropout)
        output = output.transpose(0, 1)
    else:
        if mask is not None:
            mask = mask.unsqueeze(0) if mask.size(0) == 1 else mask.view(batch, heads, -1, source)
        output = call("nn.functional.scaled_dot_product_attention",
                      (q.view(batch, heads, length, width), k.view(batch, heads, source, width),
                       v.view(batch, heads, source, width), mask, dropout, causal)).permute(2, 0, 1, 3)
    output = linear(output.reshape(length * batch, width * heads), arg(c, OUT_WEIGHT), arg(c, OUT_BIAS))
    output = output.view(length, batch, output.size(1))
    if weights is not None:
        weights = weights.view(batch, heads, length, source)
        if bool_arg(c, AVERAGE):
            weights = weights.mean(1)
    if not batched:
        return output.squeeze(1), None if weights is None else weights.squeeze(0)
    return output, weights


define("nn.functional.multi_head_attention_forward(Tensor query, Tensor key, Tensor value, int embed_dim_to_check, "
       "int num_heads, Tensor? in_proj_weight, Tensor? in_proj_bias, Tensor? bias_k, Tensor? bias_v, bool add_zero_attn, "
       "float dropout_p, Tensor out_proj_weight, Tensor? out_proj_bias, bool training=True, "
       "Tensor? key_padding_mask=None, bool need_weights=True, Tensor? attn_mask=None, "
       "bool use_separate_proj_weight=False, Tensor? q_proj_weight=None, Tensor? k_proj_weight=None, "
       "Tensor? v_proj_weight=None, Tensor? static_k=None, Tensor? static_v=None, bool average_attn_weights=True, "
       "bool is_causal=False) -> (Tensor, Tensor)", multi_head_body, COMPOSITE | FUNCTION_ONLY | MIXED,
       "Multi-head attention of query (L, N, E) over key and value (S, N, E). Unbatched tensors have no dimension N. "
       "Returns the output (L, N, E) and the attention weights. The weights are (N, L, S), or (N, heads, L, S) if "
       "`average_attn_weights` is False, or None if `need_weights` is False.")
