"""What a part of a model costs on one rank."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from metatensor.analysis.calls import Call
from metatensor.plan.peaks import Peaks

__all__ = ["PartCost", "Split", "Work"]


class Work(NamedTuple):
    """What a rank does in a pass."""

    calls: list[Call]
    communication: list[tuple[str, int]]
    """Kind and bytes of the collectives among the ranks of tensor parallelism."""
    groups: list[tuple[str, int, tuple[int, ...]]]
    """Kind, bytes and ranks of the collectives of other groups, those of context and expert parallelism."""


@dataclass
class Split:
    """A backward pass in two parts: the gradient of the input, and later those of parameters. Bytes are as in `PartCost`."""

    of_inputs: Work
    of_weights: Work
    input_peak: int
    """The peak while the gradient of the input is computed."""
    kept: int
    """What is kept from one part to the other."""
    weight_peaks: Peaks
    """The peaks while gradients of parameters are computed."""


@dataclass
class PartCost:
    """The cost of one micro-batch in a part of a model on one rank, in bytes."""

    parameters: int = 0
    """Elements of its trainable parameters."""
    tied: int = 0
    """Elements of further trainable parameters, which another stage of a pipeline has too."""
    outer: int = 0
    """Elements of those of its trainable parameters that belong to modules that contain blocks. `fully_shard` gathers them apart, and they
    stay gathered until the backward pass."""
    joined: int = 0
    """Elements of another part's parameters that `fully_shard` gathers with these, because the parts have tied parameters. They stay
    gathered until the backward pass. Negative for the other part."""
    expert_parameters: int = 0
    """Elements of its trainable parameters that are those of the rank's own experts."""
    frozen: int = 0
    """Elements of its other parameters and buffers."""
    tensors: int = 0
    """Number of its trainable parameters."""
    saved: int = 0
    """What the forward pass keeps for the backward pass, including the result."""
    released: int = 0
    """Those of the bytes of the result that the backward pass does not need."""
    input_bytes: int = 0
    """The tensor that it gets from the part before."""
    result_bytes: int = 0
    """The tensor that it passes on, or the loss."""
    carried: int = 0
    """Gradients of tied parameters that wait, through the backward pass of the parts before, for those of the first part."""
    passing: int = 0
    """What is freed only after the forward pass of the next part."""
    forward_peak: int = 0
    """Peak of the forward pass, above what is there before it."""
    backward_peaks: Peaks = Peaks()
    """Peaks of the backward pass."""
    split: Split | None = None
    """The backward pass in two parts. Only known where a schedule needs it."""
    forward: Work = field(default_factory=lambda: Work([], [], []))
    backward: Work = field(default_factory=lambda: Work([], [], []))
    reduced: tuple[int, ...] = ()
    """Bytes of gradients that are partial sums of the ranks of tensor parallelism."""
    scattered: tuple[int, ...] = ()
    """The same of parameters that are cut: each rank needs a part of the sum."""
