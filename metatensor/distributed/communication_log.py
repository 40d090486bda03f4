"""Logs of communication: what a rank sent and received, in which order and from which line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from metatensor._core.attribution import user_place
from metatensor.distributed._world import current_world

__all__ = ["Communication", "CommunicationLog", "ahead_of_operators", "user_line"]


class Communication(NamedTuple):
    """One operation of a rank."""

    order: int
    """0 for the first operation of the rank in this log, and so on."""
    kind: str
    """The operation: ``"all_reduce"``, ``"send"``, ..."""
    bytes: int
    """Size of the largest argument of this rank: the output of an ``all_gather``, the input of a ``reduce_scatter``."""
    group: tuple[int, ...]
    """Ranks of the group in the world."""
    rank: int
    """Rank in the world of the rank that logged it."""
    detail: str
    """The reduction (``"sum"``), the other rank in the world (``"root 0"``, ``"to 3"``), or empty."""
    dtype: str
    """The dtype of the tensors, or empty."""
    shape: tuple[int, ...]
    """Shape of the largest argument."""
    device: str
    """The device type of the tensors, or empty."""
    asynchronous: bool
    """True if the operation returned a `Work`."""
    line: str
    """``file:line`` of the user code that called it, or empty."""
    ahead: bool = False
    """True if the operation may begin before earlier operators have run, see `ahead_of_operators`."""

    def what(self) -> tuple[str, int, tuple[int, ...], str, str]:
        """Return kind, bytes, group, detail and dtype: what is the same on every engine that runs the same program."""
        return self.kind, self.bytes, self.group, self.detail, self.dtype

    def __str__(self) -> str:
        parts = [f"{self.order}: {self.kind}", self.detail, f"{self.bytes} bytes"]
        if self.dtype:
            parts.append(f"{self.dtype} {list(self.shape)}")
        parts.append(f"ranks {_ranks(self.group)}")
        return ", ".join(part for part in parts if part) + (f" at {self.line}" if self.line else "")


def _ranks(group: tuple[int, ...]) -> str:
    if len(group) > 4 and group == tuple(range(group[0], group[-1] + 1)):
        return f"{group[0]}-{group[-1]}"
    return ", ".join(map(str, group))


class CommunicationLog:
    """Context manager that logs what the current rank communicates, with any communicator.

    It is a sequence of `Communication`. Logs can be nested: an operation appears in all active ones.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor import distributed
    >>> def train():
    ...     distributed.init_process_group()
    ...     with distributed.CommunicationLog() as log:
    ...         distributed.all_reduce(mt.empty(10, device="meta"))
    ...     return log
    >>> log = distributed.sim.run(train, world_size=4)[0]
    >>> log[0].kind, log[0].bytes, log[0].group
    ('all_reduce', 40, (0, 1, 2, 3))
    >>> log.bytes_by_kind()
    {'all_reduce': 40}
    """

    def __init__(self) -> None:
        self.entries: list[Communication] = []

    def __enter__(self) -> CommunicationLog:
        current_world().logs.append(self)
        return self

    def __exit__(self, *_: Any) -> None:
        logs = current_world().logs
        if self in logs:
            logs.remove(self)

    def add(self, entry: Communication) -> None:
        """Add an operation that begins. Subclasses may do more."""
        self.entries.append(entry)

    def waited(self, order: int) -> None:
        """Called when the rank has waited for the operation with this `Communication.order`, or has found it completed.

        Subclasses may use it.
        """

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Communication]:
        return iter(self.entries)

    def __getitem__(self, index: int) -> Communication:
        return self.entries[index]

    def what(self) -> list[tuple[str, int, tuple[int, ...], str, str]]:
        """Return `Communication.what` of each operation. The logs of two engines can be compared by it."""
        return [one.what() for one in self.entries]

    def bytes_by_kind(self) -> dict[str, int]:
        """Return the sum of `Communication.bytes` for each kind."""
        total: Counter[str] = Counter()
        for one in self.entries:
            total[one.kind] += one.bytes
        return dict(total)

    def __str__(self) -> str:
        return "\n".join(map(str, self.entries))

    def __repr__(self) -> str:
        return f"<CommunicationLog of {len(self.entries)} operations>"


@contextmanager
def ahead_of_operators() -> Iterator[None]:
    """Mark the operations that are called inside as independent of the operators that were called before.

    A program calls operators and operations faster than a device runs them. An operation may run on a stream of its own and use tensors
    that earlier operators do not write, such as the gathering of a layer's parameters. It then begins while these operators still
    run. `metatensor.analysis.profile_ranks` lets it begin as soon as the rank has waited for the group's previous operation; nothing
    else depends on the mark.
    """
    world = current_world()
    before, world.ahead = world.ahead, True
    try:
        yield
    finally:
        world.ahead = before


def user_line() -> str:
    """Return ``file:line`` of the running user code, or an empty string."""
    found = user_place()
    return "" if found is None else f"{found[0]}:{found[1]}"


def log(kind: str, group: Any, tensor: Any, nbytes: int, detail: str, asynchronous: bool) -> Callable[[], None] | None:
    """Add an operation of the current rank to its active logs. Return a function that tells them that it was waited for.

    Return None if there is no log.
    """
    world = current_world()
    logs = list(world.logs)
    if not logs:
        return None
    described = ("", (), "") if tensor is None else (tensor.dtype.name, tuple(tensor.shape), tensor.device.type)
    fields = (kind, nbytes, group.ranks, group.ranks[group._rank], detail, *described, asynchronous, user_line(), world.ahead)
    orders = [len(one.entries) for one in logs]
    for one, order in zip(logs, orders):
        one.add(Communication(order, *fields))

    def waited() -> None:
        for one, order in zip(logs, orders, strict=True):
            one.waited(order)

    return waited
