"""Steps that all ranks of a group take together. If one of them fails, all raise `CheckpointException`."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, TypeVar

from metatensor.distributed import _group, _objects
from metatensor.distributed.checkpoint.api import CheckpointException

__all__ = ["Ranks"]

T = TypeVar("T")


class _Failed:
    """An exception of a rank, as the other ranks receive it."""

    def __init__(self, error: BaseException) -> None:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            error = RuntimeError(f"{type(error).__name__}: {error}")
        self.error = error


class Ranks:
    """The ranks that save or load together.

    Parameters
    ----------
    process_group : ProcessGroup, optional
        The group. Default: all ranks.
    no_dist : bool
        This process alone.
    coordinator : int
        The rank of the group that plans for all.
    """

    def __init__(self, process_group: Any = None, no_dist: bool = False, coordinator: int = 0) -> None:
        alone = no_dist or not _group.is_initialized()
        self.group = None if alone else _group.the_group(process_group)
        self.rank = 0 if self.group is None else _group.get_rank(self.group)
        self.size = 1 if self.group is None else self.group.size()
        self.coordinator = coordinator if self.size > 1 else 0

    @property
    def coordinates(self) -> bool:
        """True on the coordinator."""
        return self.rank == self.coordinator

    def scatter(self, what: str, local: Callable[[], Any], plan: Callable[[list[Any]], list[T]]) -> T:
        """Call ``local`` on all ranks and ``plan`` with the results on the coordinator. Return this rank's entry of its result."""
        gathered = self.gather(what, local)
        if self.group is None or self.size == 1:
            return plan(gathered)[0]
        planned: Any = None
        if self.coordinates:
            planned = self._tried(lambda: plan(gathered))
        failed = [planned if isinstance(planned, _Failed) else None]
        _objects.broadcast_object_list(failed, group=self.group, group_src=self.coordinator)
        self._check(what, {self.coordinator: failed[0]}, planned)
        received: list[Any] = [None]
        _objects.scatter_object_list(received, planned, group=self.group, group_src=self.coordinator)
        return received[0]  # type: ignore[no-any-return]

    def gather(self, what: str, local: Callable[[], T]) -> list[T]:
        """Call ``local`` on all ranks. Return all results."""
        if self.group is None or self.size == 1:
            return [local()]
        own = self._tried(local)
        gathered: list[Any] = [None] * self.size
        _objects.all_gather_object(gathered, own, self.group)
        self._check(what, dict(enumerate(gathered)), own)
        return gathered

    def finish(self, what: str, last: Callable[[], T]) -> T:
        """Call ``last`` on the coordinator. Return its result on all ranks."""
        if self.group is None or self.size == 1:
            return last()
        own = self._tried(last) if self.coordinates else None
        received = [own]
        _objects.broadcast_object_list(received, group=self.group, group_src=self.coordinator)
        self._check(what, {self.coordinator: received[0]}, own)
        return received[0]  # type: ignore[return-value]

    def _tried(self, function: Callable[[], Any]) -> Any:
        try:
            return function()
        except Exception as error:
            return _Failed(error)

    def _check(self, what: str, gathered: dict[int, Any], own: Any) -> None:
        failures = {rank: one.error for rank, one in gathered.items() if isinstance(one, _Failed)}
        if failures:
            cause = own.error if isinstance(own, _Failed) else None
            raise CheckpointException(f"torch.distributed.checkpoint.{what}", failures) from cause
