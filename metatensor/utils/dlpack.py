"""Exchange of tensors through DLPack."""

from typing import Any

from metatensor import from_dlpack
from metatensor.devices.dlpack import DLDeviceType

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Any) -> Any:
    """Return a DLPack capsule of a tensor with data."""
    return tensor.__dlpack__()
