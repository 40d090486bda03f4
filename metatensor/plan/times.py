"""The times of a layout: of its parts, of communication, and of the optimizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from metatensor.analysis.collectives import collective_time
from metatensor.analysis.timing import predict
from metatensor.devices.topologies import Topology
from metatensor.plan.costs import PartCost, Split, Work
from metatensor.plan.layouts import Degrees
from metatensor.plan.memory import Widths
from metatensor.plan.needs import pieces_of, reductions_of, tied_of

if TYPE_CHECKING:
    from metatensor.plan.stages import Stage

__all__ = ["Impossible", "Passes", "StepTimes", "Timed"]


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
    input_backward: float = 0.0
    """The gradient of what the part receives, with communication, if those of parameters are computed later. Only known where a schedule
    needs it."""
    weight_backward: float = 0.0
    """The gradients of its parameters after that, with communication."""
    split_backward: float = 0.0
    """Both without communication."""

    @property
    def seconds(self) -> float:
        """Seconds of both passes with communication."""
        return self.forward + self.backward + self.forward_communication + self.backward_communication


class Passes(NamedTuple):
    """Seconds that sharding and offload add to a stage."""

    forward: float = 0.0
    """Exposed communication of parameters in the forward pass of a micro-batch."""
    backward: float = 0.0
    """Exposed communication of parameters and gradients in its backward pass."""
    hidden: float = 0.0
    """Communication of both passes of a micro-batch that computation hides."""
    once_forward: float = 0.0
    """Communication once in a step, before or during the first forward pass."""
    once_backward: float = 0.0
    """Communication once in a step, during or after the last backward pass."""
    offload_forward: float = 0.0
    """Exposed transfers to the host in the forward pass of a micro-batch."""
    offload_backward: float = 0.0
    """Exposed transfers from the host in its backward pass."""
    reduction: float = 0.0
    """Sums of partial gradients of tensor parallelism in its backward pass."""
    once_reduction: float = 0.0
    """The same once in a step."""


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
        """Return the times of a part. Tensor-parallel ranks have consecutive numbers; other groups are listed in `PartCost`."""
        times = [self._computed(work) for work in (cost.forward, cost.backward)]
        talked = [self._talk(work, tensor) for work in (cost.forward, cost.backward)]
        return Timed(cost, times[0], times[1], talked[0], talked[1])

    def split(self, part: Timed, split: Split | None, tensor: int) -> None:
        """Set the times of a part's backward pass in two parts. Without ``split``, gradients of parameters take all of it."""
        part.cost.split = split
        if split is None:
            part.weight_backward, part.split_backward = part.backward + part.backward_communication, part.backward
            return
        computed = [self._computed(work) for work in (split.of_inputs, split.of_weights)]
        part.input_backward = computed[0] + self._talk(split.of_inputs, tensor)
        part.weight_backward = computed[1] + self._talk(split.of_weights, tensor)
        part.split_backward = sum(computed)

    def _computed(self, work: Work) -> float:
        """Return the seconds of the operators of a pass."""
        timing = predict(work.calls, self.topology.device)
        if work.calls and timing.seconds is None:
            raise Impossible(f"the profile of {self.topology.device.name} lacks {next(iter(timing.unknown))}")
        return timing.seconds or 0.0

    def _talk(self, work: Work, tensor: int) -> float:
        """Return the seconds of collectives of tensor-parallel ranks and of other groups. Receiving takes no time besides the sending."""
        seconds = sum(self.collective(kind, nbytes, tensor, 1) for kind, nbytes in work.communication)
        for kind, nbytes, group in work.groups:
            if kind != "recv":
                key = kind, nbytes, group
                if key not in self._collectives:
                    ranks = group[:2] if kind == "send" else group
                    self._collectives[key] = collective_time(kind, nbytes, ranks, self.topology).seconds
                seconds += self._collectives[key]
        return seconds

    def collective(self, kind: str, nbytes: int, ranks: int, stride: int) -> float:
        """Return the seconds of a collective of ranks that are ``stride`` apart."""
        if ranks == 1 or not nbytes:
            return 0.0
        key = kind, nbytes, ranks, stride
        if key not in self._collectives:
            self._collectives[key] = collective_time(kind, nbytes, range(0, ranks * stride, stride), self.topology).seconds
        return self._collectives[key]

    def message(self, nbytes: int, start: int, end: int) -> float:
        """Return the seconds of a message from one rank to another."""
        key = "send", nbytes, start, end
        if key not in self._collectives:
            self._collectives[key] = collective_time("send", nbytes, (start, end), self.topology).seconds
        return self._collectives[key]

    def parameters(self, kind: str, part: Timed, itemsize: int, degrees: Degrees, staying: bool = True) -> float:
        """Return the seconds of collectives of the parameters of a part, or of their gradients, among the ranks that hold them.

        Without ``staying``, those that stay gathered are left out.
        """
        return sum(self.collective(kind, piece.elements * itemsize, piece.ranks, piece.stride)
                   for piece in pieces_of(degrees, part) if staying or not piece.stays)  # fmt: skip

    def tied(self, degrees: Degrees, part: Timed, ranks: int) -> float:
        """Return the seconds in which two stages, ``ranks`` places apart in the pipeline, sum the gradients of tied parameters."""
        nbytes = tied_of(degrees, part) * self.widths.gradient
        return self.collective("all_reduce", nbytes, 2, ranks * degrees.tensor * degrees.replicas) if ranks else 0.0

    def passes(self, degrees: Degrees, stage: Stage, last: bool) -> Passes:
        """Return what sharding and offload add to a stage. ``last`` says whether its backward pass follows its forward pass at once."""
        sums = sum(self.collective(kind, nbytes, degrees.tensor, 1) * n for part, n in stage.counted
                   for kind, nbytes in reductions_of(degrees, self.widths, part))  # fmt: skip
        found = self._sharding(degrees, stage, last)
        return found._replace(reduction=sums) if degrees.shard >= 2 else found._replace(once_reduction=sums)

    def _sharding(self, degrees: Degrees, stage: Stage, last: bool) -> Passes:
        sent, loaded = self._offload(degrees, stage)
        if degrees.replicas == 1:
            return Passes(offload_forward=sent, offload_backward=loaded)
        widths, parts = self.widths, stage.parts

        def times(kind: str, itemsize: int) -> dict[int, float]:
            return {id(part): self.parameters(kind, part, itemsize, degrees) for part, _ in stage.counted}

        def total(kind: str, itemsize: int) -> float:
            found = times(kind, itemsize)
            return sum(found[id(part)] * n for part, n in stage.counted)

        if degrees.shard == 0:
            return Passes(once_backward=total("all_reduce", widths.gradient), offload_forward=sent, offload_backward=loaded)
        if degrees.shard == 3:
            gathered, scattered = times("all_gather", widths.parameter), times("reduce_scatter", widths.gradient)
            gathers, scatters = [gathered[id(part)] for part in parts], [scattered[id(part)] for part in parts]
            again = [self.parameters("all_gather", part, widths.parameter, degrees, False) for part in parts[:1]] + gathers[1:]
            forward, backward = gathers[0], scatters[0]  # nothing runs before the first gather and after the last reduction
            if not last:
                backward += gathers[-1]  # else the last part is still whole
            hidden = 0.0
            for i, part in enumerate(parts):
                following = gathers[i + 1] if i + 1 < len(parts) else 0.0
                preceding = (again[i - 1] if i else 0.0) + (scatters[i + 1] if i + 1 < len(parts) else 0.0)
                forward += max(0.0, following - part.forward)
                backward += max(0.0, preceding - part.backward)
                hidden += min(following, part.forward) + min(preceding, part.backward)
            return Passes(forward, backward, hidden, offload_forward=sent, offload_backward=loaded)
        gather, scatter = total("all_gather", widths.parameter), total("reduce_scatter", widths.gradient)
        if degrees.shard == 1:
            return Passes(once_forward=gather, once_backward=scatter, offload_forward=sent, offload_backward=loaded)
        computed = stage.plain_backward
        return Passes(0.0, max(0.0, scatter - computed), min(scatter, computed), once_forward=gather, offload_forward=sent,
                      offload_backward=loaded)  # fmt: skip

    def _offload(self, degrees: Degrees, stage: Stage) -> tuple[float, float]:
        """Return the seconds of transfers of activations that the passes of a micro-batch do not hide."""
        if not degrees.offloads("activations"):
            return 0.0, 0.0
        seconds = stage.saved / self.host_bandwidth
        return max(0.0, seconds - stage.forward), max(0.0, seconds - stage.backward)

    @property
    def host_bandwidth(self) -> float:
        """Bytes per second to the host, and at the same time from it."""
        link = self.topology.device.link("host")
        if link is None or link.bandwidth is None:
            raise Impossible(f"the profile of {self.topology.device.name} lacks the bandwidth of the link to the host")
        return link.bandwidth

    def offloaded_optimizer(self, degrees: Degrees, elements: float) -> float:
        """Return the seconds of transfers of the states of ``elements`` elements that the optimizer does not hide."""
        if not degrees.offloads("optimizer"):
            return 0.0
        moved = self.widths.state + (self.widths.master if degrees.shard < 3 else 0)
        return max(0.0, elements * moved / self.host_bandwidth - self.optimizer(elements))

    def optimizer(self, elements: float) -> float:
        """Return the seconds of a fused update: each value is read once, and written once except the gradient."""
        profile, widths = self.topology.device, self.widths
        if profile.memory_bandwidth is None:
            raise Impossible(f"the profile of {profile.name} lacks the bandwidth of the memory")
        own = widths.master or widths.parameter
        nbytes = widths.gradient + 2 * own + 2 * widths.state + (widths.parameter if widths.master else 0)
        return elements * nbytes / (profile.memory_bandwidth * profile.efficiency.get("elementwise", 0.8))
