"""Layouts: how a training step is divided among devices, and what each costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from metatensor.plan.rates import Rates

__all__ = ["CATEGORIES", "OFFLOADS", "Degrees", "Layout", "Rejected"]

CATEGORIES = ("parameter", "gradient", "optimizer", "saved", "temporary", "communication")
"""Categories of the memory of a rank."""


OFFLOADS = ("none", "optimizer", "activations", "optimizer+activations")
"""What the memory of the host can hold."""


@dataclass(frozen=True, order=True)
class Degrees:
    """How a training step is divided.

    The ranks of a tensor-parallel group have consecutive numbers. Numbers are farther apart in context-parallel groups, still farther in
    data-parallel ones, and farthest between stages.
    """

    data: int = 1
    """Copies of the model that process different samples."""
    tensor: int = 1
    """Ranks that divide each block's matrices."""
    pipeline: int = 1
    """Ranks that hold different stages of consecutive blocks."""
    shard: int = 0
    """What data-parallel and context-parallel ranks divide among them: 0 nothing, 1 the optimizer's state, 2 gradients too, 3 parameters
    too (FSDP). In a pipeline, parameters are gathered and gradients summed for each micro-batch."""
    sequence: bool = False
    """Whether activations outside of tensor-parallel regions are divided along the sequence among the tensor-parallel ranks."""
    micro_batch: int = 1
    """Samples that a rank processes together."""
    recompute: str = "none"
    """What the backward pass computes again in each block: ``"none"``, ``"selective"`` or ``"full"``."""
    context: int = 1
    """Ranks that divide each sequence."""
    expert: int = 1
    """Data-parallel and context-parallel ranks that hold different experts."""
    schedule: str = "1F1B"
    """The schedule of the pipeline, by the name that `get_schedule_class` takes."""
    virtual_stages: int = 1
    """Stages of each rank of the pipeline."""
    precision: str = "bf16-master"
    """The precision of the computation."""
    offload: str = "none"
    """What the memory of the host holds: ``"none"``, ``"optimizer"`` (states and master copies), ``"activations"``, or both."""

    @property
    def devices(self) -> int:
        """Number of devices."""
        return self.data * self.tensor * self.pipeline * self.context

    @property
    def replicas(self) -> int:
        """Ranks that have the same parameters before they are sharded."""
        return self.data * self.context

    @property
    def expert_replicas(self) -> int:
        """Ranks that have the same experts."""
        return self.data * self.context // self.expert

    def offloads(self, what: str) -> bool:
        """Return whether the host holds ``"optimizer"`` or ``"activations"``."""
        return what in self.offload

    def __str__(self) -> str:
        parts = [f"{name} {getattr(self, name)}" for name in ("data", "tensor", "context", "expert", "pipeline") if getattr(self, name) > 1]
        if self.pipeline > 1 and (self.schedule, self.virtual_stages) != ("1F1B", 1):
            parts.append(self.schedule + (f" x{self.virtual_stages}" if self.virtual_stages > 1 else ""))
        if self.sequence:
            parts.append("sequence")
        if self.shard:
            parts.append(f"shard {self.shard}")
        parts.append(f"micro-batch {self.micro_batch}")
        if self.recompute != "none":
            parts.append(f"recompute {self.recompute}")
        if self.precision != "bf16-master":
            parts.append(self.precision)
        if self.offload != "none":
            parts.append(f"offload {self.offload}")
        return ", ".join(parts)


@dataclass
class Layout:
    """A layout that was costed, in bytes and seconds."""

    degrees: Degrees
    micro_batches: int
    """Micro-batches of a step."""
    stages: list[list[int]]
    """The kinds of the blocks of each stage, in the order of the model."""
    memory: list[dict[str, int]]
    """Peak memory of a rank by category, for each rank of the pipeline."""
    compute: float
    """Seconds of computation of the rank that finishes last. The other times are of this rank too."""
    tensor_communication: float
    """Seconds of collectives of activations (tensor, context and expert parallelism) that computation does not hide."""
    data_communication: float
    """Seconds of collectives of parameters and gradients that computation does not hide."""
    hidden_communication: float
    """Seconds of collectives of parameters and gradients that computation hides."""
    pipeline_communication: float
    """Seconds for which the rank waits for messages between stages."""
    bubble: float
    """Seconds for which the rank waits for the computation of other stages."""
    optimizer: float
    """Seconds of the optimizer."""
    offload: float
    """Seconds of transfers to the host and back that computation does not hide."""
    samples: int
    """Samples of a step."""
    model_flops: float
    """Operations of a step on all devices, without what is computed again."""
    peak_rate: float | None
    """Operations per second of a device."""
    tokens: int | None = None
    """Tokens of a step. None if the inputs are not token ids."""
    rates: Rates = Rates()
    """Power and price of a device."""
    host: int = 0
    """Bytes that a rank uses in the memory of the host."""

    @property
    def seconds(self) -> float:
        """Seconds of a step."""
        return (self.compute + self.tensor_communication + self.data_communication + self.pipeline_communication + self.bubble
                + self.optimizer + self.offload)  # fmt: skip

    @property
    def peak(self) -> int:
        """Peak memory of the rank that needs most."""
        return max(sum(rank.values()) for rank in self.memory)

    @property
    def samples_per_second(self) -> float:
        """Samples of all devices in a second."""
        return self.samples / self.seconds

    @property
    def mfu(self) -> float | None:
        """Model FLOPs utilization."""
        return self.model_flops / (self.seconds * self.peak_rate * self.degrees.devices) if self.peak_rate else None

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens of all devices in a second. None if the inputs are not token ids."""
        return self.tokens / self.seconds if self.tokens else None

    @property
    def energy(self) -> float | None:
        """Joules of a step on all devices, at most. None if the profile has no power."""
        return self.rates.energy(self.seconds, self.degrees.devices)

    @property
    def price(self) -> float | None:
        """Price of a step on all devices. None if none is known."""
        return self.rates.cost(self.seconds, self.degrees.devices)

    def parts(self) -> dict[str, float]:
        """Return the parts of the time by name."""
        return {"compute": self.compute, "tensor communication": self.tensor_communication, "data communication": self.data_communication,
                "pipeline communication": self.pipeline_communication, "bubble": self.bubble, "optimizer": self.optimizer,
                "offload": self.offload}  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as JSON types."""
        return {
            "degrees": dict(vars(self.degrees)), "micro_batches": self.micro_batches, "blocks_by_stage": [len(s) for s in self.stages],
            "step_time_s": self.seconds, "samples_per_second": self.samples_per_second,
            "tokens_per_second": self.tokens_per_second, "mfu": self.mfu,
            "time_s": {name.replace(" ", "_"): value for name, value in self.parts().items()},
            "hidden_communication_s": self.hidden_communication, "memory_bytes": self.memory, "peak_bytes": self.peak,
            **self.rates.figures(self.seconds, self.degrees.devices, {"sample": self.samples, "token": self.tokens}),
            "host_bytes": self.host,
        }  # fmt: skip


@dataclass
class Rejected:
    """A layout that was left out."""

    degrees: Degrees
    limit: str
    """The limit that it breaks."""
    by: int | None = None
    """By how much, in bytes for memory. None if the limit has no amount."""
    costed: Callable[[], Layout] | None = field(default=None, repr=False)
    """Returns the layout, None if it cannot be costed."""

    @property
    def layout(self) -> Layout | None:
        """All figures of the layout, None if it cannot be costed."""
        return self.costed() if self.costed is not None else None

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as JSON types."""
        return {"degrees": dict(vars(self.degrees)), "limit": self.limit, "by": self.by}
