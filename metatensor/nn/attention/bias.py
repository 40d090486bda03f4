"""Causal masks for `scaled_dot_product_attention`, materialized only if ``is_causal=True`` cannot express them."""

from __future__ import annotations

import warnings
from enum import IntEnum, auto
from typing import Any

import metatensor as mt
from metatensor.nn import functional as F

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(IntEnum):
    """Corner of the score matrix at which the diagonal of a causal mask starts or ends."""

    UPPER_LEFT = auto()
    LOWER_RIGHT = auto()


class CausalBias(mt.Tensor):
    """Causal mask that is passed to `scaled_dot_product_attention` as ``attn_mask``.

    Parameters
    ----------
    variant : CausalVariant
        Alignment of the diagonal.
    seq_len_q, seq_len_kv : int
        Numbers of queries and keys.

    Raises
    ------
    AssertionError
        If ``variant`` is not a `CausalVariant`.
    """

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> CausalBias:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"CausalBias: variant must be a CausalVariant, got {type(variant).__name__}")
        return mt.Tensor._make_subclass(cls, mt.empty((int(variant), seq_len_q, seq_len_kv)))

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        self.variant = variant
        self.seq_len_q = seq_len_q
        self.seq_len_kv = seq_len_kv
        if seq_len_q > seq_len_kv and variant == CausalVariant.LOWER_RIGHT:
            warnings.warn("CausalBias: the first queries attend to no key, so attention returns NaN for them", stacklevel=2)

    def _materialize(self, device: Any = None) -> mt.Tensor:
        """Return the mask as a bool tensor (seq_len_q, seq_len_kv), on the CPU unless a device is given."""
        ones = mt.ones(self.seq_len_q, self.seq_len_kv, device=device or "cpu", dtype=mt.bool)
        return ones.tril(0 if self.variant == CausalVariant.UPPER_LEFT else self.seq_len_kv - self.seq_len_q)

    @staticmethod
    def _dispatch(
        query: mt.Tensor,
        key: mt.Tensor,
        value: mt.Tensor,
        attn_mask: CausalBias,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> mt.Tensor:
        """Compute attention with a CausalBias. Raise ValueError if ``is_causal`` is set too."""
        if is_causal:
            raise ValueError("scaled_dot_product_attention(): is_causal cannot be combined with a CausalBias")
        causal = attn_mask.seq_len_q == attn_mask.seq_len_kv or attn_mask.variant == CausalVariant.UPPER_LEFT
        mask = None if causal else attn_mask._materialize(query.device)
        return F.scaled_dot_product_attention(query, key, value, mask, dropout_p, causal, scale=scale, enable_gqa=enable_gqa)

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is F.scaled_dot_product_attention:
            return cls._dispatch(*args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs or {})

    def __repr__(self, *args: Any, **kwargs: Any) -> str:
        return repr(self._materialize())


def causal_upper_left(*size: int) -> CausalBias:
    """Return a causal mask for sizes (queries, keys) whose diagonal starts at the first query and key.

    Raise AssertionError unless exactly two sizes are given.

    Examples
    --------
    >>> from metatensor.nn.attention.bias import causal_upper_left
    >>> causal_upper_left(2, 3)
    tensor([[ True, False, False],
            [ True,  True, False]])
    """
    if len(size) != 2:
        raise AssertionError(f"causal_upper_left: expected 2 sizes, got {len(size)}")
    return CausalBias(CausalVariant.UPPER_LEFT, *size)


def causal_lower_right(*size: int) -> CausalBias:
    """Return a causal mask for sizes (queries, keys) whose diagonal ends at the last query and key.

    Raise AssertionError unless exactly two sizes are given.

    Examples
    --------
    >>> from metatensor.nn.attention.bias import causal_lower_right
    >>> causal_lower_right(2, 3)
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """
    if len(size) != 2:
        raise AssertionError(f"causal_lower_right: expected 2 sizes, got {len(size)}")
    return CausalBias(CausalVariant.LOWER_RIGHT, *size)
