"""The times of a layout: of its parts, of communication, and of the optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from metatensor.analysis.collectives import collective_time
from metatensor.analysis.timing import predict
from metatensor.devices.topologies import Topology
from metatensor.plan.layouts import Degrees
from metatensor.plan.measuring import PartCost
from metatensor.plan.memory import Widths

__all__ = ["Impossible", "StepTimes", "Timed"]


class Impossible(ValueError):
    """A layout that cannot be costed. The message says why."""


@dataclass
class Timed:
    """The cost of a part with its times, in seconds."""

    cost: PartCost
    forward: float
    backward: float
    forward_communication: float
    backward_communication: float
    reduction: float
    """Of gradients, once in a step."""

    @property
    def seconds(self) -> float:
        """Seconds of both passes with communication."""
        return self.forward + self.backward + self.forward_communication + self.backward_communication


class StepTimes:
    """Times on a topology.

    Parameters
    ----------
    topology : Topology
        The devices.
    widths : Widths
        Bytes for each element of a parameter.
    """

    def __init__(self, topology: Topology, widths: Widths) -> None:
        self.topology, self.widths = topology, widths
        self._collectives: dict[Any, float] = {}

    def part(self, cost: PartCost, tensor: int) -> Timed:
        """Return the times of a part on so many tensor-parallel ranks."""
        profile = self.topology.device
        times = []
        for calls in (cost.forward, cost.backward):
            timing = predict(calls, profile)
            seconds = timing.seconds if calls else 0.0
            if seconds is None:
                raise Impossible(f"the profile of {profile.name} lacks {next(iter(timing.unknown))}")
            times.append(seconds)
        talked = [sum(self.collective(kind, nbytes, tensor, 1) for kind, nbytes in pairs)
                  for pairs in (cost.forward_communication, cost.backward_communication)]  # fmt: skip
        return Timed(cost, times[0], times[1], talked[0], talked[1], self.collective("all_reduce", cost.reduced, tensor, 1))

    def collective(self, kind: str, nbytes: int, ranks: int, stride: int) -> float:
        """Return the seconds of a collective of ranks that are ``stride`` apart."""
        if ranks == 1 or not nbytes:
            return 0.0
        key = kind, nbytes, ranks, stride
        if key not in self._collectives:
            self._collectives[key] = collective_time(kind, nbytes, range(0, ranks * stride, stride), self.topology).seconds
        return self._collectives[key]

    def message(self, nbytes: int, distance: int) -> float:
        """Return the seconds of a message to a rank that is ``distance`` away."""
        key = "send", nbytes, distance
        if key not in self._collectives:
            self._collectives[key] = collective_time("send", nbytes, (0, distance), self.topology).seconds
        return self._collectives[key]

    def data(self, degrees: Degrees, parts: Sequence[Timed], ends: Sequence[Timed], micro_batches: int) -> tuple[float, float]:
        """Return the seconds of data-parallel collectives that computation does not hide, and of those that it hides."""
        n, stride, widths = degrees.data, degrees.tensor, self.widths
        if n == 1:
            return 0.0, 0.0
        exposed = hidden = 0.0
        every = [*ends[:1], *parts, *ends[1:]]

        def seconds(kind: str, part: Timed, itemsize: int) -> float:
            return self.collective(kind, part.cost.parameters * itemsize, n, stride)

        def overlap(talk: float, work: float) -> None:
            nonlocal exposed, hidden
            exposed, hidden = exposed + max(0.0, talk - work), hidden + min(talk, work)

        if degrees.shard == 3:
            gathers = [seconds("all_gather", part, widths.parameter) for part in every]
            scatters = [seconds("reduce_scatter", part, widths.gradient) for part in every]
            exposed += micro_batches * (gathers[0] + scatters[0])  # the first gather, and the last reduction
            for i, part in enumerate(every):
                following = gathers[i + 1] if i + 1 < len(every) else 0.0
                preceding = (gathers[i - 1] if i else 0.0) + (scatters[i + 1] if i + 1 < len(every) else 0.0)
                overlap(following * micro_batches, part.forward * micro_batches)
                overlap(preceding * micro_batches, part.backward * micro_batches)
            return exposed, hidden
        if degrees.shard == 0:
            overlap(sum(seconds("all_reduce", part, widths.gradient) for part in every), sum(part.backward for part in every))
            return exposed, hidden
        times = micro_batches if degrees.shard == 2 else 1
        scattered = sum(seconds("reduce_scatter", part, widths.gradient) for part in every)
        overlap(times * scattered, times * sum(part.backward for part in every))
        overlap(sum(seconds("all_gather", part, widths.parameter) for part in every), sum(part.forward for part in every))
        return exposed, hidden

    def optimizer(self, elements: float) -> float:
        """Return the seconds of a fused update: each value is read once, and written once except the gradient."""
        profile, widths = self.topology.device, self.widths
        if profile.memory_bandwidth is None:
            raise Impossible(f"the profile of {profile.name} lacks the bandwidth of the memory")
        own = widths.master or widths.parameter
        nbytes = widths.gradient + 2 * own + 2 * widths.state + (widths.parameter if widths.master else 0)
        return elements * nbytes / (profile.memory_bandwidth * profile.efficiency.get("elementwise", 0.8))
