"""Read a file's bytes into the storages created for them: the last step of loading."""

from __future__ import annotations

import sys
from typing import Any

from metatensor._core.dtype import dtype_by_name
from metatensor._core.storage import set_data
from metatensor._core.storage_views import tensor_from_storage
from metatensor.checkpoint.map_location import NoDevice
from metatensor.checkpoint.source import MAPPED_ALIGNMENT, Source, native
from metatensor.serialization import skips_data

__all__ = ["Filler", "read_tensor", "width_of"]


def width_of(dtype: Any) -> int:
    """Return the number of bytes that are byte-swapped together: an element, or half of a complex element."""
    if dtype is None:
        return 1
    return int(dtype.itemsize) // 2 if dtype.is_complex else int(dtype.itemsize)


class Filler:
    """Fills storages with bytes.

    Parameters
    ----------
    order : {"little", "big"}
        Byte order of the data.
    mapped : memoryview, optional
        The file's mapped bytes, for devices that can use them in place. They begin at offset 0 of the source.
    """

    def __init__(self, order: str = "little", mapped: memoryview | None = None) -> None:
        self.order = order
        self.mapped = mapped

    def fill(self, storage: Any, data: Any, dtype: Any = None) -> None:
        """Allocate ``storage`` and copy ``data`` into it. ``data`` is None for an empty storage."""
        backend, flat = self._allocated(storage)
        if flat is not None:
            backend.from_host(flat, native(data, width_of(dtype), self.order))

    def fill_from(self, source: Source, storage: Any, begin: int, dtype: Any = None) -> None:
        """Fill ``storage`` with the file's bytes from ``begin`` on, using mapped bytes in place where possible."""
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
        """Allocate a storage.

        Return its backend and a byte tensor over its memory. The latter is None if there is nothing to copy.
        """
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
    return NoDevice("the checkpoint", f"its tensors cannot be moved to {place}: {why}. Pass map_location to choose a device")


def read_tensor(source: Source, begin: int, tensor: Any, backend: Any, width: int = 1, order: str = sys.byteorder) -> None:
    """Fill a contiguous tensor with the file's bytes from ``begin`` on, directly if its memory is host memory."""
    nbytes = tensor.numel() * tensor.dtype.itemsize
    if nbytes >= source.BLOCK and (order == sys.byteorder or width == 1):
        at = tensor.storage_offset() * tensor.dtype.itemsize
        try:
            memory = memoryview(backend.numpy(tensor_from_storage(tensor.untyped_storage(), dtype_by_name("uint8"), (nbytes,), (1,), at)))
        except TypeError:  # not in host memory
            pass
        else:
            source.read_into(begin, memory)
            return
    backend.from_host(tensor, native(source.at(begin, begin + nbytes), width, order))
