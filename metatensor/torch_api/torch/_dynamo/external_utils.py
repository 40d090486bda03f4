"""Queries about the compiler from other modules."""

from metatensor.torch_api.torch.compiler import is_compiling

__all__ = ["is_compiling"]
