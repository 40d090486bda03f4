"""Bounds on the time and memory that reading one checkpoint may take.

Each reader may use time and memory in proportion to the file's size, plus what the checkpoint's budget allows. Work
that could grow faster than the file is subtracted from the budget before it is done: many tensors over one range of the
file, names that grow with nesting, keys that are slow to compare. All files of one checkpoint share a budget through
`shared`.
"""

from __future__ import annotations

import threading
from typing import Any

from metatensor.checkpoint.errors import CheckpointError

__all__ = ["ALLOWANCE", "Budget", "Claims", "current", "shared"]

ALLOWANCE = 64 << 20
"""Bytes that a checkpoint may cost beyond a multiple of its size. A step of work counts as 8 to 64 bytes."""


class Budget:
    """The remaining number of bytes that reading a checkpoint may cost in addition to its size."""

    __slots__ = ("left",)

    def __init__(self, left: int = ALLOWANCE) -> None:
        self.left = left

    def charge(self, file: str, nbytes: int, what: str) -> None:
        """Subtract ``nbytes``. Raise `CheckpointError` naming ``file`` and ``what`` if too little is left."""
        self.left -= nbytes
        if self.left < 0:
            raise CheckpointError(file, f"{what} beyond the bound for a file of its size")


class Claims:
    """Counts the bytes of a file that tensors refer to.

    On average each byte may be counted `TIMES` times, because tensors may share memory.
    """

    TIMES = 4

    def __init__(self, file: str, size: int, what: str) -> None:
        self.file = file
        self.left = self.TIMES * size
        self.what = what
        self.budget = current()

    def add(self, nbytes: int) -> None:
        """Count ``nbytes`` more. Raise `CheckpointError` if the total exceeds the bound."""
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
    """Context manager that gives all reads of this thread one budget.

    It is ``budget`` if given, else that of the enclosing block, else a new one.
    """

    __slots__ = ("_before", "_budget")

    def __init__(self, budget: Budget | None = None) -> None:
        self._budget = budget

    def __enter__(self) -> Budget:
        self._before = getattr(_active, "budget", None)
        found = _active.budget = self._budget or self._before or Budget()
        return found

    def __exit__(self, *error: Any) -> None:
        _active.budget = self._before
