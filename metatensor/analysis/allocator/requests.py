"""The requests that a profiled program would make of the allocator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from metatensor._core.memory_events import MemoryEvent

__all__ = ["requests"]


def requests(events: Iterable[MemoryEvent], resident: Iterable[int] = ()) -> Iterator[tuple[Any, int | None]]:
    """Yield the allocations and frees in a memory log, as events for `replay`.

    Every storage is one allocation. A resize allocates the new size before it frees the old one, because the contents are
    copied. Memory that existed before the log began is allocated first, in the given order.

    Parameters
    ----------
    events : iterable of MemoryEvent
        The events of a `MemoryLog` or of a `Profile`.
    resident : iterable of int
        Sizes in bytes of the storages that existed before.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.analysis import allocator
    >>> with mt.analysis.MemoryLog() as log:
    ...     a = mt.empty(1000, device="meta")
    ...     del a
    >>> list(allocator.requests(log.events()))
    [((1, 0), 4000), ((1, 0), None)]
    """
    for i, nbytes in enumerate(resident):
        yield ("resident", i), nbytes
    first: int | None = None
    current: dict[int, tuple[tuple[int, int], int]] = {}  # storage -> id of its block, size
    for event in events:
        if first is None:
            first = event.storage - 1
        number = event.storage - first
        if event.kind == "birth":
            block = number, 0
            current[number] = block, event.change
            yield block, event.change
        elif event.kind == "death":
            yield current.pop(number)[0], None
        else:
            old, nbytes = current[number]
            block = number, old[1] + 1
            current[number] = block, nbytes + event.change
            yield block, nbytes + event.change
            yield old, None
