"""`GradScaler` under a second module name, as in PyTorch."""

from metatensor.torch_api.torch.cuda.amp import GradScaler

__all__ = ["GradScaler"]
