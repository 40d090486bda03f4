"""How a sequence is divided among the ranks of a mesh, so that causal attention gives all of them the same work."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import metatensor as mt

__all__ = ["_HeadTailLoadBalancer", "_LoadBalancer", "chunks_of", "joined", "part_of"]


def chunks_of(size: int, rank: int, balanced: bool) -> tuple[int, ...]:
    """Return the numbers of the chunks of a sequence that a rank holds.

    If balanced, and unless there is only one rank, there are twice as many chunks as ranks, and each rank holds one from the
    head and one from the tail. Under a causal mask, rows at the head attend to few keys and rows at the tail to many, so all
    ranks have the same work.
    """
    return (rank, 2 * size - 1 - rank) if balanced and size > 1 else (rank,)


def part_of(whole: Any, dim: int, size: int, rank: int, balanced: bool) -> Any:
    """Return a copy of the part of a tensor that a rank holds, cut along ``dim``. Raise ValueError if it cannot be cut evenly."""
    chunks = chunks_of(size, rank, balanced)
    count = size * len(chunks)
    if whole.shape[dim] % count:
        what = f"2 x {size} ranks, as load balancing requires" if len(chunks) == 2 else f"{size} ranks"
        raise ValueError(
            f"context_parallel: dimension {dim} of a tensor of shape {list(whole.shape)} cannot be divided evenly among {what}"
        )
    length = whole.shape[dim] // count
    parts = [whole.narrow(dim, chunk * length, length) for chunk in chunks]
    return mt.cat(parts, dim) if len(parts) > 1 else parts[0].clone(memory_format=mt.contiguous_format)


def joined(parts: Sequence[Any], dim: int, balanced: bool) -> Any:
    """Return the tensor whose parts the ranks hold."""
    size = len(parts)
    pieces: dict[int, Any] = {}
    for rank, part in enumerate(parts):
        numbers = chunks_of(size, rank, balanced)
        pieces.update(zip(numbers, part.chunk(len(numbers), dim), strict=True))
    return mt.cat([pieces[number] for number in sorted(pieces)], dim)


class _LoadBalancer(ABC):
    """A permutation of the positions of a sequence, of which each rank then holds an equal, consecutive part."""

    @abstractmethod
    def _generate_indices(self, restore: bool = False) -> Any:
        """Return the permutation, an int64 tensor (1, length), or its inverse if ``restore`` is true. None changes nothing."""


class _HeadTailLoadBalancer(_LoadBalancer):
    """Give each rank one chunk from the head of the sequence and one from the tail, see `chunks_of`.

    Parameters
    ----------
    seq_length : int
        Length of the sequence, a multiple of twice the number of ranks.
    world_size : int
        Number of ranks.
    device : device
        Device of the indices.
    """

    def __init__(self, seq_length: int, world_size: int, device: Any) -> None:
        if seq_length % (2 * world_size):
            raise ValueError(f"_HeadTailLoadBalancer: a sequence of length {seq_length} cannot be divided among 2 x {world_size} ranks")
        self.seq_length, self.world_size, self.device = seq_length, world_size, device

    def _generate_indices(self, restore: bool = False) -> Any:
        places = mt.arange(self.seq_length, device=self.device)
        parts = [part_of(places, 0, self.world_size, rank, True) for rank in range(self.world_size)]
        order = joined(list(places.chunk(self.world_size)), 0, True) if restore else mt.cat(parts)
        return order.unsqueeze(0)
