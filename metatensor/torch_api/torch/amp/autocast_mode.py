"""`autocast` and related functions, under PyTorch's module name."""

from typing import Any

from metatensor.amp import _cast, autocast, custom_bwd, custom_fwd, is_autocast_available

__all__ = ["_cast", "_enter_autocast", "_exit_autocast", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]


def _enter_autocast(*vals: Any) -> autocast:
    """Create an autocast from `vals`, enter it and return it."""
    mode = autocast(*vals)
    mode.__enter__()
    return mode


def _exit_autocast(mode: autocast) -> None:
    """Exit an autocast."""
    mode.__exit__(None, None, None)
