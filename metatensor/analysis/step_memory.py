"""The memory of a training step alone, for searches over many settings: `estimate_training` without operations and times."""

from __future__ import annotations

from typing import Any, NamedTuple

import metatensor as mt
from metatensor.analysis.estimate import has_lazy, input_bytes
from metatensor.analysis.inventory import Inventory
from metatensor.analysis.precision import precision_named
from metatensor.analysis.recomputation import recomputed
from metatensor.analysis.training import _clear, _maker, _Step, kept_gradients, mean_loss

__all__ = ["StepMemory", "step_memory"]


class StepMemory(NamedTuple):
    """Figures of a training step in bytes. They are those of `TrainingReport` with the same names."""

    model_bytes: int
    """Parameters, buffers and inputs."""
    passes_peak: int
    """Peak memory of tensors that forward and backward create."""
    gradient_bytes: int
    optimizer_bytes: int
    step_peak: int

    @property
    def total_bytes(self) -> int:
        """Peak memory of a step after the first one."""
        return self.model_bytes + self.optimizer_bytes + max(self.passes_peak, self.gradient_bytes + self.step_peak)

    def with_optimizer(self, other: StepMemory) -> StepMemory:
        """Return the figures with the optimizer's memory taken from another step of the same precision."""
        return self._replace(optimizer_bytes=other.optimizer_bytes, step_peak=other.step_peak)


def step_memory(
    model: Any, args: tuple, kwargs: dict[str, Any], loss: Any = None, optimizer: Any = "adamw", precision: str | None = None,
    recompute: str = "none", foreach: bool = False, grad_accumulation: int = 1,
) -> StepMemory:
    """Run a training step of a model on meta once, and return its memory. The arguments are those of `estimate_training`."""
    if has_lazy(model):
        with mt.no_grad(), mt.device("meta"):
            model(*args, **kwargs)
    named = dict(model.named_parameters())
    way = precision_named(precision)
    with mt.device("meta"), mt.enable_grad(), kept_gradients(model), way.applied(model) as converted:
        try:
            _clear(named)
            step = _Step(model, converted((args, kwargs)), loss or mean_loss, _maker(optimizer, foreach), way)
            with recomputed(model, recompute):
                figures, _ = step.memory(named, grad_accumulation)
            row = Inventory(model).rows[0]
            return StepMemory(
                row.parameter_bytes + row.buffer_bytes + input_bytes(step.args, step.kwargs),
                max(figures["forward_peak"], figures["backward_peak"]), figures["gradient_bytes"], figures["optimizer_bytes"],
                figures["step_peak"],
            )  # fmt: skip
        finally:
            _clear(named)
