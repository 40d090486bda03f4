"""Programs: what a callable does, as a list of operator calls.

`trace` runs a callable once and returns a `Program`, which runs without the callable, on any device, with other
parameters, and can be printed, saved, compared and transformed. `fx` has the interface of ``torch.fx``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metatensor.program.comparing import diff, equal
from metatensor.program.passes import (
    Parts,
    change_dtype,
    common_subexpressions,
    constant_folding,
    dead_code,
    decompose,
    functionalize,
    fuse_batch_norm,
    split,
    views_and_copies,
)
from metatensor.program.program import Program
from metatensor.program.saving import load
from metatensor.program.tickets import Tickets
from metatensor.program.tracing import trace

if TYPE_CHECKING:
    from metatensor.program.onnx import OnnxModel, from_onnx

__all__ = [
    "OnnxModel", "Parts", "Program", "Tickets", "change_dtype", "common_subexpressions", "constant_folding", "dead_code", "decompose",
    "diff", "equal", "from_onnx", "functionalize", "fuse_batch_norm", "load", "split", "trace", "views_and_copies",
]


def __getattr__(name: str) -> Any:
    if name not in ("OnnxModel", "from_onnx"):  # they need the readers of checkpoints
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from metatensor.program import onnx

    found = globals()[name] = getattr(onnx, name)
    return found
