"""The module of `autocast` in PyTorch."""

from typing import Any

from metatensor.amp import _cast, autocast, custom_bwd, custom_fwd, is_autocast_available

__all__ = ["_cast", "_enter_autocast", "_exit_autocast", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]


def _enter_autocast(*vals: Any) -> autocast:
    """Enter an autocast made of ``vals``."""
    mode = autocast(*vals)
    mode.__enter__()
    return mode


def _exit_autocast(mode: autocast) -> None:
    """Leave an autocast."""
    mode.__exit__(None, None, None)
