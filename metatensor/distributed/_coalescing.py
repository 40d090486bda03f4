"""Several collectives as one: they are started together and waited for together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from metatensor.distributed._group import ProcessGroup, the_group
from metatensor.distributed._world import current_world
from metatensor.distributed.work import PendingWork, Work

__all__ = ["_CoalescingManager", "_coalescing_manager"]


class _CoalescingManager:
    """The operations that were started inside of `_coalescing_manager`."""

    def __init__(self, group: ProcessGroup) -> None:
        self.works: list[Work] = []
        self._group = group

    def takes(self, group: ProcessGroup) -> bool:
        """Return True if operations of a group are collected here."""
        return group is self._group

    def append(self, work: Work | None = None) -> None:
        """Add an operation to those that `wait` waits for."""
        if work is not None:
            self.works.append(work)

    def wait(self) -> None:
        """Wait for all operations."""
        PendingWork(self.works).wait()


@contextmanager
def _coalescing_manager(group: Any = None, device: Any = None, async_ops: bool = False) -> Iterator[_CoalescingManager]:
    """Context manager in which collectives of a group do not wait.

    At the end all of them have completed. With ``async_ops`` they are still running: call ``wait()`` of the object that the
    context manager returns.
    """
    manager = _CoalescingManager(the_group(group))
    active = current_world().coalescing
    active.append(manager)
    try:
        yield manager
    finally:
        active.remove(manager)
    if not async_ops:
        manager.wait()
