"""ONNX: models in this format run on any device and become programs. It needs the ``onnx`` package."""

from metatensor.program.onnx.importing import OnnxError, OnnxModel, ValueShape, from_onnx

__all__ = ["OnnxError", "OnnxModel", "ValueShape", "from_onnx"]
