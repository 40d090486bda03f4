"""What the collectives of simulated ranks do with data. Each function gets the calls of all ranks, in their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import metatensor as mt
from metatensor.distributed._reduce_op import reduced
from metatensor.distributed.sim.matching import Call

__all__ = ["MOVES"]


def _all_reduce(calls: Sequence[Call]) -> None:
    tensors = [call.data[0] for call in calls]
    whole = reduced(tensors, calls[0].data[1])
    for one in tensors:
        one.copy_(whole)


def _reduce(calls: Sequence[Call]) -> None:
    tensor, op, root = calls[0].data
    calls[root].data[0].copy_(reduced([call.data[0] for call in calls], op))


def _broadcast(calls: Sequence[Call]) -> None:
    root = calls[0].data[1]
    for index, call in enumerate(calls):
        if index != root:
            call.data[0].copy_(calls[root].data[0])


def _all_gather(calls: Sequence[Call]) -> None:
    whole = mt.cat([call.data[1].reshape(-1) for call in calls])
    for call in calls:
        call.data[0].view(-1).copy_(whole)


def _gather(calls: Sequence[Call]) -> None:
    root = calls[0].data[2]
    calls[root].data[0].view(-1).copy_(mt.cat([call.data[1].reshape(-1) for call in calls]))


def _scatter(calls: Sequence[Call]) -> None:
    source = calls[calls[0].data[2]].data[1].view(-1)
    size = source.numel() // len(calls)
    for index, call in enumerate(calls):
        call.data[0].view(-1).copy_(source[index * size : (index + 1) * size])


def _reduce_scatter(calls: Sequence[Call]) -> None:
    whole = reduced([call.data[1].view(-1) for call in calls], calls[0].data[2])
    size = whole.numel() // len(calls)
    for index, call in enumerate(calls):
        call.data[0].view(-1).copy_(whole[index * size : (index + 1) * size])


def _all_to_all(calls: Sequence[Call]) -> None:
    sent = [list(call.data[1].reshape(-1).split(list(call.data[3]))) for call in calls]
    parts = [mt.cat([sent[source][target] for source in range(len(calls))]) for target in range(len(calls))]
    for call, part in zip(calls, parts):
        call.data[0].view(-1).copy_(part)


def _nothing(calls: Sequence[Call]) -> None:
    pass


MOVES: dict[str, Callable[[Sequence[Call]], None]] = {
    "all_gather": _all_gather, "all_reduce": _all_reduce, "all_to_all": _all_to_all, "barrier": _nothing, "broadcast": _broadcast,
    "gather": _gather, "reduce": _reduce, "reduce_scatter": _reduce_scatter, "scatter": _scatter,
}  # fmt: skip
"""The function of each kind of collective."""
