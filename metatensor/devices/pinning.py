"""Page-locked host memory, which a device can copy to and from directly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from metatensor._core.storage import make_storage
from metatensor._core.storage_views import tensor_from_storage

if TYPE_CHECKING:
    from metatensor import Tensor

__all__ = ["PinnedBlock", "can_pin", "pin"]


class PinnedBlock(np.ndarray):
    """An array of page-locked bytes, used as a handle for storages of the cpu device."""

    is_pinned = True


def pin(tensor: Tensor, device: Any = None) -> Tensor:
    """Copy a cpu tensor, with its strides, to page-locked memory. Return the tensor itself if it is pinned already.

    Parameters
    ----------
    tensor : Tensor
        A tensor on the cpu device.
    device : device, optional
        The device that locks the memory. Default: the first available device type that can do so.

    Raises
    ------
    RuntimeError
        If the tensor is on another device, or if no device can lock memory.
    """
    if tensor.is_pinned():
        return tensor
    if tensor.device.type != "cpu":
        raise RuntimeError(f"pin_memory(): only memory of the cpu can be page-locked, but the tensor is on {tensor.device}")
    length = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True)) + 1
    nbytes = length * tensor.itemsize if tensor.numel() else 0
    storage = make_storage("cpu", nbytes, _memory(nbytes, device))
    made = tensor_from_storage(storage, tensor.dtype, tuple(tensor.shape), tensor.stride(), 0)
    made.copy_(tensor.detach())
    return made


def can_pin() -> bool:
    """Return True if a device that page-locks memory is available."""
    try:
        _memory(1, None)
    except RuntimeError:
        return False
    return True


def _memory(nbytes: int, device: Any) -> Any:
    import metatensor
    from metatensor import plugins

    types = plugins.device_types() if device is None else [metatensor.device(device).type]
    why = ""
    for type in types:
        try:
            backend = plugins.backend(type)
            if backend.is_available():
                return backend.pinned(nbytes)
        except NotImplementedError as error:
            why = why or str(error)
        except RuntimeError as error:  # the plugin is broken or the memory is exhausted
            why = str(error)
    raise RuntimeError(f"pin_memory(): no device that page-locks memory is available{why and f': {why}'}")
