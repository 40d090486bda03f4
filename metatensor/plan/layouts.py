"""Layouts: how a training step is divided among devices, and what each costs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from metatensor.plan.rates import Rates

__all__ = ["CATEGORIES", "Degrees", "Layout", "Rejected"]

CATEGORIES = ("parameter", "gradient", "optimizer", "saved", "temporary", "communication")
"""Categories of the memory of a rank."""


@dataclass(frozen=True, order=True)
class Degrees:
    """How a training step is divided. Ranks of tensor parallelism are neighbours, then those of data parallelism; stages are apart."""

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    shard: int = 0
    """What data-parallel ranks divide among them: 0 nothing, 1 the optimizer's state, 2 gradients too, 3 parameters too (FSDP)."""
    sequence: bool = False
    """Whether activations outside of tensor-parallel regions are divided along the sequence among the tensor-parallel ranks."""
    micro_batch: int = 1
    """Samples that a rank processes together."""
    recompute: str = "none"
    """What the backward pass computes again in each block: ``"none"``, ``"selective"`` or ``"full"``."""

    @property
    def devices(self) -> int:
        """Number of devices."""
        return self.data * self.tensor * self.pipeline

    def __str__(self) -> str:
        parts = [f"{name} {n}" for name, n in (("data", self.data), ("tensor", self.tensor), ("pipeline", self.pipeline)) if n > 1]
        if self.sequence:
            parts.append("sequence")
        if self.shard:
            parts.append(f"shard {self.shard}")
        parts.append(f"micro-batch {self.micro_batch}")
        if self.recompute != "none":
            parts.append(f"recompute {self.recompute}")
        return ", ".join(parts)


@dataclass
class Layout:
    """A layout that was costed, in bytes and seconds."""

    degrees: Degrees
    micro_batches: int
    """Micro-batches of a step."""
    stages: list[list[int]]
    """The kinds of the blocks of each pipeline stage."""
    memory: list[dict[str, int]]
    """Peak memory of a rank by category, for each stage."""
    compute: float
    """Seconds in which the slowest stage computes."""
    tensor_communication: float
    """Seconds of its tensor-parallel collectives, which nothing hides."""
    data_communication: float
    """Seconds of collectives of parameters and gradients that computation does not hide."""
    hidden_communication: float
    """Seconds of those that it hides."""
    pipeline_communication: float
    """Seconds of messages between stages."""
    bubble: float
    """Seconds in which the slowest stage waits for others."""
    optimizer: float
    """Seconds of the optimizer."""
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

    @property
    def seconds(self) -> float:
        """Seconds of a step."""
        return (self.compute + self.tensor_communication + self.data_communication + self.pipeline_communication + self.bubble
                + self.optimizer)  # fmt: skip

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
                "pipeline communication": self.pipeline_communication, "bubble": self.bubble, "optimizer": self.optimizer}  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as JSON types."""
        return {
            "degrees": dict(vars(self.degrees)), "micro_batches": self.micro_batches, "blocks_by_stage": [len(s) for s in self.stages],
            "step_time_s": self.seconds, "samples_per_second": self.samples_per_second,
            "tokens_per_second": self.tokens_per_second, "mfu": self.mfu,
            "time_s": {name.replace(" ", "_"): value for name, value in self.parts().items()},
            "hidden_communication_s": self.hidden_communication, "memory_bytes": self.memory, "peak_bytes": self.peak,
            **self.rates.figures(self.seconds, self.degrees.devices, {"sample": self.samples, "token": self.tokens}),
        }  # fmt: skip


@dataclass
class Rejected:
    """A layout that was left out."""

    degrees: Degrees
    limit: str
    """The limit that it breaks."""
    by: int | None = None
    """By how much, in bytes for memory. None if the limit has no amount."""
    layout: Layout | None = field(default=None, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as JSON types."""
        return {"degrees": dict(vars(self.degrees)), "limit": self.limit, "by": self.by}
