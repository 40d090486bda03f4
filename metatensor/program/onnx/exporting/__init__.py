"""Export of programs to ONNX models. `export` is what `Program.to_onnx` does."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from metatensor.program.onnx.exporting.errors import ExportError, Unsupported

if TYPE_CHECKING:
    from metatensor.program.program import Program

__all__ = ["DEFAULT_OPSET", "LEAST_OPSET", "ExportError", "Unsupported", "export", "model_of"]

DEFAULT_OPSET = 21
LEAST_OPSET = 18
"""From this version on, reductions take their dimensions as an input."""


def required() -> Any:
    """Return the ``onnx`` package. Raise `ImportError` that names the extra if it is missing."""
    try:
        return importlib.import_module("onnx")
    except ImportError as error:
        raise ImportError("ONNX models need the onnx package: pip install metatensor-device[onnx]") from error


def model_of(program: Program, **options: Any) -> Any:
    """Return the ONNX model of a program, an ``onnx.ModelProto``. The options are those of `Program.to_onnx`."""
    required()
    from metatensor.program.onnx.exporting.model import build

    return build(program, **options)


def export(
    program: Program, f: Any, *, opset: int = DEFAULT_OPSET, external_data: bool | None = None, **options: Any
) -> None:
    """Write the ONNX model of a program to a file. See `Program.to_onnx`."""
    required()
    from metatensor.program.onnx.exporting.model import build
    from metatensor.program.onnx.exporting.writing import write

    write(build(program, opset=opset, data=False, **options), f, external_data)
