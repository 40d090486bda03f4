"""`autocast` under a second module name, as in PyTorch."""

from metatensor.torch_api.torch.cuda.amp import autocast, custom_bwd, custom_fwd

__all__ = ["autocast", "custom_bwd", "custom_fwd"]
