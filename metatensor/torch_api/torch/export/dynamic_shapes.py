"""Descriptions of dynamic shapes for export."""

from metatensor.torch_api.torch.export import AdditionalInputs, Dim, ShapesCollection, dims

__all__ = ["AdditionalInputs", "Dim", "ShapesCollection", "dims"]
