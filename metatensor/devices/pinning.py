"""Page-locked memory of the host, from and to which a device copies directly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from metatensor._core.placing import tensor_from_storage
from metatensor._core.storage import make_storage

if TYPE_CHECKING:
    from metatensor import Tensor

__all__ = ["PinnedBlock", "pin"]


class PinnedBlock(np.ndarray):
    """Bytes that are page-locked: a handle for storages of the cpu."""

    is_pinned = True


def pin(tensor: Tensor, device: Any = None) -> Tensor:
    """A copy of a cpu tensor, strides included, in memory that ``device`` has page-locked; itself where it is there already.

    Without ``device`` it is the first type that has such memory. RuntimeError where none does, or for other tensors.
    """
    if tensor.is_pinned():
        return tensor
    if tensor.device.type != "cpu":
        raise RuntimeError(f"pin_memory(): only memory of the cpu can be page-locked, the tensor is on {tensor.device}")
    length = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True)) + 1
    nbytes = length * tensor.itemsize if tensor.numel() else 0
    storage = make_storage("cpu", nbytes, _memory(nbytes, device))
    made = tensor_from_storage(storage, tensor.dtype, tuple(tensor.shape), tensor.stride(), 0)
    made.copy_(tensor.detach())
    return made


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
        except RuntimeError as error:  # its plugin is broken, or the memory is used up
            why = str(error)
    raise RuntimeError(f"pin_memory(): no device that page-locks memory is available{why and f': {why}'}")
