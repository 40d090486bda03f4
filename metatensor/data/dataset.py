"""Datasets, which provide samples by index or in sequence."""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import metatensor as mt

__all__ = [
    "ChainDataset", "ConcatDataset", "Dataset", "IterableDataset", "StackDataset", "Subset", "TensorDataset",
    "random_split",
]  # fmt: skip

_T_co = TypeVar("_T_co", covariant=True)


class Dataset(Generic[_T_co]):
    """Base class of datasets with a sample for each index.

    Subclasses override `__getitem__` and, as most samplers need it, `__len__`. The sum of two datasets is a
    `ConcatDataset`.
    """

    def __getitem__(self, index: Any) -> _T_co:
        raise NotImplementedError(f"{type(self).__name__}: a dataset must define __getitem__")

    def __add__(self, other: Dataset[_T_co]) -> ConcatDataset[_T_co]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[_T_co], Iterable[_T_co]):
    """Base class of datasets that yield samples in sequence.

    Subclasses override `__iter__`. The sum of two of them is a `ChainDataset`.
    """

    def __add__(self, other: Dataset[_T_co]) -> Any:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Any, ...]]):
    """The rows of one or more tensors. A sample is a tuple with one row of each tensor.

    Parameters
    ----------
    *tensors : Tensor
        Tensors of equal length (size of dimension 0). Other tensors raise AssertionError.

    Examples
    --------
    >>> import metatensor as mt
    >>> dataset = mt.data.TensorDataset(mt.ones(5, 3), mt.zeros(5))
    >>> len(dataset), [t.shape for t in dataset[0]]
    (5, [metatensor.Size([3]), metatensor.Size([])])
    """

    def __init__(self, *tensors: Any) -> None:
        if any(tensors[0].size(0) != t.size(0) for t in tensors):
            raise AssertionError(f"TensorDataset: the tensors differ in their first size: {[t.size(0) for t in tensors]}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].size(0))


class StackDataset(Dataset[Any]):
    """Several datasets in parallel. A sample is a tuple with one sample of each dataset, or a dict of them.

    Parameters
    ----------
    *args, **kwargs : Dataset
        Datasets of the same length, either all by position (samples are tuples) or all by name (dicts). Anything else
        raises ValueError.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.data.StackDataset(number=[1, 2], name=["one", "two"])[1]
    {'number': 2, 'name': 'two'}
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs or not args and not kwargs:
            raise ValueError("StackDataset: give datasets either by position or by name, and at least one")
        self.datasets: Any = kwargs if kwargs else args
        each = list(kwargs.values()) if kwargs else list(args)
        self._length = len(each[0])
        if any(len(d) != self._length for d in each):
            raise ValueError(f"StackDataset: the datasets differ in length: {[len(d) for d in each]}")

    def _each(self, get: Callable[[Any], Any]) -> Any:
        """Return ``get(dataset)`` for each dataset, as a dict or a tuple like the datasets."""
        if isinstance(self.datasets, dict):
            return dict(zip(self.datasets, map(get, self.datasets.values()), strict=True))
        return tuple(map(get, self.datasets))

    def __getitem__(self, index: Any) -> Any:
        return self._each(lambda dataset: dataset[index])

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        def fetch(dataset: Any) -> list[Any]:
            if callable(getattr(dataset, "__getitems__", None)):
                items = list(dataset.__getitems__(indices))
                if len(items) != len(indices):
                    raise ValueError(f"StackDataset: a dataset returned {len(items)} samples for {len(indices)} indices")
                return items
            return [dataset[index] for index in indices]

        columns = self._each(fetch)
        if isinstance(columns, dict):
            return [dict(zip(columns, sample, strict=True)) for sample in zip(*columns.values(), strict=True)]
        return list(zip(*columns, strict=True))

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[_T_co]):
    """Several datasets, one after the other.

    Parameters
    ----------
    datasets : iterable of Dataset
        At least one dataset. An empty iterable or an `IterableDataset` in it raises AssertionError.

    Examples
    --------
    >>> import metatensor as mt
    >>> dataset = mt.data.ConcatDataset([["a", "b"], ["c"]])
    >>> len(dataset), dataset[2]
    (3, 'c')
    """

    datasets: list[Any]
    cumulative_sizes: list[int]

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """Return the running sums of the lengths of datasets."""
        return list(itertools.accumulate(len(e) for e in sequence))

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("ConcatDataset: there must be at least one dataset")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise AssertionError("ConcatDataset: an IterableDataset has no indices; use ChainDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> Any:
        if idx < 0:
            if -idx > len(self):
                raise ValueError(f"ConcatDataset: index {idx} is out of range for {len(self)} samples")
            idx += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, idx)
        return self.datasets[which][idx - (self.cumulative_sizes[which - 1] if which else 0)]

    @property
    def cummulative_sizes(self) -> list[int]:
        """Deprecated misspelling of `cumulative_sizes`."""
        warnings.warn("ConcatDataset: cummulative_sizes is spelled cumulative_sizes", FutureWarning, stacklevel=2)
        return self.cumulative_sizes


class ChainDataset(IterableDataset[Any]):
    """Several iterable datasets, one after the other.

    Parameters
    ----------
    datasets : iterable of IterableDataset
        Any other dataset raises AssertionError during iteration.
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        super().__init__()
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for dataset in self.datasets:
            self._check(dataset)
            yield from dataset

    def __len__(self) -> int:
        total = 0
        for dataset in self.datasets:
            self._check(dataset)
            total += len(dataset)
        return total

    @staticmethod
    def _check(dataset: Any) -> None:
        if not isinstance(dataset, IterableDataset):
            raise AssertionError(f"ChainDataset: expected an IterableDataset, got {type(dataset).__name__}")


class Subset(Dataset[_T_co]):
    """The samples of a dataset at the given indices.

    Parameters
    ----------
    dataset : Dataset
        The dataset to select from.
    indices : sequence of int
        The index in ``dataset`` of each sample.

    Examples
    --------
    >>> import metatensor as mt
    >>> subset = mt.data.Subset(["a", "b", "c"], [2, 0])
    >>> [subset[i] for i in range(len(subset))]
    ['c', 'a']
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        places = [self.indices[i] for i in indices]
        if callable(getattr(self.dataset, "__getitems__", None)):
            return list(self.dataset.__getitems__(places))
        return [self.dataset[place] for place in places]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Any, lengths: Sequence[int | float], generator: Any = None) -> list[Subset[Any]]:
    """Split a dataset into disjoint random subsets.

    Parameters
    ----------
    dataset : Dataset
        The dataset to split, which must have a length.
    lengths : sequence of int or float
        Either the sizes of the subsets, which must sum to the length of the dataset, or fractions that sum to 1. Sizes
        are then rounded down, and the remaining samples go to the first subsets, one each.
    generator : Generator, optional
        Generates the random order.

    Returns
    -------
    list of Subset

    Raises
    ------
    ValueError
        If the lengths do not sum to the length of the dataset, or a fraction is not between 0 and 1.

    Examples
    --------
    >>> import metatensor as mt
    >>> [len(part) for part in mt.data.random_split(range(10), [0.75, 0.25])]
    [8, 2]
    """
    size = len(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        for place, fraction in enumerate(lengths):
            if fraction < 0 or fraction > 1:
                raise ValueError(f"random_split: expected fractions between 0 and 1, got {fraction} at index {place}")
        counts = [math.floor(size * fraction) for fraction in lengths]
        for i in range(size - sum(counts)):
            counts[i % len(counts)] += 1
        for place, count in enumerate(counts):
            if count == 0:
                warnings.warn(f"random_split: the subset at index {place} is empty", stacklevel=2)
        lengths = counts
    if sum(lengths) != size:
        raise ValueError(f"random_split: the lengths {list(lengths)} do not sum to the dataset's {size}")
    indices = mt.randperm(size, generator=generator, device="cpu").tolist()
    ends = itertools.accumulate(int(n) for n in lengths)
    return [Subset(dataset, indices[end - int(n) : end]) for end, n in zip(ends, lengths, strict=True)]
