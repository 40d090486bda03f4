"""The memory of a rank in a layout, put together from the costs of its stages: the highest of the moments of a step."""

from __future__ import annotations

from collections.abc import Sequence
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

from metatensor.plan.layouts import Degrees
from metatensor.plan.moments import HELD, Moment
from metatensor.plan.needs import Need, elements_of, gathered_needs, padded_of, pieces_of, share_of
from metatensor.plan.peaks import Peaks

if TYPE_CHECKING:
    from metatensor.plan.costs import Split
    from metatensor.plan.stages import Stage
    from metatensor.plan.times import Timed

__all__ = ["RankMemory", "StageMemory", "Widths", "shared"]


class Widths(NamedTuple):
    """Bytes of what a step keeps for each element of a parameter."""

    parameter: int
    gradient: int
    state: float
    """The optimizer's state."""
    master: int
    """A copy of the parameter that the optimizer updates, 0 if it updates the parameter itself."""
    tensor_state: int = 0
    """The optimizer's state for each tensor, whatever its size, such as the number of steps."""


def shared(degrees: Degrees, stages: Sequence[Stage], level: int) -> int:
    """Return how many elements a rank keeps of something as large as the parameters that sharding divides from ``level`` on."""
    divided = degrees.shard >= level
    return sum((share_of(degrees, part) if divided else elements_of(part)) * n for stage in stages for part, n in stage.counted)


def _split(part: Timed) -> Split:
    assert part.cost.split is not None
    return part.cost.split


