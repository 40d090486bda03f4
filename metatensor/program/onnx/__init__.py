"""Programs from and to ONNX models. Needs the ``onnx`` package, the extra of the same name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metatensor._core.lazy import attributes

if TYPE_CHECKING:
    from metatensor.program.onnx.exporting import ExportError, Unsupported, model_of

__all__ = ["ExportError", "Unsupported", "model_of"]

__getattr__, __dir__ = attributes(__name__, (), {name: f"{__name__}.exporting:{name}" for name in __all__})
