"""Who holds how much: a ledger of live allocations for libraries that keep none themselves."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import Any

__all__ = ["Ledger", "human_bytes"]


class _Entry(weakref.ref):
    """One live allocation: tells the ledger when its array is gone."""

    __slots__ = ("nbytes",)


class Ledger:
    """Current and peak bytes, and counts, of the arrays it was told of.

    Arrays end anywhere, inside a garbage collection too, where no lock may be taken. So their ends are only noted,
    and counted at the next allocation or query; the peak is exact all the same, as only allocations raise it.
    """

    __slots__ = ("_count", "_ended", "_freed_bytes", "_freed_count", "_live", "_lock", "_peak_bytes", "_peak_count", "_total")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended: deque[_Entry] = deque()
        self._live: dict[int, _Entry] = {}
        self._total = self._count = 0
        self._freed_bytes = self._freed_count = 0
        self._peak_bytes = self._peak_count = 0

    def track(self, array: Any, nbytes: int) -> None:
        """Count ``array``, of ``nbytes``, until it is gone; views of it keep it alive."""
        entry = _Entry(array, self._ended.append)
        entry.nbytes = nbytes
        with self._lock:
            if self._ended:
                self._settle()
            self._live[id(entry)] = entry
            self._count += 1
            self._total += nbytes
            current = self._total - self._freed_bytes
            if current > self._peak_bytes:
                self._peak_bytes = current
            if len(self._live) > self._peak_count:
                self._peak_count = len(self._live)

    def stats(self) -> dict[str, int]:
        """The figures now: ``allocated_bytes.all.`` and ``allocation.all.`` ``current``, ``peak``, ``allocated``, ``freed``."""
        with self._lock:
            self._settle()
            return {
                "allocated_bytes.all.current": self._total - self._freed_bytes,
                "allocated_bytes.all.peak": self._peak_bytes,
                "allocated_bytes.all.allocated": self._total,
                "allocated_bytes.all.freed": self._freed_bytes,
                "allocation.all.current": len(self._live),
                "allocation.all.peak": self._peak_count,
                "allocation.all.allocated": self._count,
                "allocation.all.freed": self._freed_count,
            }

    def reset_peak(self) -> None:
        """Let the peaks start again from what is in use now."""
        with self._lock:
            self._settle()
            self._peak_bytes = self._total - self._freed_bytes
            self._peak_count = len(self._live)

    def _settle(self) -> None:
        ended = self._ended
        while ended:
            entry = ended.popleft()
            del self._live[id(entry)]
            self._freed_bytes += entry.nbytes
            self._freed_count += 1


def human_bytes(nbytes: float) -> str:
    """A size for a person: ``512 bytes``, ``1.50 GiB``."""
    if nbytes < 1024:
        return f"{int(nbytes)} bytes"
    for unit in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        nbytes /= 1024
        if nbytes < 1024:
            return f"{nbytes:.2f} {unit}"
    return f"{nbytes / 1024:.2f} EiB"
