"""What a captured program takes and returns."""

from metatensor.torch_api.torch.export import ExportGraphSignature

__all__ = ["ExportGraphSignature"]
