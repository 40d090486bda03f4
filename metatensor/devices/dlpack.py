"""DLPack structures: device types, and the tensor inside a capsule.

A capsule holds a `DLManagedTensor` or, since version 1, a `DLManagedTensorVersioned`. Both contain a `DLTensor`, which
is read and modified in place. The names are those of the DLPack standard's header. `DeviceBackend.dlpack_types` lists
the device types whose memory a backend accepts.
"""

from __future__ import annotations

import ctypes
import enum
from typing import Any

__all__ = ["Capsule", "DLDataType", "DLDeviceType", "DLTensor", "mark_copied", "tensor_in"]


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


class DLDataType(ctypes.Structure):
    """An element type: type code, number of bits, and number of lanes (vector length)."""

    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class DLTensor(ctypes.Structure):
    """A data pointer and its layout. Strides are in elements. NULL stands for row-major order."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("dl_tensor", DLTensor),
    ]


_IS_COPIED = 2

_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))


def _pointer(capsule: Any, name: bytes) -> int | None:
    """Return the pointer in an unused capsule with the name `name`, or None for anything else."""
    return _get_pointer(capsule, name) if _is_valid(capsule, name) else None


def tensor_in(capsule: Any) -> DLTensor:
    """Return the tensor inside a capsule, not a copy. Raise BufferError if the capsule is not an unused DLPack one."""
    found = _pointer(capsule, b"dltensor_versioned")
    if found is not None:
        return _Versioned.from_address(found).dl_tensor
    found = _pointer(capsule, b"dltensor")
    if found is None:
        raise BufferError(f"expected a DLPack capsule that is not used yet, got {capsule!r}")
    return DLTensor.from_address(found)


def mark_copied(capsule: Any) -> None:
    """Set the capsule's flag for copied memory. Capsules before version 1 have no such flag and stay unchanged."""
    found = _pointer(capsule, b"dltensor_versioned")
    if found is not None:
        _Versioned.from_address(found).flags |= _IS_COPIED


class Capsule:
    """A DLPack producer that wraps an existing capsule. Raises BufferError if that is not an unused DLPack capsule."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule
        tensor_in(capsule)

    def __dlpack_device__(self) -> tuple[int, int]:
        tensor = tensor_in(self.capsule)
        return tensor.device_type, tensor.device_id

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule
