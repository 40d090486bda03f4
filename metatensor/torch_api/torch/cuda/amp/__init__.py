"""Mixed precision on CUDA devices (deprecated in PyTorch): `torch.amp` with the device type "cuda"."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.lazy import attributes
from metatensor.torch_api.torch import amp as _amp

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]

__getattr__, __dir__ = attributes(__name__, ("autocast_mode", "common", "grad_scaler"))


class autocast(_amp.autocast):
    """`torch.amp.autocast` for cuda."""

    def __init__(self, enabled: bool = True, dtype: Any = mt.float16, cache_enabled: bool = True) -> None:
        super().__init__("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(_amp.GradScaler):
    """`torch.amp.GradScaler` for cuda."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__("cuda", *args, **options)


def custom_fwd(fwd: Any = None, *, cast_inputs: Any = None) -> Any:
    """Decorate a forward function as `torch.amp.custom_fwd` does for cuda."""
    return _amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Any) -> Any:
    """Decorate a backward function as `torch.amp.custom_bwd` does for cuda."""
    return _amp.custom_bwd(bwd, device_type="cuda")
