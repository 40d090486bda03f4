"""What a pass of a stage needs at its peak, and what gathering and scattering of parameters add to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from metatensor.plan.layouts import Degrees
    from metatensor.plan.memory import Widths
    from metatensor.plan.stages import Stage
    from metatensor.plan.times import Timed

__all__ = ["Need", "elements_of", "gathered_needs", "padded_of", "share_of"]


class Need(NamedTuple):
    """What a pass of a stage needs at its peak, in bytes."""

    total: int = 0
    saved: int = 0
    communication: int = 0


def elements_of(part: Timed) -> int:
    """Return the elements of a part's parameters on a rank without sharding."""
    return part.cost.parameters + part.cost.expert_parameters


def share_of(degrees: Degrees, part: Timed) -> int:
    """Return the elements of a rank's share of a part's parameters."""
    return -(-part.cost.parameters // degrees.replicas) - (-part.cost.expert_parameters // degrees.expert_replicas)


def padded_of(degrees: Degrees, part: Timed) -> int:
    """Return the elements of a part's parameters, rounded up so that the ranks have equal shares."""
    dense, experts = degrees.replicas, degrees.expert_replicas
    return -(-part.cost.parameters // dense) * dense - (-part.cost.expert_parameters // experts) * experts


def gathered_needs(degrees: Degrees, widths: Widths, stage: Stage, last: bool, loss: int, wasted: bool) -> tuple[Need, Need]:
    """Return what the forward and the backward pass of a stage need whose parameters are sharded, as `fully_shard` works.

    In the forward pass, a part's parameters are gathered in one piece and copied to whole parameters. The piece lives until that of the
    next part has been copied. In the backward pass, the piece of the part before is there while gradients of a part are computed, and
    the reduction of the part after is running. The last part of the model keeps its whole parameters between its passes. If ``wasted``,
    some backward passes of the first part gather the last one, see `wasted_gathers`.
    """
    # Of equal parts in a row, the first and the last two stand for all.
    listed, at = [], stage.received
    for part, n in stage.runs:
        listed += [(part, at + i * part.cost.saved) for i in sorted({0, max(n - 2, 0), n - 1})]
        at += n * part.cost.saved
    padded = {id(part): padded_of(degrees, part) for part, _ in stage.counted}
    forward, backward, passing, piece = Need(), Need(), 0, 0
    for part, before in listed:
        cost, whole = part.cost, elements_of(part) * widths.parameter
        piece, earlier = padded[id(part)] * widths.parameter, piece
        buffers = whole + piece
        forward = max(forward, Need(before + passing + buffers + earlier, before + passing, buffers + earlier),
                      Need(before + passing + buffers + cost.forward_peak, before + passing, buffers))  # fmt: skip
        passing = cost.passing
    running = 0
    for i in reversed(range(len(listed))):
        part, own = listed[i]
        cost, peaks, ends = part.cost, part.cost.backward_peaks, i == len(listed) - 1
        own += 0 if ends else loss
        whole = elements_of(part) * widths.parameter
        piece = 0 if ends and last else padded[id(part)] * widths.parameter
        preceding = padded[id(listed[i - 1][0])] * widths.parameter if i or wasted else 0
        sent, received = padded[id(part)] * widths.gradient, share_of(degrees, part) * widths.gradient
        beginning, during, ending = running + whole + piece, running + whole + preceding, preceding + sent + max(whole, received)
        left = own - (listed[i - 1][0].cost.released if i else 0) + cost.input_bytes
        backward = max(backward, Need(own + peaks.start + beginning, own, beginning), Need(own + peaks.kept + during, own, during),
                       Need(left + ending, left, ending))  # fmt: skip
        running = sent + received
    return forward, backward
