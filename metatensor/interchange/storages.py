"""Operations on storages: views as tensors, slices, files as storages, copies to the cpu."""

from __future__ import annotations

import mmap
import os
from typing import Any

import metatensor as mt
from metatensor._core.capture import refuse_in_trace
from metatensor.deferred import is_deferred, materialize

__all__ = ["as_bytes", "elements", "from_file", "item", "new_untyped", "on_cpu", "swap_bytes"]


def as_bytes(storage: Any) -> Any:
    """Return a 1-D uint8 tensor over a storage."""
    return mt.empty(0, dtype=mt.uint8, device=storage.device).set_(storage, 0, (storage.nbytes(),), (1,))


def elements(storage: Any, dtype: Any = None) -> Any:
    """Return a 1-D tensor over a typed or untyped storage, whose bytes are interpreted as ``dtype``.

    For an untyped storage, ``dtype`` defaults to int64. For a typed one, it defaults to bool, int64, or the default
    floating-point or complex dtype, whichever is of the same kind. Raise RuntimeError if a typed storage has another
    dtype.
    """
    own = getattr(storage, "dtype", None)
    if dtype is None:
        dtype = mt.int64
        if own is mt.bool:
            dtype = mt.bool
        elif own is not None and (own.is_floating_point or own.is_complex):
            dtype = mt.get_default_dtype() if own.is_floating_point else mt.get_default_dtype().to_complex()
    if own is not None and own is not dtype:
        raise RuntimeError(f"tensor(): the storage has dtype {own}, but {dtype} was requested; storage.untyped() has no dtype")
    untyped = storage.untyped()
    return mt.empty(0, dtype=dtype, device=untyped.device).set_(untyped, 0, (untyped.nbytes() // dtype.itemsize,), (1,))


def from_file(filename: Any, shared: bool, nbytes: int) -> Any:
    """Implement `Storage.from_file`. Raise OSError if the file cannot be read, RuntimeError if it is too short."""
    if nbytes < 0:
        raise RuntimeError(f"from_file: nbytes must not be negative, got {nbytes}")
    if nbytes == 0:
        return mt.empty(0, dtype=mt.uint8, device="cpu").untyped_storage()
    with open(filename, "rb" if not shared else "r+b" if os.path.exists(filename) else "w+b") as file:
        size = os.fstat(file.fileno()).st_size
        if shared and size < nbytes:
            file.truncate(nbytes)
        elif size < nbytes:
            raise RuntimeError(f"from_file: {nbytes} bytes are needed, but {os.fspath(filename)} has {size}")
        mapped = mmap.mmap(file.fileno(), nbytes, access=mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY)
    return mt.frombuffer(mapped, dtype=mt.uint8).untyped_storage()


def new_untyped(size: Any = 0, /, *, device: Any = None) -> Any:
    """Return a new storage, given its size in bytes or its bytes as a sequence of numbers."""
    if isinstance(size, int):
        return mt.empty(size, dtype=mt.uint8, device=device).untyped_storage()
    return mt.tensor(list(size), dtype=mt.uint8, device=device).untyped_storage()


def item(storage: Any, index: Any) -> Any:
    """Implement `Storage.__getitem__`. Raise IndexError beyond the end, NotImplementedError without data."""
    if is_deferred(storage):
        materialize(as_bytes(storage))
    if not isinstance(index, slice):
        if storage.data is None:
            raise NotImplementedError(f"the elements of a storage on {storage.device} cannot be read: it has no data")
        return as_bytes(storage)[index].item()
    start, stop, step = index.indices(storage.nbytes())
    if step != 1:
        raise RuntimeError(f"a slice of a storage must have step 1, got {step}")
    if stop <= start:
        return mt.empty(0, dtype=mt.uint8, device=storage.device).untyped_storage()
    if storage.data is None:
        return mt.empty(stop - start, dtype=mt.uint8, device=storage.device).untyped_storage()
    refuse_in_trace("a slice of a storage")
    if storage.device.type != "cpu":
        raise RuntimeError(f"only storages on cpu can be sliced, as a slice shares memory; this one is on {storage.device}")
    return mt.from_numpy(as_bytes(storage)[start:stop].numpy()).untyped_storage()


def swap_bytes(storage: Any, dtype: Any) -> None:
    """Implement `Storage.byteswap`."""
    width = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
    if storage.nbytes() % width:
        raise RuntimeError(f"byteswap: {storage.nbytes()} bytes are not a multiple of {width}, the size of {dtype}")
    elements = as_bytes(storage).view(-1, width)
    elements.copy_(elements.flip(1))


def on_cpu(storage: Any) -> Any:
    """Implement `Storage.cpu`."""
    return storage if storage.device.type == "cpu" else as_bytes(storage).cpu().untyped_storage()
