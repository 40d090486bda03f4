"""When the actions of a table run: whether they can, what is sent when, how long ranks wait, and how much they hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from metatensor.distributed.pipelining._actions import Table, _Action, _ComputationType, format_table

__all__ = ["Timed", "Timeline", "check_table", "forward_only", "timeline", "with_communication"]

_K = _ComputationType
UNIT_COSTS = {_K.FORWARD: 1.0, _K.FULL_BACKWARD: 2.0, _K.BACKWARD_INPUT: 1.0, _K.BACKWARD_WEIGHT: 1.0}
"""Times of the passes of one stage on one microbatch: the gradients of inputs and of weights take as long as the forward pass."""


class Timed(NamedTuple):
    """An action and when it runs."""

    action: _Action
    start: float
    stop: float


class Timeline:
    """When each rank runs its actions. Created by `timeline`.

    Attributes
    ----------
    ranks : dict of list of Timed
        The computations of each rank, in order.
    total : float
        Time at which the last one ends.
    """

    def __init__(self, ranks: dict[int, list[Timed]], completion: list[tuple[float, int, _Action]]) -> None:
        self.ranks = ranks
        self.completion = completion
        """Time, rank and action, in the order in which the actions end."""
        self.total = max((times[-1].stop for times in ranks.values() if times), default=0.0)

    def busy(self, rank: int) -> float:
        """Return how long a rank computes."""
        return sum(one.stop - one.start for one in self.ranks[rank])

    def idle(self, rank: int) -> float:
        """Return how long a rank waits, from the start of the first rank to the end of the last one."""
        return self.total - self.busy(rank)

    @property
    def bubble_fraction(self) -> float:
        """The part of the time of all ranks in which they wait.

        With ``p`` ranks, ``m`` microbatches and ``v`` stages on each rank it is (p-1)/(m+p-1) for GPipe and 1F1B, and
        (p-1)/(v m+p-1) for interleaved 1F1B: the bubble, relative to the time of the computation, is (p-1)/(v m) in Narayanan et al.
        2021, "Efficient large-scale language model training on GPU clusters using Megatron-LM", section 2.2.
        """
        return sum(map(self.idle, self.ranks)) / (len(self.ranks) * self.total) if self.total else 0.0

    def in_flight(self, rank: int) -> int:
        """Return the greatest number of microbatches whose activations a rank holds at once, counted for each of its stages.

        A stage holds them from the forward pass until the backward pass has computed the gradients of its weights. With ``p`` ranks and
        ``m`` microbatches, rank ``r`` holds ``m`` in GPipe and ``min(m, p - r)`` in 1F1B.
        """
        now = most = 0
        for timed in self.ranks[rank]:
            for action in timed.action.parts:
                if action.computation_type is _K.FORWARD:
                    now += 1
                    most = max(most, now)
                elif action.computation_type in (_K.FULL_BACKWARD, _K.BACKWARD_WEIGHT):
                    now -= 1
        return most

    def __repr__(self) -> str:
        return f"<Timeline of {len(self.ranks)} ranks, total {self.total:g}, bubble {self.bubble_fraction:.1%}>"


def _needs(action: _Action, last: int, backward: Callable[[int, int], _Action]) -> list[_Action]:
    """Return the computations that must have ended before a computation, except earlier ones of an ``OVERLAP_F_B``."""
    stage, kind, i = action.stage_index, action.computation_type, action.microbatch_index
    if kind is _K.FORWARD:
        return [_Action(stage - 1, kind, i)] if stage else []
    assert i is not None
    if kind is _K.BACKWARD_WEIGHT:
        return [_Action(stage, _K.BACKWARD_INPUT, i)]
    return [_Action(stage, _K.FORWARD, i), *([backward(stage + 1, i)] if stage < last else [])]


def timeline(
    table: Mapping[int, Sequence[_Action | None]], costs: Mapping[Any, float] | None = None, *, num_stages: int | None = None,
    latency: float = 0.0,
) -> Timeline:  # fmt: skip
    """Return when the computations of a table run, if each begins as soon as its rank and its inputs are ready.

    Parameters
    ----------
    table : mapping of list
        For each rank its computations, in order. Communication is ignored.
    costs : mapping, optional
        Time of a computation by ``(stage, type)``, or by type. Default: 1 for ``F``, ``I`` and ``W``, and 2 for ``B``. That of an
        ``OVERLAP_F_B`` is the sum of its parts.
    num_stages : int, optional
        Number of stages. Default: those of the table.
    latency : float
        Time from the end of a computation to the start of one on another rank that needs its result.

    Returns
    -------
    Timeline
        The times, with `Timeline.bubble_fraction` and `Timeline.in_flight`.

    Raises
    ------
    ValueError
        If computations wait for each other, are missing, or occur twice. The message says which.

    Examples
    --------
    >>> from metatensor.distributed import pipelining
    >>> table = pipelining.Schedule1F1B.table(num_ranks=4, n_microbatches=8)
    >>> times = pipelining.timeline(table)
    >>> times.bubble_fraction == 3 / 11, [times.in_flight(rank) for rank in range(4)]
    (True, [4, 3, 2, 1])
    """
    orders = {rank: [one for one in actions if one is not None and one.is_compute_op] for rank, actions in table.items()}
    rank_of: dict[_Action, int] = {}
    for rank, actions in orders.items():
        for action in actions:
            for part in action.parts:
                if part in rank_of:
                    raise ValueError(f"pipelining: {part} occurs twice, on ranks {rank_of[part]} and {rank}")
                rank_of[part] = rank
    last = (max((one.stage_index for one in rank_of), default=0)) if num_stages is None else num_stages - 1

    def backward(stage: int, i: int) -> _Action:
        of_inputs = _Action(stage, _K.BACKWARD_INPUT, i)
        return of_inputs if of_inputs in rank_of else _Action(stage, _K.FULL_BACKWARD, i)

    def cost(action: _Action) -> float:
        kind = action.computation_type
        for key in ((action.stage_index, kind), kind):
            if costs is not None and key in costs:
                return costs[key]
        return UNIT_COSTS[kind]

    ended: dict[_Action, float] = {}
    ready_at: dict[int, float] = dict.fromkeys(orders, 0.0)
    found: dict[int, list[Timed]] = {rank: [] for rank in orders}
    completion: list[tuple[float, int, _Action]] = []
    waiting: dict[_Action, list[int]] = defaultdict(list)
    pending = list(orders)
    while pending:
        rank = pending.pop()
        while len(found[rank]) < len(orders[rank]):
            action = orders[rank][len(found[rank])]
            inside: set[_Action] = set()
            lacking = None
            start = ready_at[rank]
            for part in action.parts:
                for need in _needs(part, last, backward):
                    if need in inside:
                        continue
                    if need not in ended:
                        lacking = need
                        break
                    start = max(start, ended[need] + (latency if rank_of[need] != rank else 0.0))
                inside.add(part)
            if lacking is not None:
                waiting[lacking].append(rank)
                break
            stop = start + sum(map(cost, action.parts))
            ready_at[rank] = stop
            found[rank].append(Timed(action, start, stop))
            for part in action.parts:
                ended[part] = stop
                completion.append((stop, rank, part))
                pending.extend(waiting.pop(part, ()))
    if waiting:
        raise ValueError(_stuck(table, waiting, orders, found, rank_of))
    completion.sort(key=lambda one: one[0])
    return Timeline(found, completion)


def _stuck(table: Any, waiting: Mapping[_Action, list[int]], orders: Any, found: Any, rank_of: Mapping[_Action, int]) -> str:
    lines = ["pipelining: the schedule cannot run"]
    for need, ranks in waiting.items():
        for rank in ranks:
            where = f"which rank {rank_of[need]} runs later" if need in rank_of else "which no rank runs"
            lines.append(f"  rank {rank} waits in {orders[rank][len(found[rank])]} for {need}, {where}")
    return "\n".join([*lines, format_table(table)])


def check_table(table: Mapping[int, Sequence[_Action | None]], stage_to_rank: Mapping[int, int], m: int, backward: bool = True) -> None:
    """Raise ValueError unless the ranks can run a table, and each stage runs each microbatch once, on its rank.

    Parameters
    ----------
    table : mapping of list
        For each rank its computations.
    stage_to_rank : mapping of int
        The rank of each stage.
    m : int
        Number of microbatches.
    backward : bool
        Whether there are backward passes.
    """
    parts: dict[int, list[_Action]] = {
        rank: [part for one in actions if one is not None and one.is_compute_op for part in one.parts] for rank, actions in table.items()
    }
    for rank, actions in parts.items():
        for action in actions:
            if stage_to_rank.get(action.stage_index) != rank:
                home = stage_to_rank.get(action.stage_index)
                what = "there is no such stage" if home is None else f"the stage is on rank {home}"
                raise ValueError(f"pipelining: rank {rank} has the action {action}, but {what}")
            if action.microbatch_index is None or not 0 <= action.microbatch_index < m:
                raise ValueError(f"pipelining: rank {rank} has the action {action}, but there are {m} microbatches")
    present = {action for actions in parts.values() for action in actions}
    for stage in stage_to_rank:
        for i in range(m):
            whole, of_inputs, of_weights = (_Action(stage, kind, i) in present for kind in (_K.FULL_BACKWARD, _K.BACKWARD_INPUT,
                                                                                            _K.BACKWARD_WEIGHT))  # fmt: skip
            if _Action(stage, _K.FORWARD, i) not in present:
                raise ValueError(f"pipelining: no rank runs {stage}F{i}")
            if backward and not ((whole and not of_inputs and not of_weights) or (not whole and of_inputs and of_weights)):
                raise ValueError(f"pipelining: microbatch {i} of stage {stage} needs either {stage}B{i} or {stage}I{i} and {stage}W{i}")
            if not backward and (whole or of_inputs or of_weights):
                raise ValueError(f"pipelining: stage {stage} has a backward pass of microbatch {i}, but the table is for forward passes")
    timeline(table, num_stages=len(stage_to_rank))


def with_communication(
    table: Mapping[int, Sequence[_Action | None]], stage_to_rank: Mapping[int, int], times: Timeline | None = None
) -> Table:  # fmt: skip
    """Return a table with what ranks send and receive.

    What a computation yields is sent right after it. The other rank begins to receive it at the same time: the actions of all
    ranks are put into one order, in which each receive action directly follows its send action. No rank therefore waits in vain
    if it runs its actions in order, waits for a message before using it, and waits until one message is sent before sending the next.
    ``times`` is the timeline of the table, if it is known.
    """
    last = len(stage_to_rank) - 1
    times = times or timeline(table, num_stages=last + 1)
    left = {rank: list(reversed(one)) for rank, one in times.ranks.items()}
    made: Table = {rank: [] for rank in table}

    def advance(rank: int, time: float) -> None:
        """Append the computations of a rank that have begun before a time."""
        while left[rank] and left[rank][-1].start < time:
            made[rank].append(left[rank].pop().action)

    for stop, rank, action in times.completion:
        advance(rank, stop)
        target = _target(action, last)
        if target is not None and stage_to_rank[target[0]] != rank:
            stage, send, receive = target
            peer = stage_to_rank[stage]
            advance(peer, stop)
            made[rank].append(_Action(action.stage_index, send, action.microbatch_index))
            made[peer].append(_Action(stage, receive, action.microbatch_index))
    return made


def _target(action: _Action, last: int) -> tuple[int, _ComputationType, _ComputationType] | None:
    """Return the stage that needs what a computation yields, and how it is sent and received."""
    stage, kind = action.stage_index, action.computation_type
    if kind is _K.FORWARD and stage < last:
        return stage + 1, _K.SEND_F, _K.RECV_F
    if kind in (_K.FULL_BACKWARD, _K.BACKWARD_INPUT) and stage:
        return stage - 1, _K.SEND_B, _K.RECV_B
    return None


def forward_only(table: Mapping[int, Sequence[_Action | None]]) -> Table:
    """Return the forward passes of a table, in its order."""
    return {rank: [part for one in actions if one is not None for part in one.parts if part.computation_type is _K.FORWARD]
            for rank, actions in table.items()}  # fmt: skip
