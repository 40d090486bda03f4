"""The default device as a mode, for libraries that use these names.

In metatensor a device is itself a context manager.
"""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.torch_api.torch.overrides import TorchFunctionMode

__all__ = ["CURRENT_DEVICE", "DeviceContext", "set_device"]

CURRENT_DEVICE = None


class DeviceContext(TorchFunctionMode):
    """Context manager that sets the default device."""

    def __init__(self, device: Any) -> None:
        self.device = mt.device(device)

    def __enter__(self) -> Any:
        self.device.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.device.__exit__(*error)


def set_device(device: Any) -> Any:
    """Return a decorator that runs a function with `device` as the default device."""

    def decorate(function: Any) -> Any:
        from metatensor._core.decorate import run_inside

        return run_inside(mt.device(device), function)

    return decorate
