"""Programs: what a callable does, as a list of operator calls.

`trace` runs a callable once and returns a `Program`, which runs without the callable, on any device, with other
parameters, and can be printed, saved, compared and transformed. `fx` has the interface of ``torch.fx``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from metatensor._core.lazy import attributes
from metatensor.program.comparing import diff, equal
from metatensor.program.passes import (
    Parts,
    chain,
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
from metatensor.program.running import as_traced
from metatensor.program.saving import load
from metatensor.program.tickets import Tickets
from metatensor.program.tracing import trace

if TYPE_CHECKING:
    from metatensor.program.onnx import OnnxModel, from_onnx

# Loaded on first access: most importers do not need them.
__getattr__, __dir__ = attributes(
    __name__, ("fx", "torch_export", "torchscript"),
    {name: f"{__name__}.onnx:{name}" for name in ("OnnxModel", "from_onnx")},
)  # fmt: skip

__all__ = [
    "OnnxModel", "Parts", "Program", "Tickets", "as_traced", "chain", "change_dtype", "common_subexpressions", "constant_folding",
    "dead_code", "decompose", "diff", "equal", "from_onnx", "functionalize", "fuse_batch_norm", "load", "split", "trace",
    "views_and_copies",
]
