"""One entry of a memory log."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MemoryEvent"]


class MemoryEvent(NamedTuple):
    """A birth, resize or death of a storage."""

    kind: str
    """``"birth"``, ``"resize"`` or ``"death"``."""
    storage: int
    """The number of the storage. Later storages have greater numbers."""
    change: int
    """The change in live bytes."""
    operator: int
    """The number of the operator that ran last in the thread. Later operators have greater numbers."""
    walk: int
    """0 outside backward passes, else the number of the backward pass in this log, from 1."""
