"""Fetchers, which take the samples of a batch from a dataset."""

from __future__ import annotations

import itertools
from typing import Any

__all__: list[str] = []


class _MapDatasetFetcher:
    """Fetches samples by index."""

    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Any, drop_last: bool) -> None:
        self.dataset = dataset
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn

    def fetch(self, index: Any) -> Any:
        if not self.auto_collation:
            return self.collate_fn(self.dataset[index])
        several = getattr(self.dataset, "__getitems__", None)
        return self.collate_fn(several(index) if several else [self.dataset[i] for i in index])


class _IterableDatasetFetcher:
    """Fetches the next samples. Raises StopIteration if there are none or, with ``drop_last``, too few."""

    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Any, drop_last: bool) -> None:
        self.dataset = dataset
        self.dataset_iter = iter(dataset)
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self.drop_last = drop_last

    def fetch(self, index: Any) -> Any:
        if not self.auto_collation:
            return self.collate_fn(next(self.dataset_iter))
        data = list(itertools.islice(self.dataset_iter, len(index)))
        if not data or self.drop_last and len(data) < len(index):
            raise StopIteration
        return self.collate_fn(data)
