"""The module of `autocast` in PyTorch."""

import warnings
from typing import Any

from metatensor import amp as _amp
from metatensor.amp import _cast, custom_bwd, custom_fwd, is_autocast_available
from metatensor.torch_api.torch import cuda

__all__ = ["_cast", "_enter_autocast", "_exit_autocast", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]


class autocast(_amp.autocast):
    """`metatensor.amp.autocast`; one for cuda is disabled, with a warning, where there is no CUDA device."""

    def __init__(self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None) -> None:
        if enabled and device_type == "cuda" and not cuda.is_available():
            warnings.warn("autocast: there is no CUDA device: an autocast for cuda is disabled", stacklevel=2)
            enabled = False
        super().__init__(device_type, dtype, enabled, cache_enabled)


def _enter_autocast(*vals: Any) -> autocast:
    """Enter an autocast made of ``vals``."""
    mode = autocast(*vals)
    mode.__enter__()
    return mode


def _exit_autocast(mode: autocast) -> None:
    """Leave an autocast."""
    mode.__exit__(None, None, None)
