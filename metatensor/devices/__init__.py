"""Devices: the base class of all backends, the built-in meta device, and the array kit for NumPy-like libraries."""

from metatensor.devices.base import DeviceBackend as DeviceBackend
from metatensor.devices.base import OutOfMemoryError as OutOfMemoryError

__all__ = ["DeviceBackend", "OutOfMemoryError"]
