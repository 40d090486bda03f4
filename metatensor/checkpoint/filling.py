"""Bytes of a file into the storages that were made for them: the second half of loading, when all else is known."""

from __future__ import annotations

import sys
from typing import Any

from metatensor._core.dtype import dtype_by_name
from metatensor._core.placing import tensor_from_storage
from metatensor._core.storage import set_data
from metatensor.checkpoint.places import NoDevice
from metatensor.checkpoint.source import MAPPED_ALIGNMENT, Source, native
from metatensor.serialization import skips_data

__all__ = ["Filler", "read_tensor", "width_of"]


def width_of(dtype: Any) -> int:
    """Bytes of what is swapped as one where the byte order is another: half an element of a complex dtype."""
    if dtype is None:
        return 1
    return int(dtype.itemsize) // 2 if dtype.is_complex else int(dtype.itemsize)


class Filler:
    """Gives storages their bytes; ``order`` is the byte order they are written in.

    ``mapped`` are the file's bytes where devices may use them in place, counted as ``begin`` of `fill_from` is.
    """

    def __init__(self, order: str = "little", mapped: memoryview | None = None) -> None:
        self.order = order
        self.mapped = mapped

    def fill(self, storage: Any, data: Any, dtype: Any = None) -> None:
        """Give ``storage``, which has none, the bytes ``data`` (None for no bytes)."""
        backend, flat = self._allocated(storage)
        if flat is not None:
            backend.from_host(flat, native(data, width_of(dtype), self.order))

    def fill_from(self, source: Source, storage: Any, begin: int, dtype: Any = None) -> None:
        """Give ``storage``, which has none, the file's bytes from ``begin`` on; in place, where they are mapped."""
        straight = self.order == sys.byteorder or width_of(dtype) == 1
        if self.mapped is not None and straight and begin % MAPPED_ALIGNMENT == 0 and storage.nbytes():
            backend, index = _backend_of(storage)
            handle = backend.map_host(self.mapped[begin : begin + storage.nbytes()], index)
            if handle is not None:
                set_data(storage, handle)
                return
        backend, flat = self._allocated(storage)
        if flat is not None:
            read_tensor(source, begin, flat, backend, width_of(dtype), self.order)

    def _allocated(self, storage: Any) -> tuple[Any, Any]:
        """The backend of a storage, and a tensor over the memory that it is given; None for an empty one."""
        backend, index = _backend_of(storage)
        nbytes = storage.nbytes()
        set_data(storage, backend.allocate(nbytes, index))
        wanted = nbytes and not skips_data()
        return backend, tensor_from_storage(storage, dtype_by_name("uint8"), (nbytes,), (1,)) if wanted else None


def _backend_of(storage: Any) -> tuple[Any, int]:
    from metatensor import plugins

    place = storage.device
    try:
        backend = plugins.backend(place.type)
    except RuntimeError as error:
        raise _not_here(place, str(error)) from error
    if (place.index or 0) >= backend.device_count():
        raise _not_here(place, backend.unavailable_reason() or f"there are {backend.device_count()} devices of this type")
    return backend, backend.current_index() if place.index is None else place.index


def _not_here(place: Any, why: str) -> NoDevice:
    return NoDevice("the checkpoint", f"its tensors are to go to {place}: {why}. map_location says where they shall go")


def read_tensor(source: Source, begin: int, tensor: Any, backend: Any, width: int = 1, order: str = sys.byteorder) -> None:
    """Fill a contiguous tensor with the file's bytes from ``begin`` on: straight into its memory, where that is the host's."""
    nbytes = tensor.numel() * tensor.dtype.itemsize
    if nbytes >= source.BLOCK and (order == sys.byteorder or width == 1):
        at = tensor.storage_offset() * tensor.dtype.itemsize
        try:
            memory = memoryview(backend.numpy(tensor_from_storage(tensor.untyped_storage(), dtype_by_name("uint8"), (nbytes,), (1,), at)))
        except TypeError:  # not memory of the host's
            pass
        else:
            source.read_into(begin, memory)
            return
    backend.from_host(tensor, native(source.at(begin, begin + nbytes), width, order))
