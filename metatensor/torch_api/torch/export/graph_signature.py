"""Signatures of exported programs."""

from metatensor.torch_api.torch.export import ExportGraphSignature

__all__ = ["ExportGraphSignature"]
