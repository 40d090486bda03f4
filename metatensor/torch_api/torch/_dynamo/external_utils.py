"""What code asks the compiler from outside."""

from metatensor.torch_api.torch.compiler import is_compiling

__all__ = ["is_compiling"]
