"""Tensors to and from DLPack."""

import enum
from typing import Any

from metatensor import from_dlpack

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]


class DLDeviceType(enum.IntEnum):
    """The device types of the DLPack standard."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14


def to_dlpack(tensor: Any) -> Any:
    """A capsule of a tensor with data."""
    return tensor.__dlpack__()
