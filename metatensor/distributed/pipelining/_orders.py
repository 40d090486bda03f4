"""The order of forward and backward passes on each rank, for each schedule.

The functions take the number of ranks ``p``, of stages on each rank ``v`` and of microbatches ``m``, and return the `Table` of
computations. `stages_of_rank` says which stages a rank has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from metatensor.distributed.pipelining._actions import Table, _Action, _ComputationType

__all__ = [
    "dual_pipe_v", "gpipe", "interleaved_1f1b", "interleaved_zero_bubble", "looped_bfs", "one_f_one_b", "rounds", "stage_to_rank",
    "stages_of_rank", "zbv_zero_bubble",
]  # fmt: skip

F, B, I, W = (
    _ComputationType.FORWARD, _ComputationType.FULL_BACKWARD, _ComputationType.BACKWARD_INPUT, _ComputationType.BACKWARD_WEIGHT,
)  # fmt: skip


def stages_of_rank(rank: int, p: int, v: int, style: str = "loop") -> list[int]:
    """Return the stages of a rank.

    In a ``"loop"`` stage ``s`` is on rank ``s % p``. In a ``"v"`` the stages run up to the last rank and back, in turns.
    """
    if style == "v":
        return [turn * p + (rank if turn % 2 == 0 else p - 1 - rank) for turn in range(v)]
    return [turn * p + rank for turn in range(v)]


def stage_to_rank(p: int, num_stages: int, style: str = "loop") -> dict[int, int]:
    """Return the rank of each stage."""
    return {stage: rank for rank in range(p) for stage in stages_of_rank(rank, p, num_stages // p, style)}


def gpipe(p: int, v: int, m: int) -> Table:
    """All forward passes, then all backward passes (Huang et al. 2019, "GPipe")."""
    return {rank: [_Action(rank, kind, i) for kind in (F, B) for i in range(m)] for rank in range(p)}


def one_f_one_b(p: int, v: int, m: int) -> Table:
    """A forward pass after each backward pass, once ``p - rank`` microbatches are in flight.

    See Narayanan et al. 2019, "PipeDream", and 2021, "Efficient large-scale language model training on GPU clusters".
    """
    return {rank: _alternated([_Action(rank, F, i) for i in range(m)], [_Action(rank, B, i) for i in range(m)], min(m, p - rank) - 1)
            for rank in range(p)}  # fmt: skip


def looped_bfs(p: int, v: int, m: int) -> Table:
    """All microbatches of one stage after the other (Lamy-Poirier 2023, "Breadth-first pipeline parallelism")."""
    return {rank: [_Action(stage, F, i) for stage in stages_of_rank(rank, p, v) for i in range(m)]
            + [_Action(stage, B, i) for stage in reversed(stages_of_rank(rank, p, v)) for i in reversed(range(m))]
            for rank in range(p)}  # fmt: skip


def rounds(p: int, m: int) -> int:
    """Return how many microbatches of a stage an interleaved schedule runs before it goes on to the rank's next stage.

    Raise ValueError if they cannot be divided evenly.
    """
    count = max(1, m // p)
    if m % count:
        raise ValueError(f"the microbatches are run in {count} rounds on {p} ranks, so their number must be a multiple of {count}, got {m}")
    return m // count


def _interleaved(rank: int, p: int, v: int, m: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return stages and microbatches of the forward and the backward passes of a rank, in order."""
    each, stages = rounds(p, m), stages_of_rank(rank, p, v)
    ups = [(stage, start + i) for start in range(0, m, each) for stage in stages for i in range(each)]
    downs = [(stage, start + i) for start in range(0, m, each) for stage in reversed(stages) for i in range(each)]
    return ups, downs


def _alternated(ups: list[_Action], downs: list[_Action], ahead: int) -> list[_Action]:
    """Return the first ``ahead`` of ``ups``, then one of ``ups`` and of ``downs`` in turn, then the rest of ``downs``."""
    ahead = min(ahead, len(ups))
    pairs = [one for pair in zip(ups[ahead:], downs) for one in pair]
    return [*ups[:ahead], *pairs, *downs[len(ups) - ahead :]]


def interleaved_1f1b(p: int, v: int, m: int) -> Table:
    """1F1B in which each rank has ``v`` stages, and runs ``p`` microbatches of one before it goes on to the next.

    See Narayanan et al. 2021, "Efficient large-scale language model training on GPU clusters using Megatron-LM".
    """
    table = {}
    for rank in range(p):
        ups, downs = _interleaved(rank, p, v, m)
        ahead = (v - 1) * rounds(p, m) + 2 * (p - 1 - rank)
        table[rank] = _alternated([_Action(s, F, i) for s, i in ups], [_Action(s, B, i) for s, i in downs], ahead)
    return table


