"""A module of `torch.cpu.amp` in PyTorch."""

from metatensor.torch_api.torch.cpu.amp import GradScaler

__all__ = ["GradScaler"]
