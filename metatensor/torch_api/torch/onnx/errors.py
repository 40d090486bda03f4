"""Exceptions of the ONNX exporter."""

from metatensor.torch_api.torch.onnx import OnnxExporterError

__all__ = ["OnnxExporterError", "SymbolicValueError", "UnsupportedOperatorError"]


class UnsupportedOperatorError(OnnxExporterError):
    """Raised for calls that cannot be converted to ONNX."""


class SymbolicValueError(OnnxExporterError):
    """Raised in PyTorch for a value that cannot be exported."""