def interleaved_zero_bubble(p: int, v: int, m: int) -> Table:
    """Interleaved 1F1B whose gradients of weights are computed later, where a rank would wait.

    On rank ``r``, the gradients of weights are ``r`` backward passes behind. With one stage on each rank this is ZB-H1 of Qi et al. 2023,
    "Zero bubble pipeline parallelism".
    """
    table = {}
    for rank in range(p):
        ups, downs = _interleaved(rank, p, v, m)
        ahead = (v - 1) * rounds(p, m) + (p - 1 - rank)
        actions = []
        weights = iter(downs)
        done = 0
        for action in _alternated([_Action(s, F, i) for s, i in ups], [_Action(s, I, i) for s, i in downs], ahead):
            actions.append(action)
            if action.computation_type is I:
                if done >= rank:
                    actions.append(_Action(next(weights)[0], W, None))
                done += 1
        actions += [_Action(stage, W, None) for stage, _ in weights]
        table[rank] = _numbered(actions)
    return table


def _numbered(actions: Iterable[_Action]) -> list[_Action]:
    """Give the weight passes of each stage their microbatches, in order."""
    taken: dict[int, int] = defaultdict(int)
    made = []
    for action in actions:
        if action.computation_type is W:
            made.append(action._replace(microbatch_index=taken[action.stage_index]))
            taken[action.stage_index] += 1
        else:
            made.append(action)
    return made


# Schedules in the shape of a V: rank r has the stages r and 2p - 1 - r ---------------------------------------------------


def _in_phases(stages: list[int], phases: Iterable[tuple[int, str]]) -> list[_Action]:
    """Return the actions of phases: how often each is repeated, and its actions, such as ``"F0 I1 W"``.

    The digit says which stage of the rank is meant. A ``W`` without a digit is the oldest weight pass that is due, if there is one.
    ``F0+B1`` is an ``OVERLAP_F_B``.
    """
    taken: dict[tuple[int, str], int] = defaultdict(int)
    due: list[tuple[int, int]] = []

    def action(text: str) -> _Action | None:
        if text == "W":
            if not due:
                return None
            stage, i = due.pop(0)
            return _Action(stage, W, i)
        kind, stage = text[0], stages[int(text[1])]
        counter = stage, "B" if kind == "I" else kind
        i = taken[counter]
        taken[counter] += 1
        if kind == "I":
            due.append((stage, i))
        elif kind == "W":
            due.remove((stage, i))
        elif kind == "B":
            taken[stage, "W"] += 1
        return _Action(stage, _ComputationType(kind), i)

    made = []
    for count, texts in phases:
        for _ in range(count):
            for text in texts.split():
                parts = tuple(one for part in text.split("+") if (one := action(part)) is not None)
                if len(parts) > 1:
                    made.append(_Action(-1, _ComputationType.OVERLAP_F_B, None, parts))
                else:
                    made.extend(parts)
    return made


def zbv_zero_bubble(p: int, v: int, m: int) -> Table:
    """ZB-V of Qi et al. 2023, "Zero bubble pipeline parallelism": no bubble if F, I and W take equally long.

    It is made for at least ``2p - 1`` microbatches. With fewer, the actions of the missing ones are left out.
    """
    n = max(m, 2 * p - 1)
    table = {}
    for r in range(p):
        actions = _in_phases(stages_of_rank(r, p, 2, "v"), [
            (2 * (p - r) - 1, "F0"), (r, "F1 F0"), (p - r, "F1 I1 W1"),
            (n - (2 * p - 1 - r), "F0 I0 W0 F1 I1 W1"), (p - 1 - r, "I0 W0 F1 I1 W1"),
            (r, "I0 I1"), (p - r, "I0 W0"), (r, "W1"), (r, "W0"),
        ])  # fmt: skip
        table[r] = [one for one in actions if one.microbatch_index is not None and one.microbatch_index < m]
    return table


def dual_pipe_v(p: int, v: int, m: int) -> Table:
    """DualPipeV of DeepSeek (github.com/deepseek-ai/DualPipe): forward and backward passes of different microbatches overlap.

    It needs at least ``2p`` microbatches.
    """
    table = {}
    for r in range(p):
        half = (r + 1) // 2
        # The last r + 1 rounds compute whole gradients at first, and only those of inputs after the middle.
        closing = [(half, "B1 B0"), (1, "B1 I0" if r % 2 == 0 else ""), ((r + 1) - half - (r % 2 == 0), "I1 I0")]
        main = m - 2 * p + r + 1
        first = "F0 B1 F1+B0" if r == p - 1 else "F0+B1 F1+B0"
        table[r] = _in_phases(stages_of_rank(r, p, 2, "v"), [
            (2 * (p - 1 - r), "F0"), (r + 1, "F0 F1"), (p - 1 - r, "I1 W F1"),
            (1, first), (main - 1, "F0+B1 F1+B0"),
            (p - 1 - r, "B1 F1+B0"), *closing, (p - 1 - r, "W I0"), (2 * p, "W"),
        ])  # fmt: skip
    return table
