"""Samplers, which determine the order of samples and their division into batches."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import metatensor as mt

__all__ = [
    "BatchSampler", "RandomSampler", "Sampler", "SequentialSampler", "SubsetRandomSampler", "WeightedRandomSampler",
]  # fmt: skip

_T_co = TypeVar("_T_co", covariant=True)


class Sampler(Generic[_T_co]):
    """Base class of samplers. Subclasses override `__iter__` to yield indices or lists of indices."""

    def __iter__(self) -> Iterator[_T_co]:
        raise NotImplementedError(f"{type(self).__name__}: a sampler must define __iter__")


class SequentialSampler(Sampler[int]):
    """Yields all indices in order.

    Parameters
    ----------
    data_source : Dataset
        Only its length is used.

    Examples
    --------
    >>> import metatensor as mt
    >>> list(mt.data.SequentialSampler("abc"))
    [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


def _positive(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{name} must be a positive int, got {value!r}")


class RandomSampler(Sampler[int]):
    """Yields indices in random order.

    Parameters
    ----------
    data_source : Dataset
        Only its length is used.
    replacement : bool
        Draw each index independently of the others, so that indices may repeat.
    num_samples : int, optional
        Number of indices to yield. Default: the length of ``data_source``. If it is larger and ``replacement`` is
        false, further permutations follow the first one.
    generator : Generator, optional
        Generates the indices. By default each iteration uses a new generator, seeded from the default one.

    Examples
    --------
    >>> import metatensor as mt
    >>> sorted(mt.data.RandomSampler("abc"))
    [0, 1, 2]
    """

    def __init__(
        self, data_source: Sized, replacement: bool = False, num_samples: int | None = None, generator: Any = None
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(f"RandomSampler: replacement must be a bool, got {replacement!r}")
        _positive("RandomSampler: num_samples", self.num_samples)

    @property
    def num_samples(self) -> int:
        """The number of indices that one iteration yields."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        size = len(self.data_source)
        generator = self.generator
        if generator is None:
            generator = mt.Generator()
            generator.manual_seed(int(mt.empty((), dtype=mt.int64, device="cpu").random_().item()))
        left = self.num_samples
        while left > 0:
            if self.replacement:
                drawn = mt.randint(size, (min(left, 32),), dtype=mt.int64, generator=generator, device="cpu").tolist()
            else:
                drawn = mt.randperm(size, generator=generator, device="cpu").tolist()[:left]
            yield from drawn
            left -= len(drawn)

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Yields the given indices in random order.

    Parameters
    ----------
    indices : sequence of int
        The indices to yield.
    generator : Generator, optional
        Generates the order.
    """

    def __init__(self, indices: Sequence[int], generator: Any = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for place in mt.randperm(len(self.indices), generator=self.generator, device="cpu").tolist():
            yield self.indices[place]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Yields random indices with given probabilities.

    Parameters
    ----------
    weights : sequence of float
        Nonnegative weights, one per index. They need not sum to 1.
    num_samples : int
        Number of indices to yield.
    replacement : bool
        Draw each index independently of the others, so that indices may repeat.
    generator : Generator, optional
        Generates the indices.

    Examples
    --------
    >>> import metatensor as mt
    >>> list(mt.data.WeightedRandomSampler([0, 1, 0], 4))
    [1, 1, 1, 1]
    """

    def __init__(
        self, weights: Sequence[float], num_samples: int, replacement: bool = True, generator: Any = None
    ) -> None:
        _positive("WeightedRandomSampler: num_samples", num_samples)
        if not isinstance(replacement, bool):
            raise ValueError(f"WeightedRandomSampler: replacement must be a bool, got {replacement!r}")
        self.weights = mt.as_tensor(weights, dtype=mt.float64, device="cpu")
        if self.weights.dim() != 1:
            raise ValueError(f"WeightedRandomSampler: weights must have one dimension, got shape {tuple(self.weights.shape)}")
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        yield from mt.multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator).tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Groups the indices of another sampler into lists.

    Parameters
    ----------
    sampler : iterable of int
        Yields the indices.
    batch_size : int
        Length of each list.
    drop_last : bool
        Drop the last list if it is shorter than ``batch_size``.

    Examples
    --------
    >>> import metatensor as mt
    >>> list(mt.data.BatchSampler(range(5), 2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Sampler[int] | Iterable[int], batch_size: int, drop_last: bool) -> None:
        _positive("BatchSampler: batch_size", batch_size)
        if not isinstance(drop_last, bool):
            raise ValueError(f"BatchSampler: drop_last must be a bool, got {drop_last!r}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield batch

    def __len__(self) -> int:
        size = len(self.sampler)  # type: ignore[arg-type]
        return size // self.batch_size if self.drop_last else -(-size // self.batch_size)
