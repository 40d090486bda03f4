"""The moments of a pipeline's step at which a rank may need most memory: which pass runs, and what is held meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from metatensor.distributed.pipelining import _orders
from metatensor.distributed.pipelining._actions import _Action, _ComputationType
from metatensor.distributed.pipelining._timing import with_communication
from metatensor.plan.layouts import Degrees
from metatensor.plan.schedules import CODES, rank_style, repeated_from, table_of, timeline_of

__all__ = ["HELD", "Moment", "alone", "moments", "wasted_gathers"]

_K = _ComputationType
HELD = ("saved", "deferred", "received", "output", "gradient", "returned")
"""What a rank holds of micro-batches for each of its stages: what is saved for the backward pass, or for gradients of weights; inputs that
have arrived; results that have not been sent; gradients of results that have arrived; and gradients of inputs that have not been sent."""
_SAVED, _DEFERRED, _RECEIVED, _OUTPUT, _GRADIENT, _RETURNED = range(6)


class Moment(NamedTuple):
    """A pass of a stage on a micro-batch, and what is held of the others."""

    code: int
    """The pass, as in `CODES`."""
    stage: int
    """The place of the stage among those of the rank."""
    held: tuple[int, ...]
    """For each stage of the rank the numbers of micro-batches of each of `HELD`."""
    losses: int
    """Losses of earlier micro-batches."""


def alone(micro_batches: int) -> list[Moment]:
    """Return the moments of a rank that runs both passes of a micro-batch before it begins the next one."""
    nothing, losses = (0,) * len(HELD), min(micro_batches - 1, 1)
    return [Moment(CODES[kind], 0, nothing, losses) for kind in (_K.FORWARD, _K.FULL_BACKWARD)]


@lru_cache(maxsize=1024)
def moments(schedule: str, p: int, v: int, m: int) -> list[list[Moment]]:
    """Return for each rank the moments of which one has the highest memory, if what is saved of a micro-batch is at least a message.

    That holds, since a stage saves what it has received, or the tensor with which its first block begins.

    Raise ValueError if the schedule does not take so many micro-batches.
    """
    if schedule == "GPipe" and m > 4 * p and m % p == 0:  # all micro-batches are held
        two = [moments(schedule, p, v, n * p) for n in (3, 4)]
        return [[_extended(x, y, (m - 4 * p) // p) for x, y in zip(*pair, strict=True)] for pair in zip(*two, strict=True)]
    short = repeated_from(schedule, p, m)
    table = with_communication(table_of(schedule, p, v, short), _orders.stage_to_rank(p, p * v, rank_style(schedule)),
                               timeline_of(schedule, p, v, short))  # fmt: skip
    return [_of_rank(table[rank], sorted(_orders.stages_of_rank(rank, p, v, rank_style(schedule))), p * v - 1, m - short)
            for rank in range(p)]  # fmt: skip


def wasted_gathers(degrees: Degrees, m: int) -> list[int]:
    """Return for each stage how often its last part is gathered in vain in a step of ``m`` micro-batches.

    `fully_shard` gathers during the backward pass of a part what ran before it. If a stage has run forward several times since its last
    backward pass, that is for its first part the last one, of the micro-batch before. A stage of one part gathers nothing in vain.
    """
    p, v, schedule = degrees.pipeline, degrees.virtual_stages, degrees.schedule
    if degrees.shard < 3 or p == 1 or degrees.replicas == 1:
        return [0] * (p * v)
    short = repeated_from(schedule, p, m)
    if short == m:
        return _wasted(schedule, p, v, m)
    a, b = (_wasted(schedule, p, v, n) for n in (short - p, short))
    return [y + (y - x) * ((m - short) // p) for x, y in zip(a, b)]


@lru_cache(maxsize=256)
def _wasted(schedule: str, p: int, v: int, m: int) -> list[int]:
    found, ran = [0] * (p * v), [0] * (p * v)
    for actions in table_of(schedule, p, v, m).values():
        for action in actions:
            if action.computation_type is _K.FORWARD:
                ran[action.stage_index] += 1
            elif action.computation_type is not _K.BACKWARD_WEIGHT:
                found[action.stage_index] += ran[action.stage_index] > 1
                ran[action.stage_index] = 0
    return found


def _of_rank(actions: Iterable[_Action], own: Sequence[int], last: int, more: int) -> list[Moment]:
    """Return the moments of a rank. ``more`` is the number of micro-batches that were left out."""
    place = {stage: i * len(HELD) for i, stage in enumerate(own)}
    now, losses = [0] * (len(own) * len(HELD)), 0
    sending: set[tuple[int, int]] = set()
    seen: dict[tuple[int, int], set[tuple[int, ...]]] = {}

    def note(kind: _K, at: int) -> None:
        """Note a moment. The number of losses is another thing that is held."""
        seen.setdefault((CODES[kind], at // len(HELD)), set()).add((*now, losses + more if losses else 0))

    def yielded(kind: int, at: int, target: int | None, arrives: int) -> None:
        """A pass has yielded something for another stage, which may be on this rank."""
        if target is None:
            now[at + kind] += 1
        else:
            now[target + arrives] += 1

    for action in actions:
        stage, kind = action.stage_index, action.computation_type
        at = place[stage]
        if kind is _K.FORWARD:
            now[at + _RECEIVED] -= stage > 0
            note(kind, at)
            now[at + _SAVED] += 1
            if stage < last:
                yielded(_OUTPUT, at, place.get(stage + 1), _RECEIVED)
        elif kind in (_K.FULL_BACKWARD, _K.BACKWARD_INPUT):
            now[at + _GRADIENT] -= stage < last
            now[at + _SAVED] -= 1
            note(kind, at)
            losses += stage == last
            now[at + _DEFERRED] += kind is _K.BACKWARD_INPUT
            if stage:
                yielded(_RETURNED, at, place.get(stage - 1), _GRADIENT)
        elif kind is _K.BACKWARD_WEIGHT:
            now[at + _DEFERRED] -= 1
            note(kind, at)
        elif kind is _K.RECV_F:
            now[at + _RECEIVED] += 1
        elif kind is _K.RECV_B:
            now[at + _GRADIENT] += 1
        else:
            key = at, _OUTPUT if kind is _K.SEND_F else _RETURNED
            now[at + key[1]] -= key in sending  # the message before has arrived
            sending.add(key)
    return [Moment(code, stage, held[:-1], held[-1]) for (code, stage), every in seen.items() for held in _highest(every)]


def _extended(x: Moment, y: Moment, steps: int) -> Moment:
    """Return a moment of a longer step, where what is held grows as from ``x`` to ``y``."""
    assert x[:2] == y[:2]
    return Moment(*y[:2], tuple(b + (b - a) * steps for a, b in zip(x.held, y.held, strict=True)), y.losses + (y.losses - x.losses) * steps)


def _highest(every: set[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return the tuples that no other makes needless."""
    places = [i for i in range(len(next(iter(every))) - 1) if i % len(HELD) in (_SAVED, _DEFERRED)]
    split = [([one[i] for i in places], one) for one in every]
    split.sort(key=lambda pair: (sum(pair[0]), sum(pair[1])), reverse=True)
    found: list[tuple[list[int], tuple[int, ...]]] = []
    for saved, one in split:
        if not any(_needless(saved, one, *other) for other in found):
            found.append((saved, one))
    return [one for _, one in found]


def _needless(saved: list[int], one: tuple[int, ...], more: list[int], other: tuple[int, ...]) -> bool:
    """Return whether a moment has no more saved in any stage than another one, which makes up for each message that it has more."""
    if not all(map(int.__le__, saved, more)):
        return False
    messages = sum(a - b for a, b in zip(one, other) if a > b)  # nothing saved is among them
    return messages <= sum(more) - sum(saved)
