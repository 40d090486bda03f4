"""The process groups of a rank.

A rank is normally a process, and its state belongs to the process. In `metatensor.distributed.sim` the ranks are threads
of one process, each with its own state.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from metatensor.distributed._group import ProcessGroup
    from metatensor.distributed.communicators import Connection

T = TypeVar("T")

__all__ = ["Launch", "Simulation", "World", "current_world", "observed", "use_world"]


class Launch:
    """How the rank of the current thread was started, if not as a process: `init_process_group` connects it this way.

    Parameters
    ----------
    connection : Connection
        The connection of the rank.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection


class World:
    """The state of one rank."""

    def __init__(self, launch: Launch | None = None) -> None:
        self.launch = launch
        self.default: ProcessGroup | None = None
        self.names: dict[ProcessGroup, str] = {}
        """The groups that this rank belongs to, and their names."""
        self.created = 0
        self.groups_of_ranks: dict[tuple[int, ...], ProcessGroup] = {}
        """The groups that functional collectives made for a list of ranks."""
        self.same_ranks: dict[tuple[int, ...], int] = {}
        """How many groups were created for each list of ranks."""
        self.connections: dict[str, Connection] = {}
        """The connections by name of the backend."""
        self.logs: list[Any] = []
        """The active `CommunicationLog`s."""
        self.ahead = False
        """Whether operations are called inside of `ahead_of_operators`."""
        self.coalescing: list[Any] = []
        """The active coalescing managers, the innermost one last."""
        self.observations: list[Callable[[int], Any]] | None = None
        """What the program has learned about its rank, if that is recorded: functions of the rank."""
        self.rank = 0
        """The rank in the world, where observations are recorded."""
        self.repeated = False
        """True if another rank has run the same program. The communication of this rank is then only compared with that rank's."""

    def clear(self) -> None:
        """Forget all groups and close the connections."""
        self.default = None
        groups, self.names = list(self.names), {}
        self.groups_of_ranks.clear()
        self.same_ranks.clear()
        self.created = 0
        for group in groups:
            group._close()
        connections, self.connections = self.connections, {}
        for connection in connections.values():
            connection.close()


_process = World()
_of_thread = threading.local()


class Simulation:
    """Tells threads of a simulation which of its ranks runs. The others wait meanwhile."""

    def __init__(self) -> None:
        self.world: World | None = None

    def __enter__(self) -> None:
        self._before = use_world(current_world())  # the calling thread keeps its own world
        _simulations.append(self)

    def __exit__(self, *_: object) -> None:
        _simulations.remove(self)
        use_world(self._before)


_simulations: list[Simulation] = []
"""Those that run, the innermost one last."""


def current_world() -> World:
    """Return the state of the rank that runs in this thread.

    A thread that a simulated rank has started, such as one of a pool, belongs to the rank that runs at the moment.
    """
    found: World | None = getattr(_of_thread, "world", None)
    if found is None:
        found = _simulations[-1].world if _simulations and _process.default is None else None
    return found or _process


def use_world(world: World | None) -> World | None:
    """Give this thread another rank's state; None means the state of the process. Return what the thread had before."""
    before: World | None = getattr(_of_thread, "world", None)
    if world is None:
        _of_thread.__dict__.pop("world", None)
    else:
        _of_thread.world = world
    return before


def observed(value_of: Callable[[int], T]) -> T:
    """Return ``value_of(rank)`` for the rank in the world of the running program.

    Whatever a program learns about its rank goes through this function: its rank, its coordinates in a mesh, the shape of
    its part of a tensor. ``sim.run(ranks="groups")`` runs one of the ranks for which all values are the same.

    Parameters
    ----------
    value_of : callable
        A function of a rank in the world that can be called for any rank and depends on nothing else that differs between
        ranks.
    """
    world = current_world()
    if world.observations is not None:
        world.observations.append(value_of)
        return value_of(world.rank)
    assert world.default is not None
    return value_of(world.default._rank)
