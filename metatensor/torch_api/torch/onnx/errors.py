"""Exceptions of the ONNX exporter."""

from metatensor.torch_api.torch.onnx import OnnxExporterError

__all__ = ["OnnxExporterError", "SymbolicValueError", "UnsupportedOperatorError"]


class UnsupportedOperatorError(OnnxExporterError):
    """Raised in PyTorch for an operator that ONNX does not have."""


class SymbolicValueError(OnnxExporterError):
    """Raised in PyTorch for a value that cannot be exported."""
