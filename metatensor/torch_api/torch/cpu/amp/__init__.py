"""Mixed precision on the cpu (deprecated in PyTorch): `torch.amp` with the device type "cpu"."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.lazy import attributes
from metatensor.torch_api.torch import amp as _amp

__all__ = ["GradScaler", "autocast"]

__getattr__, __dir__ = attributes(__name__, ("autocast_mode", "grad_scaler"))


class autocast(_amp.autocast):
    """`torch.amp.autocast` for cpu."""

    def __init__(self, enabled: bool = True, dtype: Any = mt.bfloat16, cache_enabled: bool = True) -> None:
        super().__init__("cpu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(_amp.GradScaler):
    """`torch.amp.GradScaler` for cpu."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__("cpu", *args, **options)
