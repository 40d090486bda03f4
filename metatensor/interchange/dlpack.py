"""Exchange tensors through DLPack: choose devices and make copies. The backends create and read capsules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from metatensor import plugins
from metatensor._core.capture import note_read
from metatensor._core.device import Device, backend_for
from metatensor.devices.dlpack import Capsule, DLDeviceType, mark_copied

__all__ = ["dlpack_device", "from_dlpack", "taker", "to_dlpack"]


def _candidates(kind: int) -> Iterator[str]:
    """Yield the device types to try, beginning with the one that has the name of ``kind``.

    The caller stops at a match, so the backends of the other types are not loaded needlessly.
    """
    name = DLDeviceType(kind).name[3:].lower() if kind in DLDeviceType._value2member_map_ else None
    if name is not None:
        yield name
    yield from (type for type in plugins.device_types() if type != name)


def taker(kind: int) -> Any:
    """Return the backend that accepts memory of a DLPack device type. Raise RuntimeError if no available one does."""
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
    """Return a tensor over the memory of an object with ``__dlpack__``, or of a DLPack capsule.

    Parameters
    ----------
    ext_tensor : object
        An object with ``__dlpack__`` and ``__dlpack_device__``, or a capsule.
    device : device or str, optional
        Device of the result. By default the device of the memory.
    copy : bool, optional
        True: always copy. False: never copy. By default copy only if necessary.

    Raises
    ------
    TypeError
        If ``ext_tensor`` is neither such an object nor a capsule.
    ValueError
        If ``copy`` is False and ``device`` differs from the device of the memory.
    BufferError
        If the producer or the device cannot exchange the tensor.
    RuntimeError
        If no device accepts the memory.

    Examples
    --------
    >>> import metatensor as mt
    >>> import numpy as np
    >>> mt.from_dlpack(np.arange(3)).tolist()
    [0, 1, 2]
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
        raise ValueError(f"from_dlpack(): memory of {backend.type}:{int(index)} cannot be used on {target} without a copy")
    tensor = backend.from_dlpack(ext_tensor, copy=None if elsewhere else copy)
    return tensor.to(target) if elsewhere else tensor


def _with_data(tensor: Any) -> None:
    """Materialize a deferred tensor in place, because the result shares its memory."""
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
    """Return the capsule for ``__dlpack__``.

    The capsule has version 1 if ``max_version`` and the array library support it. Only this version can describe
    read-only memory. ``dl_device`` is the tensor's own device or the host. Raise BufferError if ``copy`` is False but a
    copy is needed, and for tensors that cannot be exported: those that have no data, require grad, are lazily
    conjugated or negated, or have a dtype that DLPack lacks.
    """
    _exportable(tensor, "__dlpack__")
    source = tensor
    if dl_device is not None:
        kind, index = (int(number) for number in dl_device)
        if (kind, index) != tuple(dlpack_device(tensor)):
            if kind != DLDeviceType.kDLCPU:
                raise BufferError(f"__dlpack__: a tensor on {tensor.device} cannot be exported to the DLPack device {(kind, index)}")
            source, stream = tensor.cpu(), None
    if copy and source is tensor:
        source = tensor.clone()
    if copy is False and source is not tensor:
        raise BufferError(f"__dlpack__: a tensor on {tensor.device} cannot be exported to the host without a copy")
    note_read(source, "__dlpack__")
    capsule = backend_for(source.device).dlpack(source, stream=stream, max_version=max_version)
    if source is not tensor:
        mark_copied(capsule)
    return capsule


def dlpack_device(tensor: Any) -> tuple[int, int]:
    """Return DLPack's (device type, index) of a tensor. Raise ValueError if it has no data."""
    _with_data(tensor)
    if tensor.untyped_storage().data is None:
        raise ValueError(f"__dlpack_device__: a tensor on {tensor.device} without data cannot be exported")
    return backend_for(tensor.device).dlpack_device(tensor)
