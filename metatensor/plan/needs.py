"""What a pass of a stage needs at its peak, and what gathering and scattering of parameters add to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from metatensor.plan.layouts import Degrees
    from metatensor.plan.memory import Widths
    from metatensor.plan.stages import Stage
    from metatensor.plan.times import Timed

__all__ = ["Need", "Piece", "elements_of", "gathered_needs", "padded_of", "pieces_of", "reductions_of", "share_of", "tied_of"]


class Need(NamedTuple):
    """What a pass of a stage needs at its peak, in bytes."""

    total: int = 0
    saved: int = 0
    communication: int = 0


class Piece(NamedTuple):
    """Parameters of a part that are in one piece of memory, and reduced and gathered by one collective."""

    elements: int
    ranks: int
    """Number of ranks that have the same parameters."""
    stride: int
    """How far these ranks are apart."""
    stays: bool = False
    """Whether `fully_shard` leaves them gathered from the forward to the backward pass."""

    @property
    def share(self) -> int:
        """Elements of a rank's share."""
        return -(-self.elements // self.ranks)


def pieces_of(degrees: Degrees, part: Timed) -> list[Piece]:
    """Return the pieces of a part's parameters. With shard 3, tied parameters are gathered with the others."""
    cost, stride = part.cost, degrees.tensor
    if degrees.shard < 3:
        dense = [(cost.parameters, False), (cost.tied, False)]
    elif cost.joined:
        dense = [(cost.parameters + cost.joined, True)]
    else:
        dense = [(cost.outer, True), (cost.parameters + cost.tied - cost.outer, False)]
    found = [Piece(elements, degrees.replicas, stride, stays) for elements, stays in dense]
    found.append(Piece(cost.expert_parameters, degrees.expert_replicas, stride * degrees.expert))
    return [piece for piece in found if piece.elements]


def reductions_of(degrees: Degrees, widths: Widths, part: Timed) -> list[tuple[str, int]]:
    """Return the kind and bytes of the collectives by which tensor-parallel ranks sum partial gradients of a part.

    They run once in a step, or with shard 2 and 3 for each micro-batch, whose sums are divided at once. `fully_shard` sums each gradient,
    in the dtype of the computation.
    """
    cost = part.cost
    if degrees.shard == 3:
        return [("all_reduce", n) for n in cost.reduced] + [("reduce_scatter", n) for n in cost.scattered]
    wide = lambda nbytes: nbytes // widths.parameter * widths.gradient
    found = [("all_reduce", wide(sum(cost.reduced)))] if cost.reduced else []
    return found + [("reduce_scatter", wide(n)) for n in cost.scattered]


def tied_of(degrees: Degrees, part: Timed) -> int:
    """Return the elements of tied parameters whose gradients a rank sums with those of another stage."""
    return -(-part.cost.tied // degrees.replicas) if degrees.shard else part.cost.tied


def elements_of(part: Timed) -> int:
    """Return the elements of a part's parameters on a rank without sharding."""
    return part.cost.parameters + part.cost.tied + part.cost.expert_parameters


def share_of(degrees: Degrees, part: Timed) -> int:
    """Return the elements of a rank's share of a part's parameters."""
    return sum(piece.share for piece in pieces_of(degrees, part))


def padded_of(degrees: Degrees, part: Timed) -> int:
    """Return the elements of a part's parameters, rounded up so that the ranks have equal shares."""
    return sum(piece.share * piece.ranks for piece in pieces_of(degrees, part))


def gathered_needs(degrees: Degrees, widths: Widths, stage: Stage, last: bool, loss: int, wasted: bool) -> tuple[Need, Need]:
    """Return what the passes of a stage need if its parameters are sharded as by `fully_shard`.

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
    pieces = {id(part): pieces_of(degrees, part) for part, _ in stage.counted}
    padded = {key: sum(piece.share * piece.ranks for piece in own) for key, own in pieces.items()}
    again = {key: sum(piece.share * piece.ranks for piece in own if not piece.stays) for key, own in pieces.items()}
    wholes = {key: sum(piece.elements for piece in own) * widths.parameter for key, own in pieces.items()}
    head = stage.parts[0]
    staying = sum(piece.elements for piece in pieces[id(head)] if piece.stays) * widths.parameter
    forward, backward, passing, piece = Need(), Need(), 0, 0
    for part, before in listed:
        cost, whole = part.cost, wholes[id(part)] + (staying if part is not head else 0)
        piece, earlier = padded[id(part)] * widths.parameter, piece
        buffers = whole + piece
        forward = max(forward, Need(before + passing + buffers + earlier, before + passing, buffers + earlier),
                      Need(before + passing + buffers + cost.forward_peak, before + passing, buffers))  # fmt: skip
        passing = cost.passing
    running = 0
    for i in reversed(range(len(listed))):
        part, own = listed[i]
        cost, peaks, ends = part.cost, part.cost.backward_peaks, i == len(listed) - 1
        own += 0 if ends else loss + (stage.parts[-1].cost.carried if i else 0)
        whole = wholes[id(part)] + (staying if i else 0)
        piece = 0 if ends and last else again[id(part)] * widths.parameter
        preceding = again[id(listed[i - 1][0])] * widths.parameter if i or wasted else 0
        sent, received = padded[id(part)] * widths.gradient, share_of(degrees, part) * widths.gradient
        beginning, during, ending = running + whole + piece, running + whole + preceding, preceding + sent + max(whole, received)
        left = own - (listed[i - 1][0].cost.released if i else 0) + cost.input_bytes
        backward = max(backward, Need(own + peaks.start + beginning, own, beginning), Need(own + peaks.kept + during, own, during),
                       Need(left + ending, left, ending))  # fmt: skip
        running = sent + received
    return forward, backward
