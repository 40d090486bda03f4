"""Running ONNX models: each node of the graph is computed with operators of metatensor."""

from metatensor.program.onnx.importing.model import OnnxModel, from_onnx
from metatensor.program.onnx.importing.shapes import ValueShape
from metatensor.program.onnx.importing.values import OnnxError

__all__ = ["OnnxError", "OnnxModel", "ValueShape", "from_onnx"]
