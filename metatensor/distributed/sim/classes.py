"""Classes of ranks that do the same, and running one rank of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from metatensor.distributed._errors import DistBackendError
from metatensor.distributed._single import SingleConnection
from metatensor.distributed._world import Launch, World
from metatensor.distributed.communication_log import Communication, CommunicationLog
from metatensor.distributed.device_mesh import DeviceMesh
from metatensor.distributed.sim.scheduler import Rank, Scheduler

__all__ = ["run_classes"]


def run_classes(
    function: Callable[[], Any], world_size: int, timeout: float | None
) -> tuple[list[Any], list[CommunicationLog], list[list[int]]]:
    """Run a function on one rank of each class. Return results and logs by rank, and the classes.

    Two ranks are in one class if everything that the program learns about its rank is the same for both (`observed`). A
    rank is run without the others, so it can communicate tensors without data only. The last rank of each class is run as
    well, and its log compared with that of the first.
    """
    left = list(range(world_size))
    results: list[Any] = [None] * world_size
    logs = [CommunicationLog()] * world_size
    classes = []
    while left:
        first = left[0]
        result, log, observations = _run_alone(function, first, world_size, timeout)
        alike = left
        for value_of in _distinct(observations):
            value = value_of(first)
            alike = [rank for rank in alike if value_of(rank) == value]
        if len(alike) > 1:
            _compare(first, log, alike[-1], _run_alone(function, alike[-1], world_size, timeout, repeated=True)[1])
        for rank in alike:
            results[rank], logs[rank] = result, log
        classes.append(alike)
        left = [rank for rank in left if rank not in set(alike)]
    return results, logs, classes


def _run_alone(
    function: Callable[[], Any], rank: int, world_size: int, timeout: float | None, repeated: bool = False
) -> tuple[Any, CommunicationLog, list[Callable[[int], Any]]]:
    """Run one rank. Return its result, its log, and what it learned about its rank."""
    world, log = World(), CommunicationLog()
    world.launch = Launch(SingleConnection(rank, world_size))
    world.rank, world.observations, world.repeated = rank, [], repeated
    world.logs.append(log)
    one = Rank(rank, world)
    Scheduler([one], lambda waiting: "", timeout).run(lambda _: function())
    return one.result, log, world.observations


def _distinct(observations: list[Callable[[int], Any]]) -> list[Callable[[int], Any]]:
    """Return the functions without those that do the same as another one: the same code on the same objects."""
    found: dict[Any, Callable[[int], Any]] = {}
    for value_of in observations:
        key: Any = value_of
        code = getattr(value_of, "__code__", None)
        if code is not None:
            cells = [cell.cell_contents for cell in getattr(value_of, "__closure__", None) or ()]
            key = code, id(getattr(value_of, "__self__", None)), value_of.__defaults__, *map(_as_key, cells)  # type: ignore[attr-defined]
        try:
            found.setdefault(key, value_of)
        except TypeError:  # not hashable
            found[id(value_of)] = value_of
    return list(found.values())


def _as_key(value: Any) -> Any:
    """Return an object that is equal only for values that tell ranks apart in the same way.

    Equal meshes may be sub-meshes of different meshes, so they are compared by identity. Lists become tuples.
    """
    if isinstance(value, DeviceMesh):
        return id(value)
    return tuple(value) if isinstance(value, list) else value


def _compare(first: int, log: CommunicationLog, last: int, other: CommunicationLog) -> None:
    """Raise DistBackendError unless two ranks communicate the same, in groups of the same size."""
    for one, two in zip(log, other):
        if _compared(one) != _compared(two):
            raise DistBackendError(
                f"sim.run: ranks {first} and {last} learn the same about their ranks, but do different things; use ranks='all'\n"
                f"  rank {first}: {one}\n  rank {last}: {two}"
            )
    if len(log) != len(other):
        raise DistBackendError(
            f"sim.run: ranks {first} and {last} learn the same about their ranks, but communicate {len(log)} and {len(other)} times; "
            "use ranks='all'"
        )


def _compared(one: Communication) -> tuple[Any, ...]:
    return one.kind, one.bytes, len(one.group), one.dtype, one.shape, one.device, one.asynchronous
