"""Attention of sequences of different lengths that are joined into one tensor."""

from __future__ import annotations

from typing import Any, NamedTuple

import metatensor as mt
from metatensor.nn import functional

__all__ = ["AuxRequest", "varlen_attn"]


class AuxRequest(NamedTuple):
    """Which further results `varlen_attn` returns."""

    lse: bool = False


def varlen_attn(
    query: Any, key: Any, value: Any, cu_seq_q: Any, cu_seq_k: Any, max_q: int, max_k: int, *, return_aux: AuxRequest | None = None,
    scale: float | None = None, window_size: tuple[int, int] = (-1, -1), enable_gqa: bool = False, seqused_k: Any = None,
    block_table: Any = None, num_splits: int | None = None,
) -> Any:  # fmt: skip
    """Compute attention within each of several sequences, which follow each other in the first dimension.

    It is computed with a mask, so memory grows with the square of the number of tokens.

    Parameters
    ----------
    query : Tensor
        Shape (tokens, heads, dimension).
    key, value : Tensor
        Shape (tokens, heads, dimension). With ``enable_gqa``, there may be fewer heads than those of ``query``.
    cu_seq_q, cu_seq_k : Tensor
        Where each sequence begins, followed by the number of tokens; shape (sequences + 1,). None: the same as for the query.
    max_q, max_k : int
        The length of the longest sequence. They are not used.
    return_aux : AuxRequest, optional
        With ``lse``, the logarithms of the sums of exponentials are returned as well; shape (heads, tokens), float32.
    scale : float, optional
        Factor of the scores. Default: 1 / sqrt(dimension).
    window_size : (int, int)
        How many keys to the left and to the right of its own position a query attends to; -1 means all. Positions are counted
        from the ends of the sequences. (-1, 0) is causal.
    enable_gqa : bool
        Whether groups of heads of the query share a head of the key.
    seqused_k : Tensor, optional
        How many tokens of each sequence of keys count; shape (sequences,).
    block_table : Tensor, optional
        Pages of keys are not supported.
    num_splits : int, optional
        Ignored.

    Returns
    -------
    Tensor
        Shape of ``query``.

    Raises
    ------
    NotImplementedError
        If ``block_table`` is given.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.nn.attention.varlen import varlen_attn
    >>> x = mt.empty(10, 4, 8, device="meta")
    >>> starts = mt.empty(3, dtype=mt.int32, device="meta")
    >>> varlen_attn(x, x, x, starts, starts, 6, 6, window_size=(-1, 0)).shape
    metatensor.Size([10, 4, 8])
    """
    if block_table is not None:
        raise NotImplementedError("varlen_attn: block_table is not supported; keys and values must be given in order")
    starts = cu_seq_q if cu_seq_k is None else cu_seq_k
    mask = _mask(query.shape[0], key.shape[0], cu_seq_q, starts, window_size, seqused_k)
    q, k, v = (one.transpose(0, 1).unsqueeze(0) for one in (query, key, value))
    out = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, enable_gqa=enable_gqa)
    found = out.squeeze(0).transpose(0, 1)
    if return_aux is None or not return_aux.lse:
        return found
    keys = k.repeat_interleave(q.shape[1] // k.shape[1], 1) if enable_gqa else k
    scores = (q @ keys.transpose(-2, -1)).to(mt.float32) * (query.shape[-1] ** -0.5 if scale is None else scale)
    return found, scores.masked_fill(~mask, -mt.inf).logsumexp(-1).squeeze(0)


def _mask(n_q: int, n_k: int, starts_q: Any, starts_k: Any, window: tuple[int, int], used: Any) -> Any:
    """Return which keys each query attends to; shape (n_q, n_k), bool."""
    rows, columns = (mt.arange(n, device=starts_q.device).unsqueeze(dim) for n, dim in ((n_q, 1), (n_k, 0)))
    of_row = mt.searchsorted(starts_q[1:].to(mt.int64), rows, right=True)
    of_column = mt.searchsorted(starts_k[1:].to(mt.int64), columns, right=True)
    last = starts_q.shape[0] - 2
    mask = (of_row == of_column) & (of_row <= last)
    of_row, of_column = of_row.clamp(max=last), of_column.clamp(max=last)
    if used is not None:
        mask = mask & (columns - starts_k[of_column] < used[of_column])
    left, right = window
    if (left, right) == (-1, -1):
        return mask
    ends_k = starts_k[1:] if used is None else starts_k[:-1] + used
    ahead = (columns - ends_k[of_column]) - (rows - starts_q[1:][of_row])
    if left >= 0:
        mask = mask & (ahead >= -left)
    return mask & (ahead <= right) if right >= 0 else mask
