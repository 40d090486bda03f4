"""Simulated worlds: any number of ranks in one process, with data or on meta.

`run` runs a function on all ranks of a world. The ranks are threads that take turns, in an order that is always the same.
Ranks that wait for each other in vain, and ranks that disagree about a collective, are found at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from metatensor.distributed._world import Launch, World, current_world
from metatensor.distributed.communication_log import CommunicationLog
from metatensor.distributed.sim.classes import run_classes
from metatensor.distributed.sim.communicator import SimConnection
from metatensor.distributed.sim.matching import explain_waiting
from metatensor.distributed.sim.scheduler import Deadlock, Rank, RankFailed, Scheduler
from metatensor.distributed.work import seconds_of

__all__ = ["Deadlock", "RankFailed", "Results", "run"]


class Results(list):
    """What the function returned, by rank."""

    logs: list[CommunicationLog]
    """With ``record=True``: what each rank communicated. The log of a class of ranks is that of its first rank."""

    classes: list[list[int]]
    """The ranks of each class, of which one was run. With ``ranks="all"`` each rank is a class."""


def run(
    fn: Callable[..., Any], *args: Any, world_size: int, ranks: str = "all", timeout: Any = None, record: bool = False,
    **kwargs: Any,
) -> Results:  # fmt: skip
    """Run a function on all ranks of a simulated world. Return its results by rank.

    In the function, `init_process_group` connects the rank to the simulated world, whatever backend it names. Collectives
    on tensors with data give the results that they give between processes; on meta they check sizes and dtypes. Each rank
    has its own process groups and random numbers, which depend on the state of the default generator. All else in the process is
    shared: modules that are created outside of the function, and what it changes in them.

    Parameters
    ----------
    fn : callable
        Called with ``*args`` and ``**kwargs`` on each rank.
    world_size : int
        Number of ranks.
    ranks : str
        ``"all"``: run every rank. ``"groups"``: run one rank for each class of ranks that do the same, without the others
        and on meta only. Ranks belong to different classes if the program learns something different about them: `get_rank`, the
        rank in a group, coordinates in a mesh. Calls of ranks of different classes are not matched.
    timeout : timedelta or float, optional
        Time after which TimeoutError is raised if a rank does not give way to the others. Default: no limit.
    record : bool
        Whether to log what the ranks communicate, see `Results.logs`.

    Returns
    -------
    Results
        A list of the results.

    Raises
    ------
    Deadlock
        If ranks wait for each other in vain. The message says where, and which calls are missing.
    DistBackendError
        If ranks disagree about a collective. The message shows both calls with their lines and shapes.
    Exception
        The exception of the first rank that raises one, with a note that names the rank. All communication of the
        other ranks then raises `RankFailed`.
    ValueError
        If ``world_size`` is not positive.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor import distributed
    >>> def gathered_shape():
    ...     distributed.init_process_group()
    ...     parts = [mt.empty(8, 4, device="meta") for _ in range(distributed.get_world_size())]
    ...     distributed.all_gather(parts, mt.empty(8, 4, device="meta"))
    ...     return mt.cat(parts).shape
    >>> distributed.sim.run(gathered_shape, world_size=64)[63]
    metatensor.Size([512, 4])
    """
    if world_size < 1:
        raise ValueError(f"sim.run: world_size must be positive, got {world_size}")
    if ranks not in ("all", "groups"):
        raise ValueError(f"sim.run: ranks must be 'all' or 'groups', got {ranks!r}")
    if ranks == "groups":
        found, found_logs, classes = run_classes(lambda: fn(*args, **kwargs), world_size, seconds_of(timeout))
        results = Results(found)
        results.logs, results.classes = found_logs if record else [], classes
        return results
    members = [Rank(index, World()) for index in range(world_size)]

    def explain(waiting: list[Rank]) -> str:
        return explain_waiting(lambda rank: members[rank].done, [(one.index, one.waiting) for one in waiting])

    scheduler = Scheduler(members, explain, seconds_of(timeout))
    meeting: dict[Any, Any] = {}
    for one in members:
        one.world.launch = Launch(SimConnection(one, world_size, scheduler, meeting))
    logs = [CommunicationLog() for _ in members]

    def body(rank: Rank) -> Any:
        if record:
            current_world().logs.append(logs[rank.index])
        return fn(*args, **kwargs)

    scheduler.run(body)
    results = Results(one.result for one in members)
    results.logs, results.classes = logs if record else [], [[one.index] for one in members]
    return results
