"""`profile_ranks`: run a step on simulated ranks and predict its time and memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from metatensor.analysis.calls import Call
from metatensor.analysis.profiling import profile
from metatensor.analysis.ranks.recording import RankRecorder, optimizer_steps_marked
from metatensor.analysis.ranks.results import RanksProfile, RankStep
from metatensor.analysis.ranks.scheduling import Program, schedule
from metatensor.analysis.timing import seconds_of
from metatensor.devices.profiles import DeviceProfile, device_profile
from metatensor.devices.topologies import Topology
from metatensor.devices.topologies import topology as described
from metatensor.distributed import sim
from metatensor.distributed._world import current_world
from metatensor.nn._referenced import referenced_modules
from metatensor.rules.policies import policy as kernel_policy
from metatensor.rules.policies import policy_for

__all__ = ["profile_ranks"]


def profile_ranks(
    step: Callable[..., Any], *args: Any, topology: Topology | str, world_size: int | None = None, setup: Callable[..., Any] | None = None,
    device: Any = None, policy: Any = None, ranks: str = "groups", memory: bool = True, timeout: Any = None, **kwargs: Any,
) -> RanksProfile:  # fmt: skip
    """Run a step on the ranks of a simulated world, and predict its time and memory on given devices.

    Operators take the time that `time_of` predicts, operations of groups that of `collective_time`. An asynchronous operation runs
    beside operators until it is waited for; a blocking one does not. Memory is what `profile` reports, on each rank.

    Parameters
    ----------
    step : callable
        What each rank runs. With ``setup``, it is called with what that returned (the elements, if it is a tuple), else with ``*args``
        and ``**kwargs``.
    *args, **kwargs
        Arguments of ``setup``, or of ``step`` without one.
    topology : Topology or str
        The devices and their links: ``"512xH100"``.
    world_size : int, optional
        Number of ranks. Default: one for each device of the topology.
    setup : callable, optional
        Called first on each rank; it initializes the process group and creates the model and the optimizer. It is not counted.
    device : str, path or DeviceProfile, optional
        A profile of the device, for instance with measured efficiencies. Default: that of the topology.
    policy : str or KernelPolicy, optional
        The kernel policy, which says which operators are one kernel. Default: that of the device, see `policies`.
    ranks : str
        ``"groups"`` (default): run one rank of each class of ranks that do the same. ``"all"``: run every rank. See `sim.run`.
    memory : bool
        Whether to profile memory. Default True.
    timeout : float or timedelta, optional
        As in `sim.run`.

    Returns
    -------
    RanksProfile
        The time of the step, and for each class of ranks its timeline, operations and memory.

    Raises
    ------
    TopologyError
        If the topology does not add up, or has another number of devices than ``world_size``.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor import distributed as dist
    >>> def setup():
    ...     dist.init_process_group()
    ...     model = mt.nn.Linear(4096, 4096, device="meta", dtype=mt.bfloat16)
    ...     return mt.nn.parallel.DistributedDataParallel(model), mt.empty(512, 4096, device="meta", dtype=mt.bfloat16)
    >>> def step(model, x):
    ...     model(x).sum().backward()
    >>> found = mt.analysis.profile_ranks(step, setup=setup, topology="16xH100")
    >>> found.world_size, len(found.classes), found.classes[0].memory.at_peak()["parameter"] == 2 * (4096 * 4096 + 4096)
    (16, 1, True)
    >>> [(each.entry.kind, each.entry.bytes) for each in found.classes[0].operations]
    [('all_reduce', 33562624)]
    """
    where = described(topology, world_size)
    device = where.device if device is None else device_profile(device)
    kernels = policy_for(policy, device)

    def body() -> Any:
        with kernel_policy(kernels):
            return run_step()

    def run_step() -> Any:
        given, named = args, kwargs
        if setup is not None:
            made = setup(*args, **kwargs)
            given, named = made if isinstance(made, tuple) else (made,), {}
        if current_world().repeated:
            return step(*given, **named)
        recorder = RankRecorder(module for _, module in referenced_modules(step, given, named))
        with recorder:
            if memory:
                found = profile(step, *given, **named)
                result, found.result = found.result, None
                return result, recorder, found
            return step(*given, **named), recorder, None

    with optimizer_steps_marked():
        run = sim.run(body, world_size=where.size, ranks=ranks, timeout=timeout)
    representative = [0] * where.size
    for members in run.classes:
        for member in members:
            representative[member] = members[0]
    times = _Times(device)
    programs = {}
    for members in run.classes:
        recorder = run[members[0]][1]
        programs[members[0]] = Program(recorder.calls, recorder.marks, recorder.log.entries)
    timelines = schedule(programs, representative.__getitem__, where, times)
    classes = []
    for members in run.classes:
        result, recorder, found = run[members[0]]
        classes.append(RankStep(members, timelines[members[0]], recorder.calls, found, result))
    return RanksProfile(where, device, classes, dict(times.unknown), kernels.name, _unmatched(programs))


class _Times:
    """The predicted seconds of calls. Those that are unknown count as 0, and are counted."""

    def __init__(self, device: DeviceProfile) -> None:
        self.device = device
        self.unknown: Counter[str] = Counter()
        self._known: dict[Any, float] = {}

    def __call__(self, call: Call) -> float:
        if not call.dtype and not call.flops and not call.read and not call.written and not self.device.operators:
            return 0.0
        key = (call.op, call.flops, call.read, call.written, call.dtype, call.phase, call.repeated, call.form)
        found = self._known.get(key)
        if found is None:
            seconds, source = seconds_of(call, self.device)
            if seconds is None:
                self.unknown[source] += 1
                return 0.0
            found = self._known[key] = seconds + self.device.phase_overheads.get(call.phase, 0.0)
        return found


def _unmatched(programs: dict[int, Program]) -> int:
    """Return how many messages are received from a rank that is not known."""
    return sum(entry.kind == "recv" and entry.detail == "from any" for program in programs.values() for entry in program.entries)
