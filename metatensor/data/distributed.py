"""The sampler that gives each of several processes its share of a dataset."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import metatensor as mt
from metatensor.data.sampler import Sampler

__all__ = ["DistributedSampler"]


def _group() -> Any:
    from metatensor import distributed

    if not distributed.is_initialized():
        raise RuntimeError("DistributedSampler: no process group is initialised; give num_replicas and rank")
    return distributed


class DistributedSampler(Sampler[int]):
    """Every ``num_replicas``-th index from ``rank`` on, of all indices, shuffled alike in all processes.

    All processes get equally many: indices are repeated from the beginning to make up the number, or, with
    ``drop_last``, left out at the end. `set_epoch` changes the order.
    """

    def __init__(
        self, dataset: Any, num_replicas: int | None = None, rank: int | None = None, shuffle: bool = True, seed: int = 0,
        drop_last: bool = False,
    ) -> None:  # fmt: skip
        self.num_replicas = _group().get_world_size() if num_replicas is None else num_replicas
        self.rank = _group().get_rank() if rank is None else rank
        if not 0 <= self.rank < self.num_replicas:
            raise ValueError(f"DistributedSampler: rank {self.rank} is not between 0 and {self.num_replicas - 1}")
        self.dataset = dataset
        self.epoch = 0
        self.drop_last = drop_last
        size = len(dataset)
        if drop_last and size % self.num_replicas != 0:
            self.num_samples = math.ceil((size - self.num_replicas) / self.num_replicas)
        else:
            self.num_samples = math.ceil(size / self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        size = len(self.dataset)
        if self.shuffle:
            generator = mt.Generator()
            generator.manual_seed(self.seed + self.epoch)
            indices = mt.randperm(size, generator=generator, device="cpu").tolist()
        else:
            indices = list(range(size))
        if not self.drop_last and indices:
            indices = (indices * math.ceil(self.total_size / size))[: self.total_size]
        indices = indices[: self.total_size]
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return int(self.num_samples)

    def set_epoch(self, epoch: int) -> None:
        """Shuffle by another order from the next pass on."""
        self.epoch = epoch
