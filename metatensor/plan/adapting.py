"""What a step of LoRA training needs, module by module, for placing the parts of a model."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.analysis.adapters import adapted
from metatensor.analysis.calls import Call, CallRecorder
from metatensor.analysis.profiling import profile
from metatensor.analysis.recomputation import recomputed
from metatensor.analysis.training import mean_loss
from metatensor.nn.modules.module import Module
from metatensor.plan.decoding import Arguments, token_ids
from metatensor.plan.weights import StoredWeights, state_bytes
from metatensor.plan.worlds import mode

__all__ = ["lora_step"]

SAVED = "saved for backward"
OTHERS = ("temporary", "output", "gradient")


class LoraStep:
    """What a step of LoRA training needs.

    Attributes
    ----------
    kept : dict of str to int
        Bytes by module path that are needed where the module runs: adapters, their gradients and optimizer states, and what is saved
        for backward.
    working : int
        Peak bytes of everything else that a step creates.
    calls : list of Call
        The calls of forward and backward.
    """

    def __init__(self, kept: dict[str, int], working: int, calls: list[Call]) -> None:
        self.kept, self.working, self.calls = kept, working, calls


def lora_step(
    model: Module, stored: StoredWeights, arguments: Arguments | None, batch: int, context: int, lora: str | int, loss: Any, optimizer: Any,
    recompute: str,
) -> LoraStep:  # fmt: skip
    """Run a training step with adapters on meta, on ``batch`` sequences of ``context`` tokens, and return what it needs.

    The optimizer's own temporary memory is left out; a fused kernel has none.
    """
    args, kwargs = (arguments or token_ids)(batch, context)
    compute = loss or mean_loss
    with mt.device("meta"), mt.enable_grad(), mode(model, True), adapted(model, lora), recomputed(model, recompute):
        trained = {path: [p for p in module.parameters(recurse=False) if p.requires_grad] for path, module in model.named_modules()}

        def step() -> None:
            compute(model(*args, **kwargs)).backward()
            for parameters in trained.values():
                for p in parameters:
                    p.grad = None

        found = profile(step)
        with CallRecorder(model) as recorder:
            value = compute(model(*args, **kwargs))
            recorder.phase = "backward"
            value.backward()
        del value
        kept = {path: sum(_state(p, optimizer) for p in parameters) for path, parameters in trained.items() if parameters}
    saved = 0
    for record in found.storages:
        if record.category == SAVED:
            saved += record.nbytes
            kept[record.module] = kept.get(record.module, 0) + record.nbytes
    timeline: Any = found.timeline("category")
    others = max((sum(by.get(name, 0) for name in OTHERS) for _, by in timeline), default=0)
    return LoraStep(kept, others, stored.charged(recorder.calls))


def _state(p: Any, optimizer: Any) -> int:
    """Return the bytes of a trained parameter, its gradient and the optimizer's state."""
    return int(p.numel() * (2 * p.element_size() + state_bytes(optimizer, p.dtype)))
