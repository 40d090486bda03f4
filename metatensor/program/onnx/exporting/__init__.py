"""Export of programs to ONNX models. `export` implements `Program.to_onnx`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metatensor.program.onnx.dtypes import onnx_package
from metatensor.program.onnx.exporting.errors import ExportError, Unsupported

if TYPE_CHECKING:
    from metatensor.program.program import Program

__all__ = ["DEFAULT_OPSET", "LEAST_OPSET", "ExportError", "Unsupported", "export", "model_of"]

DEFAULT_OPSET = 21
LEAST_OPSET = 18
"""From this version on, reductions take their dimensions as an input."""


def model_of(program: Program, **options: Any) -> Any:
    """Return the ONNX model of a program, an ``onnx.ModelProto``.

    Parameters
    ----------
    program : Program
        A program.
    **options
        The options of `Program.to_onnx`, except `external_data`.

    Raises
    ------
    ExportError
        If the program has no ONNX model.
    ValueError
        If the tensors have more than 2 GiB, which a message of Protocol Buffers cannot hold; `Program.to_onnx` writes them to a file.
    """
    onnx_package()
    from metatensor.program.onnx.exporting.model import build

    return build(program, **options)


def export(
    program: Program, f: Any, *, opset: int = DEFAULT_OPSET, external_data: bool | None = None, **options: Any
) -> None:
    """Write the ONNX model of a program to a file. See `Program.to_onnx`."""
    onnx_package()
    from metatensor.program.onnx.exporting.model import build
    from metatensor.program.onnx.exporting.writing import write

    write(build(program, opset=opset, data=False, **options), f, external_data)
