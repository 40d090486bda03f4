"""A module of `torch.cuda.amp` in PyTorch."""

from metatensor.torch_api.torch.cuda.amp import GradScaler

__all__ = ["GradScaler"]
