"""`GradScaler` under a second module name, as in PyTorch."""

from metatensor.torch_api.torch.cpu.amp import GradScaler

__all__ = ["GradScaler"]
