"""Information about the current loading worker. Workers are threads of this process."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

__all__ = ["WorkerInfo", "get_worker_info"]


@dataclass(frozen=True)
class WorkerInfo:
    """Information about a worker.

    Parameters
    ----------
    id : int
        Number of the worker, from 0.
    num_workers : int
        Number of workers.
    seed : int
        The worker's own seed.
    dataset : Dataset
        The worker's own shallow copy of the dataset.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


_here = threading.local()


def get_worker_info() -> WorkerInfo | None:
    """Return the `WorkerInfo` of the worker that this code runs in, or None outside workers."""
    return getattr(_here, "info", None)


def enter(info: WorkerInfo) -> None:
    """Make this thread the worker that ``info`` describes."""
    _here.info = info
