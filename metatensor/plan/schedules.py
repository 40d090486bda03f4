"""Schedules of pipelines: when ranks compute and what they hold, read off the tables of `metatensor.distributed.pipelining`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from metatensor.distributed.pipelining import _orders, get_schedule_class
from metatensor.distributed.pipelining._actions import Table, _Action, _ComputationType
from metatensor.distributed.pipelining._timing import Timeline, _needs, timeline

__all__ = [
    "CODES", "SCHEDULES", "Run", "rank_of_stage", "rank_style", "repeated_from", "run_times", "split_backward", "table_of",
    "timeline_of", "virtual_stages_of",
]  # fmt: skip

_K = _ComputationType
CODES = {_K.FORWARD: 0, _K.FULL_BACKWARD: 1, _K.BACKWARD_INPUT: 2, _K.BACKWARD_WEIGHT: 3}
SCHEDULES = ("GPipe", "1F1B", "LoopedBFS", "Interleaved1F1B", "InterleavedZeroBubble", "ZBVZeroBubble")
"""The schedules that can be planned, by the names that `get_schedule_class` takes."""
ACTIONS = 8192
"""Tables with more actions are not run as a whole: their times are extended from two with fewer micro-batches."""


def virtual_stages_of(schedule: str, stages: Sequence[int]) -> list[int]:
    """Return those of the numbers of stages per rank that a schedule allows."""
    if schedule in ("GPipe", "1F1B"):
        return [n for n in stages if n == 1]
    if schedule == "ZBVZeroBubble":
        return [n for n in stages if n == 2]
    return [n for n in stages if n > 1 or schedule == "InterleavedZeroBubble"]


def split_backward(schedule: str) -> bool:
    """Return whether gradients of weights are computed apart from those of inputs."""
    return schedule in ("InterleavedZeroBubble", "ZBVZeroBubble")


def rank_style(schedule: str) -> str:
    """Return how the stages are laid out over the ranks, as `stages_of_rank` takes it."""
    return "v" if schedule == "ZBVZeroBubble" else "loop"


@lru_cache(maxsize=1024)
def rank_of_stage(schedule: str, p: int, v: int) -> list[int]:
    """Return the rank of each stage."""
    ranks = _orders.stage_to_rank(p, p * v, rank_style(schedule))
    return [ranks[stage] for stage in range(p * v)]


def table_of(schedule: str, p: int, v: int, m: int) -> Table:
    """Return the computations of each rank for ``m`` micro-batches on ``p`` ranks with ``v`` stages each."""
    return get_schedule_class(schedule).table(p, m, v) if v > 1 else _single(schedule, p, m)


@lru_cache(maxsize=8)
def timeline_of(schedule: str, p: int, v: int, m: int) -> Timeline:
    """Return the timeline of a table with equal stages."""
    return timeline(table_of(schedule, p, v, m), num_stages=p * v)


def _single(schedule: str, p: int, m: int) -> Table:
    if schedule == "InterleavedZeroBubble":
        return _orders.interleaved_zero_bubble(p, 1, m)
    return get_schedule_class(schedule).table(p, m)


def repeated_from(schedule: str, p: int, m: int) -> int:
    """Return a number of micro-batches after which a schedule only repeats itself, at most ``m``."""
    return 4 * p if m > 4 * p and m % p == 0 and schedule not in ("GPipe", "LoopedBFS") else m


class _Program(NamedTuple):
    """The actions of all ranks in an order in which each follows what it needs. Index 0 is the start of the step."""

    before: list[int]
    """The action before it on the same rank."""
    needed: list[int]
    """The action on another rank that it waits for."""
    sent: list[int]
    """1 + the earlier stage of the message that it waits for, 0 if there is none."""
    codes: list[int]
    """Stage times 4 + kind."""
    last: list[int]
    """The last action of each rank."""


@lru_cache(maxsize=96)
def _program(schedule: str, p: int, v: int, m: int) -> _Program:
    times = timeline_of(schedule, p, v, m)
    last = [0] * p
    index: dict[_Action, int] = {}
    made = _Program([0], [0], [0], [0], last)
    split = split_backward(schedule)

    def backward(stage: int, i: int) -> _Action:
        return _Action(stage, _K.BACKWARD_INPUT if split else _K.FULL_BACKWARD, i)

    ranks = rank_of_stage(schedule, p, v)
    for _, rank, action in times.completion:
        stage, kind = action.stage_index, action.computation_type
        index[action] = len(made.codes)
        made.before.append(last[rank])
        others = [need for need in _needs(action, p * v - 1, backward) if need.stage_index != stage and ranks[need.stage_index] != rank]
        made.needed.append(index[others[0]] if others else 0)
        made.sent.append(1 + min(stage, others[0].stage_index) if others else 0)
        made.codes.append(4 * stage + CODES[kind])
        last[rank] = index[action]
    return made


class Run(NamedTuple):
    """When each rank ends, and how much of that time is spent on messages, in seconds."""

    ends: list[float]
    messages: list[float]


def run_times(schedule: str, p: int, v: int, m: int, costs: Sequence[Sequence[float]], messages: Sequence[float]) -> Run:
    """Return when each rank has run its last action.

    Parameters
    ----------
    schedule : str
        One of `SCHEDULES`.
    p, v, m : int
        Number of ranks, of stages on each, and of micro-batches.
    costs : sequence
        For each stage the seconds of the forward pass, of the backward pass, and of its parts for inputs and for weights.
    messages : sequence of float
        For each stage the seconds of a message to the next stage, or back.
    """
    table = [seconds for stage in costs for seconds in stage]
    delays = [0.0, *messages]
    size = p * v * m * (3 if split_backward(schedule) else 2)
    if size <= ACTIONS or m <= 4 * p or m % p:
        return _run(_program(schedule, p, v, m), table, delays)
    a, b = (_run(_program(schedule, p, v, n * p), table, delays) for n in (3, 4))
    steps = (m - 4 * p) / p
    return Run([y + (y - x) * steps for x, y in zip(a.ends, b.ends)], [y + (y - x) * steps for x, y in zip(a.messages, b.messages)])


def _run(program: _Program, costs: list[float], delays: list[float]) -> Run:
    ends = [0.0]
    add = ends.append
    for before, needed, sent, code in zip(program.before[1:], program.needed[1:], program.sent[1:], program.codes[1:]):
        own, other = ends[before], ends[needed] + delays[sent]
        add((own if own >= other else other) + costs[code])
    messages = []
    for i in program.last:
        seconds = 0.0
        while i:
            own, other = ends[program.before[i]], ends[program.needed[i]] + delays[program.sent[i]]
            if own >= other:
                i = program.before[i]
            else:
                seconds += delays[program.sent[i]]
                i = program.needed[i]
        messages.append(seconds)
    return Run([ends[i] for i in program.last], messages)
