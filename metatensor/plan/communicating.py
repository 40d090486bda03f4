"""The collectives of a step in a layout, put together from the costs of its stages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from metatensor.plan.layouts import Degrees
from metatensor.plan.memory import Widths
from metatensor.plan.moments import wasted_gathers
from metatensor.plan.needs import pieces_of, reductions_of, tied_of
from metatensor.plan.schedules import split_backward

if TYPE_CHECKING:
    from metatensor.plan.costs import PartCost
    from metatensor.plan.stages import Stage

__all__ = ["Calls", "step_collectives"]

Calls = Counter[tuple[str, int, int]]
"""How often a rank calls each kind of collective, with its bytes and the number of its ranks. A message has two ranks."""


def step_collectives(degrees: Degrees, widths: Widths, stages: Sequence[Stage], places: Sequence[int], micro_batches: int) -> list[Calls]:
    """Return the collectives and messages of a step on each rank of the pipeline.

    Parameters
    ----------
    degrees : Degrees
        How the step is divided.
    widths : Widths
        Bytes for each element of a parameter.
    stages : sequence of Stage
        All stages, in the order of the model.
    places : sequence of int
        The rank of each stage.
    micro_batches : int
        Micro-batches of a step.
    """
    found: list[Calls] = [Counter() for _ in range(degrees.pipeline)]
    wasted = wasted_gathers(degrees, micro_batches)
    for i, (stage, rank) in enumerate(zip(stages, places, strict=True)):
        calls, last = found[rank], i == len(stages) - 1
        for j, part in enumerate(stage.parts):
            split = i > 0 and split_backward(degrees.schedule)  # the first stage computes no gradient of an input
            _of_activations(calls, degrees, part.cost, split, micro_batches)
            for kind, nbytes in reductions_of(degrees, widths, part):
                calls[kind, nbytes, degrees.tensor] += micro_batches if degrees.shard >= 2 else 1
            whole = last and j == len(stage.parts) - 1  # the backward pass begins with the last part, which is still whole
            if part.cost.tied and places[0] != places[-1]:
                calls["all_reduce", tied_of(degrees, part) * widths.gradient, 2] += 1
            for elements, ranks, _, stays in pieces_of(degrees, part):
                if ranks > 1:
                    _of_parameters(calls, degrees.shard, widths, elements, ranks, micro_batches, whole or stays)
                    if 0 < j == len(stage.parts) - 1 and wasted[i]:
                        calls["all_gather", elements * widths.parameter, ranks] += wasted[i]
        for other, nbytes in ((i - 1, stage.received), (i + 1, 0 if last else stages[i + 1].received)):
            if 0 <= other < len(stages) and places[other] != rank:
                calls["send", nbytes, 2] += micro_batches
                calls["recv", nbytes, 2] += micro_batches
    return found


def _of_activations(calls: Calls, degrees: Degrees, cost: PartCost, split: bool, micro_batches: int) -> None:
    backward = (cost.split.of_inputs, cost.split.of_weights) if split and cost.split is not None else (cost.backward,)
    for work in (cost.forward, *backward):
        for kind, nbytes in work.communication:
            calls[kind, nbytes, degrees.tensor] += micro_batches
        for kind, nbytes, group in work.groups:
            calls[kind, nbytes, 2 if kind in ("send", "recv") else len(group)] += micro_batches


def _of_parameters(calls: Calls, shard: int, widths: Widths, elements: int, ranks: int, micro_batches: int, whole: bool) -> None:
    """Add the collectives of the parameters of a part, and of their gradients."""
    gradient, parameter = elements * widths.gradient, elements * widths.parameter
    if shard == 0:
        calls["all_reduce", gradient, ranks] += 1
    elif shard < 3:
        calls["reduce_scatter", gradient, ranks] += micro_batches if shard == 2 else 1
        calls["all_gather", parameter, ranks] += 1
    else:
        calls["reduce_scatter", gradient, ranks] += micro_batches
        calls["all_gather", parameter, ranks] += micro_batches * (1 if whole else 2)
