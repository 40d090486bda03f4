"""Errors of the exporter."""

from metatensor.torch_api.torch.onnx import OnnxExporterError

__all__ = ["OnnxExporterError", "SymbolicValueError", "UnsupportedOperatorError"]


class UnsupportedOperatorError(OnnxExporterError):
    """An operator that ONNX does not have."""


class SymbolicValueError(OnnxExporterError):
    """A value that cannot be exported."""
