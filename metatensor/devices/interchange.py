"""Data in and out of tensors without copies: NumPy arrays and DLPack, on whatever device can.

`Tensor.numpy`, `Tensor.__array__`, `Tensor.__dlpack__` and `from_numpy`, `from_dlpack` end here.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from metatensor._core.device import backend_for

if TYPE_CHECKING:
    from metatensor import Tensor

__all__ = ["array", "dlpack", "dlpack_device", "from_dlpack", "from_numpy", "numpy"]


def numpy(tensor: Tensor, force: bool = False) -> Any:
    """The tensor as a NumPy array over the same memory; with ``force`` copied from wherever it is, detached.

    bfloat16 and the float8 kinds come as arrays of ml_dtypes. Raises TypeError where the data is not in host memory
    or the dtype has no array, RuntimeError where the tensor requires grad or is a lazy conjugate or negation.
    """
    if force:
        tensor = tensor.detach()
        if tensor.is_conj() or tensor.is_neg():
            tensor = tensor.resolve_conj().resolve_neg()
        if _has_data(tensor) and not tensor.is_cpu:
            tensor = tensor.cpu()
    if not _has_data(tensor):
        raise TypeError(f"numpy: this tensor is on {tensor.device} and has no data")
    if tensor.requires_grad:
        raise RuntimeError("numpy: the tensor requires grad, which an array cannot; use tensor.detach().numpy()")
    for lazy, name in ((tensor.is_conj(), "conj"), (tensor.is_neg(), "neg")):
        if lazy:
            raise RuntimeError(f"numpy: the tensor is a lazy {name}, which an array cannot be; use tensor.resolve_{name}().numpy()")
    return backend_for(tensor.device).numpy(tensor)


def array(tensor: Tensor, dtype: Any = None, copy: bool | None = None) -> Any:
    """What ``__array__`` returns: the array of `numpy`, converted to ``dtype`` or copied where that is asked for.

    Raises ValueError where ``copy`` is false and a conversion would have to copy.
    """
    found = numpy(tensor)
    if dtype is not None and found.dtype != dtype:
        if copy is False:
            raise ValueError(f"__array__: an array of {dtype} from one of {found.dtype} needs a copy, but copy=False")
        return found.astype(dtype)
    return found.copy() if copy else found


def from_numpy(ndarray: Any) -> Tensor:
    """A cpu tensor over the memory of a NumPy array: what is written to one is seen in the other.

    The array may be strided, of any dtype that tensors have, those of ml_dtypes too. Raises TypeError for anything
    but an ndarray and for dtypes without a counterpart, ValueError for negative strides. A read-only array gives a
    warning: the tensor cannot be written.
    """
    kind = type(ndarray)
    if not any(base.__name__ == "ndarray" and base.__module__ == "numpy" for base in kind.__mro__):
        raise TypeError(f"from_numpy: expected a numpy.ndarray, got {kind.__name__}")
    backend = backend_for("cpu")
    if not ndarray.flags.writeable:
        warnings.warn("from_numpy: the array is read-only, and writing to the tensor will fail", UserWarning, stacklevel=2)
    if not ndarray.dtype.isnative:
        raise ValueError(f"from_numpy: the array's byte order is not this machine's: {ndarray.dtype}")
    return backend.adopt(ndarray)


def dlpack(
    tensor: Tensor, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
) -> Any:
    """What ``__dlpack__`` returns: a capsule over the tensor's memory. BufferError where it cannot be exported."""
    _check_export(tensor)
    given = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
    options = {name: value for name, value in given.items() if value is not None}
    return backend_for(tensor.device).dlpack(tensor, **options)


def dlpack_device(tensor: Tensor) -> tuple[int, int]:
    """What ``__dlpack_device__`` returns: DLPack's numbers for the kind of device and for the device."""
    if not _has_data(tensor):
        raise BufferError(f"__dlpack_device__: this tensor is on {tensor.device} and has no data")
    return backend_for(tensor.device).dlpack_device(tensor)


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of any object with ``__dlpack__``: arrays and tensors of other libraries.

    ``device`` moves the result; ``copy`` true copies, false raises ValueError where a copy would be needed. Raises
    TypeError for objects without DLPack, BufferError where no installed device takes the memory.
    """
    if not hasattr(ext_tensor, "__dlpack__") or not hasattr(ext_tensor, "__dlpack_device__"):
        raise TypeError(f"from_dlpack: {type(ext_tensor).__name__} has no __dlpack__ and __dlpack_device__")
    kind = int(ext_tensor.__dlpack_device__()[0])
    tensor = _importer(kind).from_dlpack(ext_tensor, copy)
    if device is None:
        return tensor
    moved = tensor.to(device)
    if copy is False and moved is not tensor:
        raise ValueError(f"from_dlpack: bringing {tensor.device} data to {device} needs a copy, but copy=False")
    return moved


def _importer(kind: int) -> Any:
    """The backend that takes memory of DLPack device type ``kind``."""
    from metatensor import plugins

    for name in plugins.device_types():
        try:
            backend = plugins.backend(name)
        except RuntimeError:
            continue  # broken or blocked: another may do
        if backend.dlpack_import == kind:
            return backend
    raise BufferError(f"from_dlpack: no installed device takes arrays of DLPack device type {kind}")


def _check_export(tensor: Tensor) -> None:
    if not _has_data(tensor):
        raise BufferError(f"__dlpack__: this tensor is on {tensor.device} and has no data")
    if tensor.requires_grad:
        raise BufferError("__dlpack__: the tensor requires grad; use tensor.detach()")
    if tensor.is_conj() or tensor.is_neg():
        raise BufferError("__dlpack__: the tensor is a lazy conjugate or negation; use resolve_conj() and resolve_neg()")


def _has_data(tensor: Tensor) -> bool:
    return tensor.untyped_storage().data is not None
