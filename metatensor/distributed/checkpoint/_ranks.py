"""Steps that all ranks of a group take together. If one of them fails, all raise `CheckpointException`."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, TypeVar

import metatensor as mt
from metatensor.distributed import _group, _objects
from metatensor.distributed._collectives import gather, scatter
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


_LENGTH = 8


def _content(buffer: Any) -> bytes:
    whole: bytes = buffer.cpu().numpy().tobytes()
    return whole[_LENGTH : _LENGTH + int.from_bytes(whole[:_LENGTH], "little")]


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
        planned: Any = self._tried(lambda: plan(gathered)) if self.coordinates else None
        parts = [pickle.dumps(one) for one in planned] if isinstance(planned, list) else None
        told: list[Any] = [planned if isinstance(planned, _Failed) else parts and max(map(len, parts))]
        _objects.broadcast_object_list(told, group=self.group, group_src=self.coordinator)
        self._check(what, {self.coordinator: told[0]}, planned)
        received = self._buffer(told[0] + _LENGTH)
        scatter(received, parts and [self._filled(one, told[0]) for one in parts], group=self.group, group_src=self.coordinator)
        return pickle.loads(_content(received))  # type: ignore[no-any-return]

    def gather(self, what: str, local: Callable[[], T]) -> list[T]:
        """Call ``local`` on all ranks. Return all results on the coordinator, and an empty list on the other ranks."""
        if self.group is None or self.size == 1:
            return [local()]
        own = self._tried(local)
        data = b"" if own is None or isinstance(own, _Failed) else pickle.dumps(own)
        told: list[Any] = [None] * self.size
        _objects.all_gather_object(told, own if isinstance(own, _Failed) else 0 if own is None else len(data), self.group)
        self._check(what, dict(enumerate(told)), own)
        longest = max(told)
        if not longest:
            return [None] * self.size if self.coordinates else []  # type: ignore[list-item]
        buffers = [self._buffer(longest + _LENGTH) for _ in range(self.size)] if self.coordinates else None
        gather(self._filled(data, longest), buffers, group=self.group, group_dst=self.coordinator)
        return [pickle.loads(found) if (found := _content(one)) else None for one in buffers or ()]  # type: ignore[misc]

    def _buffer(self, length: int) -> Any:
        assert self.group is not None
        return mt.empty(length, dtype=mt.uint8, device=self.group.communicator().data_device())

    def _filled(self, data: bytes, longest: int) -> Any:
        """Return a tensor with the length of ``data``, ``data``, and zeros up to the longest one."""
        assert self.group is not None
        whole = bytearray(len(data).to_bytes(_LENGTH, "little") + data.ljust(longest, b"\0"))
        return mt.frombuffer(whole, dtype=mt.uint8).to(self.group.communicator().data_device())

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
