"""Decomposition tables for export."""

from metatensor.torch_api.torch.export import CustomDecompTable

__all__ = ["CustomDecompTable"]
