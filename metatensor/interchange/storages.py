"""What storages can do besides being there: parts of them, files as storages, copies on cpu."""

from __future__ import annotations

import mmap
import os
from typing import Any

import metatensor as mt
from metatensor.deferred import is_deferred, materialize

__all__ = ["as_bytes", "elements", "from_file", "item", "on_cpu"]


def as_bytes(storage: Any) -> Any:
    """A vector of uint8 over a storage."""
    return mt.empty(0, dtype=mt.uint8, device=storage.device).set_(storage, 0, (storage.nbytes(),), (1,))


def elements(storage: Any, dtype: Any = None) -> Any:
    """Return a vector over a storage, typed or untyped, whose bytes are read as elements of ``dtype``.

    By default that is int64 for an untyped storage, and for a typed one the dtype of numbers of its kind. RuntimeError where
    a typed one is of another dtype.
    """
    own = getattr(storage, "dtype", None)
    if dtype is None:
        dtype = mt.int64
        if own is mt.bool:
            dtype = mt.bool
        elif own is not None and (own.is_floating_point or own.is_complex):
            dtype = mt.get_default_dtype() if own.is_floating_point else mt.get_default_dtype().to_complex()
    if own is not None and own is not dtype:
        raise RuntimeError(f"tensor(): the storage is one of {own}, and {dtype} is asked for; storage.untyped() has no dtype")
    untyped = storage.untyped()
    return mt.empty(0, dtype=dtype, device=untyped.device).set_(untyped, 0, (untyped.nbytes() // dtype.itemsize,), (1,))


def from_file(filename: Any, shared: bool, nbytes: int) -> Any:
    """See `Storage.from_file`. OSError for a file that cannot be read, RuntimeError for one that is too short."""
    if nbytes < 0:
        raise RuntimeError(f"from_file: nbytes must not be negative, got {nbytes}")
    if nbytes == 0:
        return mt.empty(0, dtype=mt.uint8, device="cpu").untyped_storage()
    with open(filename, "r+b" if shared else "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if shared and size < nbytes:
            file.truncate(nbytes)
        elif size < nbytes:
            raise RuntimeError(f"from_file: {nbytes} bytes are asked for, {os.fspath(filename)} has {size}")
        mapped = mmap.mmap(file.fileno(), nbytes, access=mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY)
    return mt.frombuffer(mapped, dtype=mt.uint8).untyped_storage()


def item(storage: Any, index: Any) -> Any:
    """See `Storage.__getitem__`. IndexError beyond its end, NotImplementedError without data."""
    if is_deferred(storage):
        materialize(as_bytes(storage))
    if not isinstance(index, slice):
        return as_bytes(storage)[index].item()
    start, stop, step = index.indices(storage.nbytes())
    if step != 1:
        raise RuntimeError(f"a slice of a storage has step 1, got {step}")
    if stop <= start:
        return mt.empty(0, dtype=mt.uint8, device=storage.device).untyped_storage()
    if storage.data is None:
        return mt.empty(stop - start, dtype=mt.uint8, device=storage.device).untyped_storage()
    if storage.device.type != "cpu":
        raise RuntimeError(f"a slice of a storage shares its memory, which is for those on cpu; this one is on {storage.device}")
    return mt.from_numpy(as_bytes(storage)[start:stop].numpy()).untyped_storage()


def on_cpu(storage: Any) -> Any:
    """See `Storage.cpu`."""
    return storage if storage.device.type == "cpu" else as_bytes(storage).cpu().untyped_storage()
