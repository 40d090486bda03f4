"""Exported programs, which cannot be created."""

from metatensor.torch_api.torch.export import ExportedProgram, ModuleCallEntry, ModuleCallSignature, default_decompositions

__all__ = ["ExportedProgram", "ModuleCallEntry", "ModuleCallSignature", "default_decompositions"]
