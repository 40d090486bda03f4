"""Scaled dot-product attention."""

from .harness import suite, table

CASES = table(
    "attention",
    """
F.sdpa | F.scaled_dot_product_attention(qkv, qkv, qkv)
F.sdpa causal | F.scaled_dot_product_attention(qkv, qkv, qkv, is_causal=True)
""",
)

Attention = suite(CASES)
