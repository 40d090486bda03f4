"""Device indices."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.torch_api.torch.cuda import current_device

__all__ = ["_get_device_index"]


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """Return the index of a device.

    The index is -1 for cpu if `allow_cpu` is true. For None and for a device without an index, it is that of the
    current device if `optional` is true. Raise ValueError in all other cases without an index.
    """
    if isinstance(device, int):
        return device
    place = None if device is None else mt.device(device)
    if place is not None and place.type == "cpu" and allow_cpu:
        return -1
    if place is not None and place.type != "cuda":
        raise ValueError(f"torch.cuda: expected a cuda device, got {place}")
    if place is None or place.index is None:
        if not optional:
            raise ValueError(f"torch.cuda: expected a device with an index, got {device!r}")
        return current_device()
    return int(place.index)
