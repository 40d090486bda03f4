"""Classes of ranks that do the same, and running one rank of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from metatensor.distributed._errors import DistBackendError
from metatensor.distributed._single import SingleConnection
from metatensor.distributed._world import Launch, World
from metatensor.distributed.communication_log import Communication, CommunicationLog
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
        values = [value_of(first) for value_of in observations]
        alike = [rank for rank in left if all(value_of(rank) == value for value_of, value in zip(observations, values))]
        if len(alike) > 1:
            _compare(first, log, alike[-1], _run_alone(function, alike[-1], world_size, timeout)[1])
        for rank in alike:
            results[rank], logs[rank] = result, log
        classes.append(alike)
        left = [rank for rank in left if rank not in set(alike)]
    return results, logs, classes


def _run_alone(
    function: Callable[[], Any], rank: int, world_size: int, timeout: float | None
) -> tuple[Any, CommunicationLog, list[Callable[[int], Any]]]:
    """Run one rank. Return its result, its log, and what it learned about its rank."""
    world, log = World(), CommunicationLog()
    world.launch = Launch(SingleConnection(rank, world_size))
    world.rank, world.observations = rank, []
    world.logs.append(log)
    one = Rank(rank, world)
    Scheduler([one], lambda waiting: "", timeout).run(lambda _: function())
    return one.result, log, world.observations


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
