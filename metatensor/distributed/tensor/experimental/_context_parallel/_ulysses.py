"""Attention by exchange of sequence and heads (DeepSpeed-Ulysses): each rank computes some heads over the whole sequence."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.distributed import _functional_collectives as collectives
from metatensor.distributed.tensor.experimental._context_parallel._load_balancer import joined, part_of
from metatensor.distributed.tensor.experimental._context_parallel._options import _cp_options

__all__ = ["ulysses_attention"]

HEADS, SEQUENCE = 1, 2


def ulysses_attention(
    query: Any, key: Any, value: Any, mesh: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, *,
    scale: float | None = None, enable_gqa: bool = False, generator: Any = None, load_balance: bool | None = None,
) -> Any:  # fmt: skip
    """Return this rank's part of `scaled_dot_product_attention` of tensors that are divided along the sequence.

    An all-to-all of query, key and value gives each rank the whole sequence for some of the heads. A last one divides the
    result along the sequence again. If there are fewer heads of keys than ranks, they are repeated. It is differentiable.

    Parameters
    ----------
    query, key, value : Tensor
        This rank's parts (B, H, L, E), (B, G, S, E), (B, G, S, Ev), of the same size on all ranks.
    mesh : DeviceMesh
        A mesh of one dimension.
    attn_mask : Tensor, optional
        A mask for the whole sequences, and for all heads if it has a dimension for them.
    dropout_p, is_causal, scale, enable_gqa, generator
        As for `scaled_dot_product_attention`.
    load_balance : bool, optional
        Whether each part consists of a chunk of the head of the sequence and one of its tail, see `ring_attention`. All ranks
        do the same work in any case.

    Raises
    ------
    ValueError
        If the tensors do not have four dimensions, their heads cannot be divided evenly among the ranks, or the parts of a
        sequence cannot be halved as ``load_balance`` requires.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributed.tensor.experimental import ulysses_attention
    >>> mesh = mt.distributed.init_device_mesh("meta", (4,))
    >>> q = mt.empty(1, 8, 512, 64, device="meta")
    >>> with mt.distributed.CommunicationLog() as log:
    ...     ulysses_attention(q, q, q, mesh, is_causal=True).shape   # of a sequence of length 2048
    metatensor.Size([1, 8, 512, 64])
    >>> [one.kind for one in log]
    ['all_to_all', 'all_to_all', 'all_to_all', 'all_to_all']
    >>> mt.distributed.destroy_process_group()
    """
    size = mesh.size()
    shapes = f"query {list(query.shape)}, key {list(key.shape)}, value {list(value.shape)}"
    if not query.dim() == key.dim() == value.dim() == 4:
        raise ValueError(f"ulysses_attention: query, key and value need 4 dimensions: {shapes}")
    if enable_gqa and key.shape[HEADS] and not size % key.shape[HEADS]:
        key, value = (one.repeat_interleave(size // one.shape[HEADS], HEADS) for one in (key, value))
    if query.shape[HEADS] % size or key.shape[HEADS] % size or value.shape[HEADS] % size:
        raise ValueError(f"ulysses_attention: the numbers of heads cannot be divided evenly among {size} ranks: {shapes}")
    balanced = size > 1 and (_cp_options.enable_load_balance if load_balance is None else load_balance)
    if balanced and (query.shape[SEQUENCE] % 2 or key.shape[SEQUENCE] % 2):
        raise ValueError(f"ulysses_attention: with load balancing a part of the sequence has two chunks of the same length: {shapes}")
    travelling = [_sent(mt.stack(one.chunk(size, HEADS)), mesh) for one in (query, key, value)]
    query, key, value = (joined(collectives.wait_tensor(one).unbind(0), SEQUENCE, balanced) for one in travelling)
    if attn_mask is not None and attn_mask.dim() > 2 and attn_mask.shape[-3] > 1:
        attn_mask = attn_mask.chunk(size, -3)[mesh.get_group()._rank]
    out = mt.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa, generator=generator
    )
    parts = mt.stack([part_of(out, SEQUENCE, size, rank, balanced) for rank in range(size)])
    return mt.cat(collectives.wait_tensor(_sent(parts, mesh)).unbind(0), HEADS)


def _sent(parts: Any, mesh: Any) -> Any:
    """Begin to send ``parts[rank]`` to each rank. Return those that arrive, in the order of the ranks."""
    return collectives.all_to_all_single(parts, None, None, mesh.get_group())
