"""The memory of a rank in a layout, put together from the costs of its parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from metatensor.plan.layouts import Degrees
from metatensor.plan.measuring import PartCost

__all__ = ["Widths", "rank_memory"]


class Widths(NamedTuple):
    """Bytes of what a step keeps for each element of a parameter."""

    parameter: int
    gradient: int
    state: float
    """The optimizer's state."""
    master: int
    """A copy of the parameter that the optimizer updates, 0 if it updates the parameter itself."""


def rank_memory(
    degrees: Degrees, widths: Widths, parts: Sequence[tuple[PartCost, int]], received: int, flights: int
) -> dict[str, int]:  # fmt: skip
    """Return the peak memory of a rank by category.

    Parameters
    ----------
    degrees : Degrees
        How the step is divided.
    widths : Widths
        Bytes for each element of a parameter.
    parts : sequence of (PartCost, int)
        The different parts of the rank's stage with their numbers.
    received : int
        Bytes that the stage receives for a micro-batch, 0 for the first stage.
    flights : int
        Micro-batches whose activations are held at a time.
    """
    elements, frozen = sum(cost.parameters * n for cost, n in parts), sum(cost.frozen * n for cost, n in parts)
    largest = max(cost.parameters for cost, _ in parts)
    divided = [degrees.data if degrees.shard >= level else 1 for level in (1, 2, 3)]
    saved = sum(cost.saved * n for cost, n in parts) + received
    gradients = elements / divided[1]
    whole = copies = 0
    if degrees.shard == 3:  # two parts are whole at a time: the one that runs and the one that comes next
        copies = min(2 * largest, elements) * widths.parameter
        stored = elements / divided[2] * (widths.master or widths.parameter)
    else:
        stored = elements * widths.parameter + elements / divided[0] * widths.master
    if degrees.shard >= 2:
        whole = largest * widths.parameter
    return {
        "parameter": int(stored + frozen * widths.parameter), "gradient": int(gradients * widths.gradient),
        "optimizer": int(elements / divided[0] * widths.state), "saved": int(saved * flights),
        "temporary": max(max(cost.forward_peak, cost.backward_peak) for cost, _ in parts), "communication": int(copies + whole),
    }  # fmt: skip
