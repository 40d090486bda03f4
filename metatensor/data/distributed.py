"""A sampler that divides a dataset between processes."""

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
        raise RuntimeError("DistributedSampler: no process group is initialized; give num_replicas and rank")
    return distributed


class DistributedSampler(Sampler[int]):
    """Yields the indices that one of several processes loads.

    Process ``rank`` gets every ``num_replicas``-th index, beginning with index number ``rank``. All processes use the
    same order and get the same number of indices.

    Parameters
    ----------
    dataset : Dataset
        The dataset, of which only the length is used.
    num_replicas, rank : int, optional
        Number of processes and number of this process. By default they come from the process group. RuntimeError is raised
        if there is none.
    shuffle : bool
        Use a random order, which depends on ``seed`` and on the epoch (see `set_epoch`).
    seed : int
        Seed of the random order.
    drop_last : bool
        If the indices cannot be divided equally, drop the last ones instead of repeating the first ones.

    Examples
    --------
    >>> import metatensor as mt
    >>> list(mt.data.DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False))
    [1, 3, 0]
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
        """Use another random order from the next iteration on."""
        self.epoch = epoch
