"""Bytes of a file into the storages that were made for them: the second half of loading, when all else is known."""

from __future__ import annotations

from typing import Any

from metatensor._core.dtype import dtype_by_name
from metatensor._core.placing import tensor_from_storage
from metatensor._core.storage import set_data
from metatensor.checkpoint.source import MAPPED_ALIGNMENT, native
from metatensor.serialization import skips_data

__all__ = ["Filler", "width_of"]


def width_of(dtype: Any) -> int:
    """Bytes of what is swapped as one where the byte order is another: half an element of a complex dtype."""
    if dtype is None:
        return 1
    return int(dtype.itemsize) // 2 if dtype.is_complex else int(dtype.itemsize)


class Filler:
    """Gives storages their bytes; ``order`` is the byte order they are written in.

    ``mapped`` are the file's bytes where devices may use them in place, counted as ``begin`` of `fill` is.
    """

    def __init__(self, order: str = "little", mapped: memoryview | None = None) -> None:
        self.order = order
        self.mapped = mapped

    def fill(self, storage: Any, data: Any, dtype: Any = None, begin: int = -1) -> None:
        """Give ``storage``, which has none, its bytes: ``data``, or where it is mapped those from ``begin`` on."""
        from metatensor import plugins

        place = storage.device
        backend = plugins.backend(place.type)
        nbytes = storage.nbytes()
        index = backend.current_index() if place.index is None else place.index
        width = width_of(dtype)
        data = native(data, width, self.order) if data is not None else b""
        if self.mapped is not None and begin >= 0 and begin % MAPPED_ALIGNMENT == 0 and nbytes and isinstance(data, memoryview):
            handle = backend.map_host(self.mapped[begin : begin + nbytes], index)
            if handle is not None:
                set_data(storage, handle)
                return
        set_data(storage, backend.allocate(nbytes, index))
        if nbytes and not skips_data():
            flat = tensor_from_storage(storage, dtype_by_name("uint8"), (nbytes,), (1,))
            backend.from_host(flat, data)
