"""The stages of a pipeline: how blocks are divided among them, and what each costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from metatensor.plan.needs import elements_of
from metatensor.plan.times import Timed

__all__ = ["Stage", "split"]


class Stage:
    """Consecutive parts of a model, with the sums of their costs.

    Parameters
    ----------
    parts : sequence of Timed
        The parts, in order.
    received : int
        Bytes that the stage receives for a micro-batch, 0 for the first stage.
    kinds : list of int
        The kinds of its blocks.
    split : bool
        Whether gradients of parameters are computed later than those of inputs.

    Attributes
    ----------
    counted : list of tuple
        The different parts, and how often each occurs.
    runs : list of tuple
        The parts in order, and how often each is repeated.
    forward, backward, input_backward, weight_backward : float
        Seconds of the passes for a micro-batch, with communication that nothing hides. ``input_backward`` computes the gradient of what
        the stage receives, ``weight_backward`` those of parameters after it.
    plain_forward, plain_backward : float
        Seconds of the passes without communication.
    elements, expert_elements, frozen : int
        Elements of parameters on a rank: those that all replicas have, those of experts, and those that are not trained.
    largest : int
        Greatest number of elements of parameters in a part.
    saved : int
        Bytes that are kept for a micro-batch until its backward pass.
    """

    def __init__(self, parts: Sequence[Timed], received: int, kinds: list[int], split: bool = False) -> None:
        self.parts, self.received, self.kinds = list(parts), received, kinds
        self.counted = counted = _counts(parts)
        self.runs = [(run[0], len(run)) for _, members in groupby(parts, id) if (run := list(members))]
        self.forward = sum((part.forward + part.forward_communication) * n for part, n in counted)
        self.input_backward = sum(part.input_backward * n for part, n in counted)
        self.weight_backward = sum(part.weight_backward * n for part, n in counted)
        self.plain_forward = sum(part.forward * n for part, n in counted)
        if split:
            self.backward = self.input_backward + self.weight_backward
            self.plain_backward = sum(part.split_backward * n for part, n in counted)
        else:
            self.backward = sum((part.backward + part.backward_communication) * n for part, n in counted)
            self.plain_backward = sum(part.backward * n for part, n in counted)
        self.elements = sum((part.cost.parameters + part.cost.tied) * n for part, n in counted)
        self.expert_elements = sum(part.cost.expert_parameters * n for part, n in counted)
        self.frozen = sum(part.cost.frozen * n for part, n in counted)
        self.largest = max(elements_of(part) for part, _ in counted)
        self.saved = sum(part.cost.saved * n for part, n in counted) + received
        self.largest_saved = max(part.cost.saved for part, _ in counted)

    @property
    def computed(self) -> float:
        """Seconds of both passes for a micro-batch without communication."""
        return self.plain_forward + self.plain_backward

    @property
    def work(self) -> float:
        """Seconds of both passes for a micro-batch."""
        return self.forward + self.backward


def _counts(parts: Sequence[Timed]) -> list[tuple[Timed, int]]:
    counts = Counter(map(id, parts))
    return [(part, counts[key]) for key, part in {id(part): part for part in parts}.items()]


def split(times: list[float], before: float, behind: float, stages: int) -> list[tuple[int, int]]:
    """Divide blocks into contiguous, non-empty runs, such that the slowest is as fast as possible.

    The times before and after the blocks are added to those of the first and the last run.
    """

    def runs(longest: float) -> list[tuple[int, int]] | None:
        """Return runs of at most this time, each but the last as long as possible; None if there are none."""
        found, start = [], 0
        for stage in range(stages):
            left = stages - stage - 1
            if not left:
                end = len(times)
                seconds = sum(times[start:]) + behind
            else:
                end, seconds = start, 0.0
                while end < len(times) - left and (end == start or seconds + times[end] <= longest - (0.0 if stage else before)):
                    seconds += times[end]
                    end += 1
            if seconds + (0.0 if stage else before) > longest or end == start:
                return None
            found.append((start, end))
            start = end
        return found

    low, high = 0.0, sum(times) + before + behind
    best = runs(high * (1 + 1e-9))
    assert best is not None
    for _ in range(40):
        middle = (low + high) / 2
        found = runs(middle)
        if found is None:
            low = middle
        else:
            best, high = found, middle
    return best
