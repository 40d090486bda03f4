"""Conversion of programs from and to ONNX models. It needs the ``onnx`` package (the extra ``onnx``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metatensor._core.lazy import attributes

if TYPE_CHECKING:
    from metatensor.program.onnx.exporting import ExportError, Unsupported, model_of
    from metatensor.program.onnx.importing import OnnxError, OnnxModel, ValueShape, from_onnx

__all__ = ["ExportError", "OnnxError", "OnnxModel", "Unsupported", "ValueShape", "from_onnx", "model_of"]

_PLACES = {"exporting": ("ExportError", "Unsupported", "model_of"), "importing": ("OnnxError", "OnnxModel", "ValueShape", "from_onnx")}

__getattr__, __dir__ = attributes(__name__, (), {name: f"{__name__}.{place}:{name}" for place, names in _PLACES.items() for name in names})
