"""A module of `torch.cpu.amp` in PyTorch."""

from metatensor.torch_api.torch.cpu.amp import autocast

__all__ = ["autocast"]
