"""Precisions of a training step: the dtypes of weights, activations and the optimizer's copies of the weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import metatensor as mt
from metatensor._core.nested import map_tensors

__all__ = ["PRECISIONS", "Precision", "precision_named"]


@dataclass(frozen=True)
class Precision:
    """The dtypes of a training step. ``str()`` returns the name."""

    name: str
    weights: Any = None
    """The dtype of floating-point parameters, buffers and inputs. None leaves them unchanged."""
    autocast: Any = None
    """The dtype of autocast during the forward pass and the loss, or None."""
    masters: Any = None
    """The dtype of copies of the parameters that the optimizer updates, or None if it updates the parameters themselves."""
    matrices: Any = None
    """The storage dtype of weights of linear layers, each with a float32 scale, except those tied to embeddings.
    None: `weights`."""

    def kept_bytes(self, model: Any, nbytes: int) -> int:
        """Return the bytes of the stored parameters, which have `nbytes` in the run on meta."""
        if self.matrices is None:
            return nbytes
        scale = mt.float32.itemsize
        tables = {m.weight.untyped_storage() for m in model.modules() if isinstance(m, mt.nn.Embedding)}
        weights = [m.weight for m in model.modules() if isinstance(m, mt.nn.Linear) and m.weight.dtype == self.weights]
        matrices = {p.untyped_storage(): p for p in weights if p.untyped_storage() not in tables}
        return nbytes + sum(p.numel() * self.matrices.itemsize + scale - p.untyped_storage().nbytes() for p in matrices.values())

    def __str__(self) -> str:
        return self.name

    @contextmanager
    def applied(self, model: Any) -> Iterator[Callable[[Any], Any]]:
        """Convert parameters and buffers of ``model``, which is on meta, to their dtype inside the block.

        Yields a function that converts the tensors in nested containers in the same way.
        """
        if self.weights is None:
            yield lambda values: values
            return

        def converted(t: Any) -> Any:
            return t.to(self.weights) if t.is_floating_point() else t

        parameters = {p: p.data for p in model.parameters()}
        buffers = [(module, name, b) for module in model.modules() for name, b in module._buffers.items() if b is not None]
        shared = {b: converted(b) for _, _, b in buffers}
        try:
            for p, data in parameters.items():
                p.data = converted(data)
            for module, name, b in buffers:
                module._buffers[name] = shared[b]
            yield lambda values: map_tensors(converted, values)
        finally:
            for p, data in parameters.items():
                p.data = data
            for module, name, b in buffers:
                module._buffers[name] = b

    @contextmanager
    def forward(self) -> Iterator[None]:
        """Return a context manager inside which the forward pass and the loss run."""
        with ExitStack() as stack:
            if self.autocast is not None:
                stack.enter_context(mt.autocast("meta", dtype=self.autocast))
            yield


PRECISIONS = {
    p.name: p
    for p in (
        Precision("fp32", weights=mt.float32),
        Precision("bf16", weights=mt.bfloat16),
        Precision("fp16", weights=mt.float16),
        Precision("bf16-mixed", weights=mt.float32, autocast=mt.bfloat16),
        Precision("fp16-mixed", weights=mt.float32, autocast=mt.float16),
        Precision("bf16-master", weights=mt.bfloat16, masters=mt.float32),
        Precision("fp16-master", weights=mt.float16, masters=mt.float32),
        Precision("fp8-weights", weights=mt.bfloat16, masters=mt.float32, matrices=mt.float8_e4m3fn),
    )
}
"""The precisions by name. "mixed" is autocast over float32 weights, "master" is half weights with float32 copies. "fp8-weights"
keeps weights of linear layers in 8 bits; activations and gradients are bfloat16, and the optimizer keeps float32 copies."""


def precision_named(name: str | None) -> Precision:
    """Return the precision named `name`. None gives one that changes nothing. Raise ValueError for an unknown name."""
    if name is None:
        return Precision("as the model is")
    if name not in PRECISIONS:
        raise ValueError(f"precision {name!r} is unknown; choose from {', '.join(PRECISIONS)}")
    return PRECISIONS[name]
