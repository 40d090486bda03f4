"""How much time and memory the reading of one checkpoint may take.

A checkpoint may cost what is proportional to its bytes, as each reader says for itself, and beyond that what its budget allows.
Whatever can multiply (a range of the file that many tensors claim, a name that grows with nesting, keys that are slow to
compare) is charged before it is done. All files of one checkpoint share a budget: `shared` hands it down.
"""

from __future__ import annotations

import threading
from typing import Any

from metatensor.checkpoint.errors import CheckpointError

__all__ = ["ALLOWANCE", "Budget", "Claims", "current", "shared"]

ALLOWANCE = 64 << 20
"""Bytes that a checkpoint may cost beyond what is proportional to its size. A step of work counts as 8 to 64 bytes."""


class Budget:
    """What is left of an allowance."""

    __slots__ = ("left",)

    def __init__(self, left: int = ALLOWANCE) -> None:
        self.left = left

    def charge(self, file: str, nbytes: int, what: str) -> None:
        """Take ``nbytes`` off. `CheckpointError` that names ``file`` and says ``what`` takes too much, where they are not left."""
        self.left -= nbytes
        if self.left < 0:
            raise CheckpointError(file, f"{what} beyond the bound for a file of its size")


class Claims:
    """Counts the bytes that tensors claim of a file: they may claim each byte a few times, as tensors that share memory do."""

    TIMES = 4

    def __init__(self, file: str, size: int, what: str) -> None:
        self.file = file
        self.left = self.TIMES * size
        self.what = what
        self.budget = current()

    def add(self, nbytes: int) -> None:
        """Claim ``nbytes``. `CheckpointError` where that is too much."""
        over = nbytes - self.left
        self.left = max(self.left - nbytes, 0)
        if over > 0:
            self.budget.charge(self.file, over, self.what)


_active = threading.local()


def current() -> Budget:
    """Return the budget of the checkpoint that this thread is reading, or a new one."""
    found: Budget | None = getattr(_active, "budget", None)
    return Budget() if found is None else found


class shared:
    """A block in which all reading of this thread has one budget: ``budget``, that of a block around it, or a new one."""

    __slots__ = ("_before", "_budget")

    def __init__(self, budget: Budget | None = None) -> None:
        self._budget = budget

    def __enter__(self) -> Budget:
        self._before = getattr(_active, "budget", None)
        found = _active.budget = self._budget or self._before or Budget()
        return found

    def __exit__(self, *error: Any) -> None:
        _active.budget = self._before
