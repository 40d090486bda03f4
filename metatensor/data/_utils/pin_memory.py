"""Batches in page-locked memory, from which a device can copy directly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import metatensor as mt
from metatensor.data._utils.collate import _rebuilt, _remapped

__all__ = ["pin_memory"]


def pin_memory(data: Any, device: Any = None) -> Any:
    """Return ``data`` with its cpu tensors copied to page-locked memory.

    Tensors are found in mappings and sequences. For any other object that has a method ``pin_memory``, this method is called.
    """
    if isinstance(data, mt.Tensor):
        return data.pin_memory(device) if data.device.type == "cpu" else data
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, Mapping):
        return _remapped(data, lambda key: pin_memory(data[key], device))
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(pin_memory(item, device) for item in data))
    if isinstance(data, Sequence):
        return _rebuilt(data, [pin_memory(item, device) for item in data])
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    return data
