"""What a loading worker knows of itself. Workers are threads of this process here."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

__all__ = ["WorkerInfo", "get_worker_info"]


@dataclass(frozen=True)
class WorkerInfo:
    """Which worker this is: its number, how many there are, its seed, and its own shallow copy of the dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_here = threading.local()


def get_worker_info() -> WorkerInfo | None:
    """The `WorkerInfo` of the worker that calls this; None outside workers."""
    return getattr(_here, "info", None)


def enter(info: WorkerInfo) -> None:
    """Make this thread the worker that ``info`` describes."""
    _here.info = info
