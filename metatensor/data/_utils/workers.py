"""A loading worker: a thread that fetches batches in the order of the requests."""

from __future__ import annotations

import copy
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from types import MethodType
from typing import Any

import metatensor as mt
from metatensor.data._utils.worker import WorkerInfo, enter

__all__ = ["EXHAUSTED", "Worker"]

EXHAUSTED = object()
"""The result of a request if the worker's dataset is exhausted."""


class Worker:
    """A thread with a shallow copy of the dataset. It uses the default device of the thread that created it."""

    def __init__(self, info: WorkerInfo, fetcher: Callable[[Any], Any], init: Callable[[int], None] | None) -> None:
        self._info = replace(info, dataset=copy.copy(info.dataset))
        self._fetcher = fetcher
        if isinstance(init, MethodType) and init.__self__ is info.dataset:
            init = MethodType(init.__func__, self._info.dataset)  # what it sets is the worker's own
        self._init = init
        self._default_device = mt.get_default_device()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"DataLoader-{info.id}")
        self._begun = False
        self._fetch: Any = None

    def restart(self) -> None:
        """Make the next request start again at the beginning of the dataset."""
        self._thread.submit(self._forget)

    def submit(self, index: Any) -> Future[Any]:
        """Return a future of the batch at ``index``, or of `EXHAUSTED`."""
        return self._thread.submit(self._run, index)

    def stop(self) -> None:
        """End the thread after its current request."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _forget(self) -> None:
        self._fetch = None

    def _run(self, index: Any) -> Any:
        if not self._begun:
            self._begun = True
            enter(self._info)
            mt.set_default_device(self._default_device)
            if self._init is not None:
                self._init(self._info.id)
        if self._fetch is None:
            self._fetch = self._fetcher(self._info.dataset)
        try:
            return self._fetch.fetch(index)
        except StopIteration:
            return EXHAUSTED
