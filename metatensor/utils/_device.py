"""The default device as a mode. A device is a context manager itself; this is the name that libraries know."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.torch_api.torch.overrides import TorchFunctionMode

__all__ = ["CURRENT_DEVICE", "DeviceContext", "set_device"]

CURRENT_DEVICE = None


class DeviceContext(TorchFunctionMode):
    """A context manager inside which factories that name no device use this one."""

    def __init__(self, device: Any) -> None:
        self.device = mt.device(device)

    def __enter__(self) -> Any:
        self.device.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.device.__exit__(*error)


def set_device(device: Any) -> Any:
    """A decorator: the function runs with this default device."""

    def decorate(function: Any) -> Any:
        from metatensor._core.decorate import run_inside

        return run_inside(mt.device(device), function)

    return decorate