class StageMemory:
    """What a stage needs in a layout, whatever the schedule.

    Parameters
    ----------
    degrees : Degrees
        How the step is divided.
    widths : Widths
        Bytes for each element of a parameter.
    stage : Stage
        The stage.
    first, last : bool
        Whether it is the first stage of the model, or the last one.
    split : bool
        Whether gradients of parameters are computed later than those of inputs.
    wasted : bool
        Whether gathered parameters are wasted, see `wasted_gathers`.
    """

    def __init__(self, degrees: Degrees, widths: Widths, stage: Stage, first: bool, last: bool, split: bool, wasted: bool) -> None:
        parts, costs = stage.counted, [part.cost for part in stage.parts]
        self.stage, self.loss = stage, costs[-1].result_bytes if last else 0
        released = 0 if last else costs[-1].released
        saved = stage.saved - released
        deferred = 0
        if split:
            deferred = saved + costs[-1].result_bytes if first else sum(_split(part).kept * n for part, n in parts)
        self.held = saved, deferred, stage.received, released, costs[-1].result_bytes, stage.received
        """Bytes of what is held of a micro-batch, in the order of `HELD`."""
        self._sums = dict.fromkeys(map(id, stage.parts), 0)
        """Bytes of sums of a part's gradients that exist from the first to the last of them."""
        if degrees.shard == 2:
            for part, _ in parts:
                self._sums[id(part)] = (padded_of(degrees, part) + sum(part.cost.scattered) // widths.parameter) * widths.gradient
        if degrees.shard == 3:
            forward, backward = gathered_needs(degrees, widths, stage, last, self.loss, wasted)
        else:
            forward, backward = self._forward(), self._backward()
        self.needs = [forward, backward, backward, backward]
        """What the passes need, in the order of `CODES`."""
        if split:
            later = [Need(deferred), backward] if first else [self._of_inputs(), self._of_weights()]
            if degrees.shard == 3 and not first:
                later = [self._with_buffers(degrees, widths, need) for need in later]
            self.needs[2:] = later
        self.frozen = stage.frozen * widths.parameter
        self.whole = sum((padded_of(degrees, part) if degrees.shard else elements_of(part)) * n for part, n in parts)
        self.divided = sum(sum(part.cost.scattered) * n for part, n in parts) // widths.parameter if degrees.shard < 2 else 0
        """Elements of gradients of cut parameters that are partial sums."""
        self.vectors = sum((len(pieces_of(degrees, part)) if degrees.shard < 3 else part.cost.tensors) * n for part, n in parts)
        """Tensors that the optimizer updates."""

    def _forward(self) -> Need:
        """Return what the forward pass needs."""
        found, before, passing = Need(), self.stage.received, 0
        for part, n in self.stage.runs:
            found = max(found, Need(before + passing + part.cost.forward_peak, before + passing))
            passing, before = part.cost.passing, before + (n - 1) * part.cost.saved
            found = max(found, Need(before + part.cost.forward_peak, before))
            before += part.cost.saved
        return found

    def _backward(self) -> Need:
        """Return what a backward pass needs."""
        found, before, parts = Need(), self.stage.received, self.stage.parts
        for part, n in self.stage.runs:
            before, loss = before + (n - 1) * part.cost.saved, self.loss if part is not parts[-1] else 0
            carried = parts[-1].cost.carried if part not in (parts[0], parts[-1]) else 0
            found = max(found, self._with_sums(part, part.cost.backward_peaks, before + loss + carried))
            before += part.cost.saved
        return found

    def _with_sums(self, part: Timed, peaks: Peaks, before: int) -> Need:
        """Return what a backward pass over a part needs, with what sums of gradients take."""
        sums = self._sums[id(part)]
        return max(Need(before + max(peaks.before, peaks.after), before), Need(before + peaks.between + sums, before, sums))

    def _with_buffers(self, degrees: Degrees, widths: Widths, need: Need) -> Need:
        """Return at most what a pass needs if parameters are sharded: the largest part is gathered, and one like it reduced."""
        buffers = 0
        for part, _ in self.stage.counted:
            padded = padded_of(degrees, part)
            gathered, reduced = elements_of(part) + padded, padded + share_of(degrees, part)
            buffers = max(buffers, gathered * widths.parameter + reduced * widths.gradient)
        return Need(need.total + buffers, need.saved, need.communication + buffers)

    def _of_inputs(self) -> Need:
        """Return what a pass needs that computes gradients of inputs, if those of parameters are computed later."""
        found, before, later = Need(), self.stage.received, self.held[1]
        for part, n in self.stage.runs:
            cost = part.cost
            for i in {0, n - 1}:
                kept = before + i * cost.saved + later - (i + 1) * _split(part).kept + self.loss
                found = max(found, Need(kept + _split(part).input_peak, kept))
            before, later = before + n * cost.saved, later - n * _split(part).kept
        return found

    def _of_weights(self) -> Need:
        """Return what a pass needs that computes gradients of parameters, after those of inputs."""
        found, before = Need(), 0
        for part, n in self.stage.runs:
            before += (n - 1) * _split(part).kept
            found = max(found, self._with_sums(part, _split(part).weight_peaks, before))
            before += _split(part).kept
        return found


class RankMemory:
    """The memory of a rank in a layout.

    Parameters
    ----------
    degrees : Degrees
        How the step is divided.
    widths : Widths
        Bytes for each element of a parameter.
    stages : sequence of StageMemory
        The stages of the rank.
    """

    def __init__(self, degrees: Degrees, widths: Widths, stages: Sequence[StageMemory]) -> None:
        self._degrees, self._widths, self._own = degrees, widths, [one.stage for one in stages]
        self._needs = [one.needs for one in stages]
        self._held = [nbytes for one in stages for nbytes in one.held]
        self._loss = max(one.loss for one in stages)
        elements, largest = shared(degrees, self._own, 1), max(stage.largest for stage in self._own)
        masters, states = elements * widths.master, elements * widths.state + sum(one.vectors for one in stages) * widths.tensor_state
        whole = sum(one.whole for one in stages)
        if degrees.shard == 3:
            stored, masters = elements * (widths.master or widths.parameter), 0
        else:
            stored = whole * widths.parameter + masters
        if degrees.offloads("optimizer"):  # the states of two parts are on the device: one is updated, one is transferred
            share = elements / whole if whole else 1.0
            moved = widths.state + (widths.master if masters else 0)
            stored, states = stored - masters, min(states + masters, 2 * largest * share * moved)
        gradient = elements if degrees.shard >= 2 else whole + sum(one.divided for one in stages)
        self._constant = int(stored + sum(one.frozen for one in stages)), int(gradient * widths.gradient), int(states)

    def _at(self, moment: Moment) -> int:
        return sum(map(mul, moment.held, self._held)) + self._needs[moment.stage][moment.code].total + moment.losses * self._loss

    def peak(self, moments: Sequence[Moment]) -> int:
        """Return the peak memory in bytes."""
        if self._degrees.offloads("activations"):
            return sum(self.by_category(moments).values())
        return sum(self._constant) + max(map(self._at, moments))

    def by_category(self, moments: Sequence[Moment]) -> dict[str, int]:
        """Return the bytes at the peak by category."""
        parameter, gradient, states = self._constant
        moment = max(moments, key=self._at)
        total, need = self._at(moment), self._needs[moment.stage][moment.code]
        held = [number * nbytes for number, nbytes in zip(moment.held, self._held)]
        saved = need.saved + moment.losses * self._loss + sum(n for i, n in enumerate(held) if i % len(HELD) < 2)
        talk = need.communication + sum(n for i, n in enumerate(held) if i % len(HELD) >= 2)
        temporary = total - saved - talk
        if self._degrees.offloads("activations"):  # the activations of two parts are on the device: one runs, one is transferred
            saved = min(saved, 2 * max(stage.largest_saved for stage in self._own) + max(stage.received for stage in self._own))
        return {"parameter": parameter, "gradient": gradient, "optimizer": states, "saved": saved, "temporary": temporary,
                "communication": talk}  # fmt: skip

    def on_host(self, moments: Sequence[Moment]) -> int:
        """Return the bytes of the rank that are in the memory of the host."""
        found, degrees, widths = 0.0, self._degrees, self._widths
        if degrees.offloads("optimizer"):
            found += shared(degrees, self._own, 1) * (widths.state + (widths.master if degrees.shard < 3 else 0))
        if degrees.offloads("activations"):
            found += max(sum(stage.saved * (moment.held[i * len(HELD)] + (moment.code > 0 and moment.stage == i))
                             for i, stage in enumerate(self._own)) for moment in moments)  # fmt: skip
        return int(found)
