"""Programs from and to ONNX models. Needs the ``onnx`` package, the extra of the same name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metatensor._core.lazy import attributes

if TYPE_CHECKING:
    from metatensor.program.onnx.importing import OnnxError, OnnxModel, ValueShape, from_onnx

__all__ = ["OnnxError", "OnnxModel", "ValueShape", "from_onnx"]

__getattr__, __dir__ = attributes(__name__, (), {name: f"{__name__}.importing:{name}" for name in __all__})
