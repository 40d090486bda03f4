"""Scaled dot-product attention."""

from .harness import suite, table

CASES = table(
    "attention",
    """
F.sdpa | F.scaled_dot_product_attention(qkv, qkv, qkv)
F.sdpa causal | F.scaled_dot_product_attention(qkv, qkv, qkv, is_causal=True)
F.multi_head_attention_forward | F.multi_head_attention_forward(heads, heads, heads, 4, 2, w12x4, b12, None, None, False, 0.0, w4, g)
""",
)

Attention = suite(CASES)
