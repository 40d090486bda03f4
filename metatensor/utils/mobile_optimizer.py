"""Optimization of TorchScript for mobile devices, which needs PyTorch."""

from typing import Any

__all__ = ["optimize_for_mobile"]


def optimize_for_mobile(script_module: Any, *_: Any, **__: Any) -> Any:
    """Raise NotImplementedError: metatensor has no TorchScript."""
    raise NotImplementedError("torch.utils.mobile_optimizer: there is no TorchScript to optimize without PyTorch")
