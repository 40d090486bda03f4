"""Tensors to and from DLPack: which device, which copies. What a capsule holds is the backends' business."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from metatensor import plugins
from metatensor._core.device import Device, backend_for
from metatensor.devices.dlpack import Capsule, DLDeviceType, mark_copied

__all__ = ["dlpack_device", "from_dlpack", "taker", "to_dlpack"]


def _candidates(kind: int) -> Iterator[str]:
    """Types of devices to ask, the namesake first: others are loaded only where it is not the one."""
    name = DLDeviceType(kind).name[3:].lower() if kind in DLDeviceType._value2member_map_ else None
    if name is not None:
        yield name
    yield from (type for type in plugins.device_types() if type != name)


def taker(kind: int) -> Any:
    """The backend for memory in a place of DLPack's. RuntimeError where no device, or none that works, takes it."""
    broken = None
    for type in _candidates(kind):
        try:
            backend = plugins.backend(type)
        except RuntimeError as error:
            if type in plugins.device_types():
                broken = broken or error
            continue
        if kind in backend.dlpack_types:
            if not backend.is_available():
                raise RuntimeError(f"from_dlpack(): {type} is not available: {backend.unavailable_reason()}")
            return backend
    raise RuntimeError(f"from_dlpack(): no device is known for the DLPack device type {kind}") from broken


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Any:
    """A tensor over the memory of an object with ``__dlpack__``, or of a DLPack capsule; on `device` where one is given.

    With `copy` true never over the same memory, with `copy` false always: ValueError where `device` is another one.
    Raises TypeError for other objects, BufferError for what its producer or this device cannot exchange, RuntimeError
    for memory that no device takes.
    """
    if type(ext_tensor).__name__ == "PyCapsule":
        ext_tensor = Capsule(ext_tensor)
    if not hasattr(ext_tensor, "__dlpack__") or not hasattr(ext_tensor, "__dlpack_device__"):
        raise TypeError(f"from_dlpack(): expected an object with __dlpack__, or a capsule, got {type(ext_tensor).__name__}")
    kind, index = ext_tensor.__dlpack_device__()
    backend = taker(int(kind))
    target = None if device is None else Device(device)
    elsewhere = target is not None and (target.type != backend.type or target.index not in (None, int(index)))
    if elsewhere and copy is False:
        raise ValueError(f"from_dlpack(): memory of {backend.type}:{int(index)} comes to {target} by a copy only")
    tensor = backend.from_dlpack(ext_tensor, copy=None if elsewhere else copy)
    return tensor.to(target) if elsewhere else tensor


def _with_data(tensor: Any) -> None:
    """Give a deferred tensor its data: what is made of it shares its memory."""
    from metatensor.deferred import is_deferred, materialize

    if is_deferred(tensor):
        materialize(tensor)


def _exportable(tensor: Any, what: str) -> None:
    _with_data(tensor)
    if tensor.requires_grad:
        raise BufferError(f"{what}: the tensor requires grad; use tensor.detach()")
    if tensor.is_conj() or tensor.is_neg():
        raise BufferError(f"{what}: the tensor is lazily conjugated or negated; use tensor.resolve_conj()")
    if tensor.untyped_storage().data is None:
        raise BufferError(f"{what}: this tensor of shape {list(tensor.shape)} on {tensor.device} holds no data")


def to_dlpack(tensor: Any, stream: Any, max_version: Any, dl_device: Any, copy: bool | None) -> Any:
    """The capsule for ``__dlpack__``.

    Of version 1 where `max_version` allows it, and the array library has it: only those tell that memory is read-only.
    On `dl_device`, which is the tensor's own or the host. BufferError where that takes a copy but `copy` is false, and
    for tensors that cannot be exported: without data, requiring grad, lazily conjugated, of a dtype that DLPack lacks.
    """
    _exportable(tensor, "__dlpack__")
    source = tensor
    if dl_device is not None:
        kind, index = (int(number) for number in dl_device)
        if (kind, index) != tuple(dlpack_device(tensor)):
            if kind != DLDeviceType.kDLCPU:
                raise BufferError(f"__dlpack__: a tensor on {tensor.device} does not go to the DLPack device {(kind, index)}")
            source, stream = tensor.cpu(), None
    if copy and source is tensor:
        source = tensor.clone()
    if copy is False and source is not tensor:
        raise BufferError(f"__dlpack__: a tensor on {tensor.device} comes to the host by a copy only")
    capsule = backend_for(source.device).dlpack(source, stream=stream, max_version=max_version)
    if source is not tensor:
        mark_copied(capsule)
    return capsule


def dlpack_device(tensor: Any) -> tuple[int, int]:
    """The (type, index) pair of DLPack. ValueError for a tensor without data."""
    _with_data(tensor)
    if tensor.untyped_storage().data is None:
        raise ValueError(f"__dlpack_device__: a tensor on {tensor.device} without data has no place in DLPack")
    return backend_for(tensor.device).dlpack_device(tensor)
