"""Captured programs, of which there are none."""

from metatensor.torch_api.torch.export import ExportedProgram, ModuleCallEntry, ModuleCallSignature, default_decompositions

__all__ = ["ExportedProgram", "ModuleCallEntry", "ModuleCallSignature", "default_decompositions"]
