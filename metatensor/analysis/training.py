"""`estimate_training`: run one training step on meta and report what it costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import metatensor as mt
from metatensor._core.memory import MemoryTracker
from metatensor._core.nested import tensors_in
from metatensor._core.units import bytes_text, count_text
from metatensor.analysis.estimate import has_lazy, input_bytes
from metatensor.analysis.inventory import Inventory
from metatensor.analysis.observation import RunObserver
from metatensor.analysis.report import EXCLUDED

__all__ = ["TrainingReport", "estimate_training"]


@dataclass
class TrainingReport:
    """The cost of one training step, in bytes and floating-point operations. ``str()`` gives a table."""

    parameter_bytes: int
    buffer_bytes: int
    input_bytes: int
    forward_peak: int
    """The most memory of tensors that the forward pass and the loss created."""
    saved_bytes: int
    """What is left of it for the backward pass, and the loss."""
    backward_peak: int
    """The most memory of tensors created by the forward and backward passes, during the latter: saved ones and gradients."""
    gradient_bytes: int
    """What is left after the backward pass."""
    optimizer_bytes: int
    """The state of the optimizer."""
    step_peak: int
    """The most memory of temporary tensors during the optimizer's step."""
    forward_flops: int
    backward_flops: int
    without_gradient: list[str] = field(default_factory=list)
    """Parameters that require grad and got none."""

    @property
    def flops(self) -> int:
        """Floating-point operations of the forward and backward passes."""
        return self.forward_flops + self.backward_flops

    @property
    def fixed_bytes(self) -> int:
        """Memory that is needed all the time after the first step: parameters, buffers, inputs and the optimizer's state."""
        return self.parameter_bytes + self.buffer_bytes + self.input_bytes + self.optimizer_bytes

    @property
    def total_bytes(self) -> int:
        """Memory of a step after the first one, at its peak."""
        return self.fixed_bytes + max(self.forward_peak, self.backward_peak, self.gradient_bytes + self.step_peak)

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as JSON types."""
        return {**vars(self), "flops": self.flops, "total_bytes": self.total_bytes, "excluded": list(EXCLUDED)}

    def __str__(self) -> str:
        rows = [("parameters", self.parameter_bytes), ("buffers", self.buffer_bytes), ("inputs", self.input_bytes),
                ("optimizer state", self.optimizer_bytes), ("forward, at its peak", self.forward_peak),
                ("saved for backward", self.saved_bytes), ("backward, at its peak", self.backward_peak),
                ("gradients", self.gradient_bytes), ("optimizer, temporary", self.step_peak), ("total", self.total_bytes)]  # fmt: skip
        lines = [f"{name:<24}{bytes_text(size):>12}" for name, size in rows]
        lines += [f"{f'FLOPs, {name}':<24}{count_text(count):>12}"
                  for name, count in (("forward", self.forward_flops), ("backward", self.backward_flops))]  # fmt: skip
        return "\n".join([*lines, f"not included: {', '.join(EXCLUDED)}"])


def estimate_training(
    model: Any, /, *inputs: Any, loss: Callable[[Any], Any] | None = None, optimizer: Callable[[Any], Any] | None = None, **kwargs: Any
) -> TrainingReport:
    """Run one training step of a model on meta, ``model(*inputs, **kwargs)``, backward and the optimizer, and report its cost.

    All figures are read off the run: nothing is computed from the model's size. The model, which must be on meta, is left
    as it was.

    Parameters
    ----------
    model : nn.Module
        The model. It runs in its current mode; call ``model.train()`` first.
    *inputs, **kwargs
        Arguments of the model, on meta.
    loss : callable, optional
        Function of the output that returns the loss, one number. Default: the sum of the means of all floating-point tensors
        in the output.
    optimizer : callable, optional
        Function of the list of parameters that returns an optimizer. Default: `metatensor.optim.AdamW`.

    Returns
    -------
    TrainingReport
        The figures.

    Raises
    ------
    ValueError
        If a parameter or buffer is not on meta, or no parameter requires grad.
    RuntimeError
        If the loss does not require grad.

    Examples
    --------
    >>> import metatensor as mt
    >>> with mt.device("meta"):
    ...     model = mt.nn.Sequential(mt.nn.Linear(512, 2048), mt.nn.GELU(), mt.nn.Linear(2048, 512))
    >>> report = mt.analysis.estimate_training(model, mt.empty(8, 512, device="meta"))
    >>> report.gradient_bytes == report.parameter_bytes, report.optimizer_bytes // report.parameter_bytes
    (True, 2)
    >>> report.forward_flops, report.backward_flops
    (33554432, 50331648)
    """
    if has_lazy(model):
        with mt.no_grad(), mt.device("meta"):
            model(*inputs, **kwargs)
    named = dict(model.named_parameters())
    for name, tensor in [*named.items(), *model.named_buffers()]:
        if not tensor.is_meta:
            raise ValueError(f"estimate_training: {name} is on {tensor.device}; the step would change it. Use a copy on meta")
    wanted = {name: p for name, p in named.items() if p.requires_grad}
    if not wanted:
        raise ValueError("estimate_training: no parameter requires grad")
    before = {name: p.grad for name, p in named.items()}
    inventory = Inventory(model)
    with mt.device("meta"), mt.enable_grad():
        try:
            _clear(named)
            figures = _memory(model, inputs, kwargs, loss or _mean, optimizer or mt.optim.AdamW, wanted)
            _clear(named)
            flops = _flops(model, inputs, kwargs, loss or _mean, inventory)
        finally:
            for name, p in named.items():
                p.grad = before[name]
    row = inventory.rows[0]
    return TrainingReport(
        parameter_bytes=row.parameter_bytes, buffer_bytes=row.buffer_bytes, input_bytes=input_bytes(inputs, kwargs),
        forward_flops=flops[0], backward_flops=flops[1], **figures,
    )  # fmt: skip


def _memory(model: Any, inputs: tuple, kwargs: dict[str, Any], loss_of: Any, make: Any, wanted: dict[str, Any]) -> dict[str, Any]:
    """Run a step, and return its figures in bytes."""
    with MemoryTracker() as memory:
        loss = loss_of(model(*inputs, **kwargs))
        figures: dict[str, Any] = {"forward_peak": memory.peak, "saved_bytes": memory.current}
        memory.reset_peak()
        loss.backward()
        del loss
        figures |= {"backward_peak": memory.peak, "gradient_bytes": memory.current}
    given = [p for p in wanted.values() if p.grad is not None]
    figures["without_gradient"] = [name for name, p in wanted.items() if p.grad is None]
    optimizer = make(given)
    with MemoryTracker() as memory:
        optimizer.step()
        figures["optimizer_bytes"] = memory.current
        figures["step_peak"] = memory.peak - memory.current
    return figures


def _flops(model: Any, inputs: tuple, kwargs: dict[str, Any], loss_of: Any, inventory: Inventory) -> tuple[int, int]:
    """Return the operations of the forward and of the backward pass."""
    observer = RunObserver(inventory)
    with observer:
        loss = loss_of(model(*inputs, **kwargs))
        forward = sum(observer.flops_by_op.values())
        loss.backward()
    return forward, sum(observer.flops_by_op.values()) - forward


def _clear(named: dict[str, Any]) -> None:
    for p in named.values():
        p.grad = None


def _mean(output: Any) -> Any:
    """Return the sum of the means of the tensors that require grad, each once."""
    total = None
    for t in _once(output):
        one = t.float().mean()
        total = one if total is None else total + one
    if total is None:
        raise RuntimeError("estimate_training: nothing in the output requires grad; pass loss=")
    return total


def _once(output: Any) -> Iterator[Any]:
    seen = set()
    for t in tensors_in(output):
        if t.requires_grad and t.is_floating_point() and id(t) not in seen:
            seen.add(id(t))
            yield t
