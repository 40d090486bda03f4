"""The data loader. Its workers are threads of this process, and batches keep the order of their indices."""

from __future__ import annotations

import itertools
import multiprocessing
import multiprocessing.context
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial
from typing import Any, Generic, TypeVar

import metatensor as mt
from metatensor.data._utils.collate import default_collate, default_convert
from metatensor.data._utils.fetch import _IterableDatasetFetcher, _MapDatasetFetcher
from metatensor.data._utils.pin_memory import pin_memory
from metatensor.data._utils.worker import WorkerInfo, get_worker_info
from metatensor.data._utils.workers import EXHAUSTED, Worker
from metatensor.data.dataset import Dataset, IterableDataset
from metatensor.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler
from metatensor.devices.pinning import can_pin

__all__ = ["DataLoader", "WorkerInfo", "default_collate", "default_convert", "get_worker_info"]

_T_co = TypeVar("_T_co", covariant=True)


class _DatasetKind:
    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(kind: int, dataset: Any, auto_collation: bool, collate_fn: Any, drop_last: bool) -> Any:
        made = _MapDatasetFetcher if kind == _DatasetKind.Map else _IterableDatasetFetcher
        return made(dataset, auto_collation, collate_fn, drop_last)


class _InfiniteConstantSampler(Sampler[None]):
    """Yields None forever. It is the sampler of datasets without indices."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


_FIXED = frozenset({"dataset", "sampler", "batch_sampler", "batch_size", "drop_last", "persistent_workers"})
"""Attributes that cannot be changed after construction, because others are derived from them."""


class DataLoader(Generic[_T_co]):
    """An iterable over the batches of a dataset.

    Workers are threads, not processes. Each has a shallow copy of the dataset and loads batches ahead of time.

    Parameters
    ----------
    dataset : Dataset
        Provides samples by index, or in sequence if it is an `IterableDataset`.
    batch_size : int, optional
        Number of samples per batch. With None the loader yields single samples.
    shuffle : bool, optional
        Visit the samples in a new random order in each epoch. Default: False.
    sampler : iterable, optional
        Yields the indices of samples. Excludes ``shuffle``.
    batch_sampler : iterable, optional
        Yields lists of indices. Excludes ``batch_size``, ``shuffle``, ``sampler`` and ``drop_last``.
    num_workers : int
        Number of threads. With 0 a batch is loaded when it is requested.
    collate_fn : callable, optional
        Merges a list of samples into a batch. Default: `default_collate`, or without batches `default_convert`.
    drop_last : bool
        Drop the last batch if it is smaller than ``batch_size``.
    timeout : float
        Seconds to wait for a batch from a worker; 0 means no limit.
    worker_init_fn : callable, optional
        Called in each worker with its number before it loads anything.
    generator : Generator, optional
        Generates the random order and the seeds of the workers.
    prefetch_factor : int, optional
        Number of batches that each worker loads ahead. Default: 2.
    persistent_workers : bool
        Keep the workers after the last batch for the next epoch.
    multiprocessing_context : str or context, optional
        Validated and stored, but not used.
    pin_memory : bool
        Copy the tensors of each batch to page-locked memory. This gives a warning, and no effect, if no device that can
        lock memory is available.
    pin_memory_device : str
        Stored, but not used: any available device locks the memory.
    in_order : bool
        Yield batches in the order of their indices. With False, workers yield them as soon as they are loaded.

    Raises
    ------
    ValueError
        If arguments are negative or exclude each other.
    RuntimeError
        During iteration, if a batch takes longer than ``timeout``.

    Examples
    --------
    >>> import metatensor as mt
    >>> dataset = mt.data.TensorDataset(mt.ones(10, 3), mt.zeros(10))
    >>> for x, y in mt.data.DataLoader(dataset, batch_size=4):
    ...     print(x.shape, y.shape)
    metatensor.Size([4, 3]) metatensor.Size([4])
    metatensor.Size([4, 3]) metatensor.Size([4])
    metatensor.Size([2, 3]) metatensor.Size([2])
    """

    __initialized = False

    def __init__(
        self, dataset: Dataset[_T_co], batch_size: int | None = 1, shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None, batch_sampler: Sampler[Any] | Iterable[Any] | None = None,
        num_workers: int = 0, collate_fn: Callable[[list[Any]], Any] | None = None, pin_memory: bool = False,
        drop_last: bool = False, timeout: float = 0, worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None, generator: Any = None, *, prefetch_factor: int | None = None,
        persistent_workers: bool = False, pin_memory_device: str = "", in_order: bool = True,
    ) -> None:  # fmt: skip
        if num_workers < 0:
            raise ValueError(f"DataLoader: num_workers must not be negative, got {num_workers}")
        if timeout < 0:
            raise ValueError(f"DataLoader: timeout must not be negative, got {timeout}")
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError("DataLoader: prefetch_factor needs num_workers > 0")
        if prefetch_factor is not None and prefetch_factor < 0:
            raise ValueError(f"DataLoader: prefetch_factor must not be negative, got {prefetch_factor}")
        if persistent_workers and num_workers == 0:
            raise ValueError("DataLoader: persistent_workers needs num_workers > 0")
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order

        if isinstance(dataset, IterableDataset):
            self._dataset_kind = _DatasetKind.Iterable
            if shuffle not in (False, None):
                raise ValueError(f"DataLoader: an IterableDataset cannot be shuffled, got shuffle={shuffle}")
            if sampler is not None or batch_sampler is not None:
                raise ValueError("DataLoader: an IterableDataset takes no sampler and no batch_sampler")
        else:
            self._dataset_kind = _DatasetKind.Map
            shuffle = bool(shuffle)
        if sampler is not None and shuffle:
            raise ValueError("DataLoader: sampler and shuffle exclude each other")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError("DataLoader: batch_sampler excludes batch_size, shuffle, sampler and drop_last")
            batch_size = None
            drop_last = False
        elif batch_size is None and drop_last:
            raise ValueError("DataLoader: batch_size=None excludes drop_last")
        if sampler is None:
            if self._dataset_kind == _DatasetKind.Iterable:
                sampler = _InfiniteConstantSampler()
            elif shuffle:
                sampler = RandomSampler(dataset, generator=generator)  # type: ignore[arg-type]
            else:
                sampler = SequentialSampler(dataset)  # type: ignore[arg-type]
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)  # type: ignore[arg-type]
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self.persistent_workers = persistent_workers
        self._IterableDataset_len_called: int | None = None
        self._iterator: _BaseDataLoaderIter | None = None
        self.__initialized = True

    def _get_iterator(self) -> _BaseDataLoaderIter:
        return _SingleProcessDataLoaderIter(self) if self.num_workers == 0 else _MultiProcessingDataLoaderIter(self)

    @property
    def multiprocessing_context(self) -> Any:
        """The context passed to the constructor. It is not used, because workers are threads."""
        return self.__multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None:
            if self.num_workers == 0:
                raise ValueError("DataLoader: multiprocessing_context needs num_workers > 0")
            if isinstance(context, str):
                if context not in multiprocessing.get_all_start_methods():
                    raise ValueError(f"DataLoader: there is no multiprocessing context {context!r}")
                context = multiprocessing.get_context(context)
            if not isinstance(context, multiprocessing.context.BaseContext):
                raise TypeError(f"DataLoader: expected a multiprocessing context or its name, got {context!r}")
        self.__multiprocessing_context = context

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and self.__initialized:
            raise ValueError(f"DataLoader: {name} cannot be changed after construction")
        super().__setattr__(name, value)

    def __iter__(self) -> Any:
        if not self.persistent_workers:
            return self._get_iterator()
        if self._iterator is None:
            self._iterator = self._get_iterator()
        else:
            self._iterator._reset(self)
        return self._iterator

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def __len__(self) -> int:
        if self._dataset_kind == _DatasetKind.Map:
            return len(self._index_sampler)
        length = self._IterableDataset_len_called = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)

    def check_worker_number_rationality(self) -> None:
        """Do nothing: the number of threads need not match the number of processors."""


class _BaseDataLoaderIter:
    """Iterator over the batches of a loader."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._dataset = loader.dataset
        self._dataset_kind = loader._dataset_kind
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        self._auto_collation = loader._auto_collation
        self._drop_last = loader.drop_last
        self._index_sampler = loader._index_sampler
        self._num_workers = loader.num_workers
        self._collate_fn = loader.collate_fn
        self._timeout = loader.timeout
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = 0
        self._pin_memory = bool(loader.pin_memory) and can_pin()
        if loader.pin_memory and not self._pin_memory:
            warnings.warn("DataLoader: pin_memory=True has no effect, because no device that locks memory is available", stacklevel=5)

    def __iter__(self) -> _BaseDataLoaderIter:
        return self

    def _reset(self, loader: DataLoader[Any]) -> None:
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = 0
        self._IterableDataset_len_called = loader._IterableDataset_len_called

    def _next_index(self) -> Any:
        return next(self._sampler_iter)

    def _next_data(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__}._next_data")

    def __next__(self) -> Any:
        data = self._next_data()
        self._num_yielded += 1
        told = self._IterableDataset_len_called
        if self._dataset_kind == _DatasetKind.Iterable and told is not None and self._num_yielded > told:
            warnings.warn(
                f"DataLoader: the dataset reports a length of {told}, but has already yielded {self._num_yielded} batches",
                stacklevel=2,
            )
        return pin_memory(data) if self._pin_memory else data

    def __len__(self) -> int:
        return len(self._index_sampler)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Loads each batch when it is requested."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader)
        self._dataset_fetcher = _DatasetKind.create_fetcher(
            self._dataset_kind, self._dataset, self._auto_collation, self._collate_fn, self._drop_last
        )

    def _next_data(self) -> Any:
        return self._dataset_fetcher.fetch(self._next_index())


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Loads batches ahead of time. They are assigned to the threads in turn."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader)
        self._ahead = max(loader.prefetch_factor or 0, 1) * loader.num_workers
        self._persistent_workers = loader.persistent_workers
        self._in_order = bool(loader.in_order)
        seed = int(mt.empty((), dtype=mt.int64, device="cpu").random_(generator=loader.generator).item())

        fetcher = partial(
            _DatasetKind.create_fetcher, self._dataset_kind, auto_collation=self._auto_collation,
            collate_fn=self._collate_fn, drop_last=self._drop_last,
        )  # fmt: skip
        self._workers = [
            Worker(WorkerInfo(i, loader.num_workers, seed + i, loader.dataset), fetcher, loader.worker_init_fn)
            for i in range(loader.num_workers)
        ]
        self._start()

    def _start(self) -> None:
        self._pending: deque[tuple[Worker, Future[Any]]] = deque()
        self._alive = list(self._workers)
        self._turn = 0
        for worker in self._workers:
            worker.restart()
        for _ in range(self._ahead):
            self._put()

    def _reset(self, loader: DataLoader[Any]) -> None:
        super()._reset(loader)
        for _, future in self._pending:
            future.cancel()
        self._start()

    def _put(self, free: Worker | None = None) -> None:
        """Assign the next indices, if there are any left, to a free worker or else to the next one."""
        if not self._alive:
            return
        try:
            index = self._next_index()
        except StopIteration:
            return
        if free in self._alive:
            worker = free
        else:
            worker = self._alive[self._turn % len(self._alive)]
            self._turn = (self._turn + 1) % len(self._alive)
        self._pending.append((worker, worker.submit(index)))

    def _next_data(self) -> Any:
        while self._pending:
            worker, future = self._next_pending()
            try:
                found = future.result(self._timeout or None)
                if found is EXHAUSTED:
                    self._retire(worker)
            except TimeoutError:
                if future.done():  # the dataset itself raised TimeoutError
                    raise
                raise RuntimeError(f"DataLoader: a batch took longer than the timeout of {self._timeout} s") from None
            finally:
                self._put(None if self._in_order else worker)
            if found is not EXHAUSTED:
                return found
        if not self._persistent_workers:
            self._shutdown_workers()
        raise StopIteration

    def _next_pending(self) -> tuple[Worker, Future[Any]]:
        """Remove and return the first request, or, if the order does not matter, the first one that is done."""
        if not self._in_order:
            wait([future for _, future in self._pending], self._timeout or None, FIRST_COMPLETED)
            for place, (_, future) in enumerate(self._pending):
                if future.done():
                    self._pending.rotate(-place)
                    first = self._pending.popleft()
                    self._pending.rotate(place)
                    return first
        return self._pending.popleft()

    def _retire(self, worker: Worker) -> None:
        if worker in self._alive:
            place = self._alive.index(worker)
            self._alive.remove(worker)
            if place < self._turn:
                self._turn -= 1

    def _shutdown_workers(self) -> None:
        for worker in getattr(self, "_workers", ()):
            worker.stop()

    def __del__(self) -> None:
        self._shutdown_workers()
