"""`autocast` under a second module name, as in PyTorch."""

from metatensor.torch_api.torch.cpu.amp import autocast

__all__ = ["autocast"]
