"""Dividing a program into stages of equal cost."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import accumulate
from math import inf, prod
from typing import Any

__all__ = ["balanced_stages"]

SLACK = 0.05
"""A stage may cost this fraction more than in the best division, if fewer bytes then cross the boundaries."""


def balanced_stages(num_stages: int, by: str | Callable[[Any], float] = "flops", device: Any = None) -> Callable[[Any], list[int]]:
    """Return a ``split_policy`` for `pipeline` that makes a number of stages of about equal cost.

    The greatest cost of a stage is as small as possible. Among the divisions whose greatest cost is at most 5% above that, the one is
    chosen in which the fewest bytes cross between stages.

    Parameters
    ----------
    num_stages : int
        Number of stages.
    by : str or callable
        The cost of a call: ``"flops"``, ``"parameters"`` (bytes of the parameters that it is the first to use), ``"time"`` (predicted
        seconds on ``device``), or a function of a `ProgramCall`. Default ``"flops"``.
    device : str, optional
        The device profile for ``"time"``, such as ``"h100-sxm-80gb"``.

    Raises
    ------
    ValueError
        If ``by`` is unknown, or no device is given for ``"time"``. When the policy is applied: if the program cannot be divided into so
        many stages, or no call has a cost.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributed import pipelining
    >>> with mt.device("meta"):
    ...     model = mt.nn.Sequential(*(mt.nn.Linear(8, 8) for _ in range(6)))
    >>> pipe = pipelining.pipeline(model, (mt.empty(2, 8, device="meta"),), split_policy=pipelining.balanced_stages(3))
    >>> [list(pipe.get_stage_module(i).state_dict()) for i in range(3)][1]
    ['2.weight', '2.bias', '3.weight', '3.bias']
    """
    if num_stages < 1:
        raise ValueError(f"balanced_stages: num_stages must be positive, got {num_stages}")
    if not callable(by) and by not in ("flops", "parameters", "time"):
        raise ValueError(f"balanced_stages: by must be 'flops', 'parameters', 'time' or a function of a call, got {by!r}")
    if by == "time" and device is None:
        raise ValueError("balanced_stages: by='time' needs a device, such as 'h100-sxm-80gb'")

    def policy(program: Any) -> list[int]:
        costs = _costs(program, by, device)
        if not any(costs):
            raise ValueError(f"balanced_stages: no call of {program.name} has a cost by {by!r}")
        chaining = import_module("metatensor.program.passes.chaining")
        return _divided(costs, chaining.crossing_bytes(program), chaining.hazards(program), num_stages, program.name)

    return policy


def _costs(program: Any, by: Any, device: Any) -> list[float]:
    if callable(by):
        return [float(by(call)) for call in program.calls]
    if by == "parameters":
        size = {value.number: prod(value.shape) * value.dtype.itemsize for value in program.parameters.values()}
        used = import_module("metatensor.program.passes.rewriting").used
        return [float(sum(size.pop(value.number, 0) for value in used(call))) for call in program.calls]
    calls = import_module("metatensor.analysis.graph.figures").calls_of(program)
    if by == "flops":
        return [float(call.flops) for call in calls]
    timing, profile = import_module("metatensor.analysis.timing"), import_module("metatensor.devices.profiles").device_profile(device)
    found = [timing.seconds_of(call, profile) for call in calls]
    lacking = next((source for seconds, source in found if seconds is None), None)
    if lacking is not None:
        raise ValueError(f"balanced_stages: the profile {profile.name!r} lacks {lacking}")
    return [seconds for seconds, _ in found]


def _divided(costs: Sequence[float], crossing: Sequence[int], bad: Any, count: int, name: str) -> list[int]:
    """Return the indices of the calls with which stages begin, without the first."""
    total = [0.0, *accumulate(costs)]
    places = [i for i in range(1, len(costs)) if i not in bad]
    if len(places) < count - 1:
        raise ValueError(f"balanced_stages: {name} has {len(costs)} calls and can be divided at {len(places)} places, too few for {count} "
                         "stages")  # fmt: skip
    low, high = max(max(costs), total[-1] / count), total[-1]
    for _ in range(60):
        middle = (low + high) / 2
        if _fits(total, places, count, middle):
            high = middle
        else:
            low = middle
    return _with_fewest_bytes(total, places, crossing, count, high * (1 + SLACK))


def _fits(total: Sequence[float], places: Sequence[int], count: int, limit: float) -> bool:
    """Return True if the calls can be divided into at most ``count`` ranges that cost at most ``limit``."""
    start = 0.0
    for _ in range(count):
        if total[-1] - start <= limit:
            return True
        at = bisect_left(places, True, key=lambda i: total[i] - start > limit)
        if at == 0 or total[places[at - 1]] <= start:
            return False
        start = total[places[at - 1]]
    return False


def _with_fewest_bytes(total: Sequence[float], places: Sequence[int], crossing: Sequence[int], count: int, limit: float) -> list[int]:
    """Return ``count - 1`` of the places such that each range costs at most ``limit`` and the fewest bytes cross."""
    ends = [*places, len(total) - 1]
    before: list[float] = [0.0 if total[end] <= limit else inf for end in ends]
    before = [bytes_ + crossing[end] if i < len(places) else bytes_ for i, (bytes_, end) in enumerate(zip(before, ends))]
    chosen: list[list[int]] = [[-1] * len(ends)]
    for _ in range(count - 1):
        now, choice = [inf] * len(ends), [-1] * len(ends)
        window: deque[int] = deque()
        for i, end in enumerate(ends):
            while window and total[end] - total[ends[window[0]]] > limit:
                window.popleft()
            if window:
                choice[i] = window[0]
                now[i] = before[window[0]] + (crossing[end] if i < len(places) else 0)
            while window and before[window[-1]] >= before[i]:
                window.pop()
            window.append(i)
        before = now
        chosen.append(choice)
    at, starts = len(ends) - 1, []
    for choice in reversed(chosen[1:]):
        at = choice[at]
        starts.append(ends[at])
    return starts[::-1]
