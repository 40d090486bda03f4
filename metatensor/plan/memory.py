"""The memory of a rank in a layout, put together from the costs of its stages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from metatensor.plan.layouts import Degrees

if TYPE_CHECKING:
    from metatensor.plan.stages import Stage

__all__ = ["Widths", "host_memory", "rank_memory"]


class Widths(NamedTuple):
    """Bytes of what a step keeps for each element of a parameter."""

    parameter: int
    gradient: int
    state: float
    """The optimizer's state."""
    master: int
    """A copy of the parameter that the optimizer updates, 0 if it updates the parameter itself."""


def shared(degrees: Degrees, stages: Sequence[Stage], level: int) -> float:
    """Return how many elements a rank keeps of something as large as the parameters that sharding divides from ``level`` on."""
    dense, experts = sum(stage.elements for stage in stages), sum(stage.expert_elements for stage in stages)
    if degrees.shard < level:
        return dense + experts
    return dense / degrees.replicas + experts / degrees.expert_replicas


def rank_memory(degrees: Degrees, widths: Widths, stages: Sequence[Stage], flights: Sequence[tuple[int, ...]]) -> dict[str, int]:
    """Return the peak memory of a rank by category.

    Parameters
    ----------
    degrees : Degrees
        How the step is divided.
    widths : Widths
        Bytes for each element of a parameter.
    stages : sequence of Stage
        The stages of the rank.
    flights : sequence of tuple of int
        Numbers of micro-batches that these stages hold at the same time. The tuple with the highest need is used.
    """
    elements = sum(stage.elements + stage.expert_elements for stage in stages)
    largest = max(stage.largest for stage in stages)
    saved = max(sum(stage.saved * n for stage, n in zip(stages, counts, strict=True)) for counts in flights)
    masters, states = shared(degrees, stages, 1) * widths.master, shared(degrees, stages, 1) * widths.state
    whole = copies = 0
    if degrees.shard == 3:  # two parts are gathered at a time: the one that runs and the next one
        copies = min(2 * largest, elements) * widths.parameter
        stored = shared(degrees, stages, 3) * (widths.master or widths.parameter)
        masters = 0.0
    else:
        stored = elements * widths.parameter + masters
    if degrees.shard >= 2:
        whole = largest * widths.parameter
    if degrees.offloads("optimizer"):  # the states of two parts are on the device: one is updated, one is transferred
        share = shared(degrees, stages, 1) / elements if elements else 1.0
        moved = widths.state + (widths.master if masters else 0)
        stored, states = stored - masters, min(states + masters, 2 * largest * share * moved)
    if degrees.offloads("activations"):  # the activations of two parts are on the device: one runs, one is transferred
        saved = min(saved, 2 * max(stage.largest_saved for stage in stages) + max(stage.received for stage in stages))
    return {
        "parameter": int(stored + sum(stage.frozen for stage in stages) * widths.parameter),
        "gradient": int(shared(degrees, stages, 2) * widths.gradient), "optimizer": int(states), "saved": int(saved),
        "temporary": max(stage.temporary for stage in stages), "communication": int(copies + whole),
    }  # fmt: skip


def host_memory(degrees: Degrees, widths: Widths, stages: Sequence[Stage], flights: Sequence[tuple[int, ...]]) -> int:
    """Return the bytes of a rank that are in the memory of the host."""
    found = 0.0
    if degrees.offloads("optimizer"):
        found += shared(degrees, stages, 1) * (widths.state + (widths.master if degrees.shard < 3 else 0))
    if degrees.offloads("activations"):
        found += max(sum(stage.saved * n for stage, n in zip(stages, counts, strict=True)) for counts in flights)
    return int(found)
