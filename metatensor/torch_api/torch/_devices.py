"""What the modules of the devices (`torch.cuda`, `torch.accelerator`, ...) know about metatensor's plugins."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor import plugins

__all__ = ["backend", "device_count", "index_of", "reason"]


def backend(type: str) -> Any:
    """The backend of a device type, or None where no plugin provides it, or its plugin is blocked or broken."""
    if type not in plugins.device_types():
        return None
    try:
        return plugins.backend(type)
    except RuntimeError:
        return None


def device_count(type: str) -> int:
    """How many devices of a type can be used now."""
    found = backend(type)
    return 0 if found is None else int(found.device_count())


def reason(type: str) -> str:
    """Why there is no device of a type, as one sentence."""
    try:
        return str(plugins.backend(type).unavailable_reason())
    except RuntimeError as error:
        return str(error)


def index_of(device: Any, type: str, *, optional: bool = True) -> int | None:
    """The number that an int, a string, a device or None names; None where it names the type alone. ValueError for other types."""
    if device is None:
        if optional:
            return None
        raise ValueError(f"torch.{type}: expected a device with a number, got None")
    if isinstance(device, int):
        return device if device >= 0 else None
    place = mt.device(device)
    if place.type != type:
        raise ValueError(f"torch.{type}: expected a {type} device, got {place}")
    if place.index is None and not optional:
        raise ValueError(f"torch.{type}: expected a device with a number, got {place}")
    return place.index
