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
    """The dtype of floating-point parameters, buffers and inputs. None leaves them as they are."""
    autocast: Any = None
    """The dtype of autocast during the forward pass and the loss, or None."""
    masters: Any = None
    """The dtype of copies of the parameters that the optimizer updates, or None if it updates the parameters themselves."""

    def __str__(self) -> str:
        return self.name

    @contextmanager
    def applied(self, model: Any) -> Iterator[Callable[[Any], Any]]:
        """Give parameters and buffers of ``model``, which is on meta, their dtype inside the block.

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
    )
}
"""The precisions by name. "mixed" is autocast over float32 weights, "master" is half weights with float32 copies."""


def precision_named(name: str | None) -> Precision:
    """Return the precision named `name`. None gives one that changes nothing. Raise ValueError for an unknown name."""
    if name is None:
        return Precision("as the model is")
    if name not in PRECISIONS:
        raise ValueError(f"precision {name!r} is unknown; there are {', '.join(PRECISIONS)}")
    return PRECISIONS[name]
