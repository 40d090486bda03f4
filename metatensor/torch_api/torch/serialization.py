"""Loading and saving."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import IO, Any, TypeAlias

import metatensor as mt

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "get_unsafe_globals_in_checkpoint", "load",
           "location_tag", "normalize_storage_type", "safe_globals", "save"]  # fmt: skip

# What PyTorch writes at the beginning of its older files, and how large C's integers are in them.
DEFAULT_PROTOCOL, PROTOCOL_VERSION, MAGIC_NUMBER = 2, 1001, 0x1950A86A20F9469CFC6C
LONG_SIZE, INT_SIZE, SHORT_SIZE = 4, 4, 2
STORAGE_KEY_SEPARATOR = ","

FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
FILE_LIKE = FileLike
MAP_LOCATION: TypeAlias = Callable[[Any, str], Any] | mt.device | str | dict[str, str] | None


class SourceChangeWarning(Warning):
    """The source of a class is not what it was when it was saved; nothing here warns of it."""


_safe: list[Any] = []


def load(f: Any, map_location: Any = None, pickle_module: Any = None, *, weights_only: bool | None = None, mmap: bool | None = None,
         **pickle_load_args: Any) -> Any:  # fmt: skip
    """What `metatensor.load` gives. Nothing in a file is ever executed, whatever ``weights_only`` says."""
    return mt.load(f, map_location=map_location)


def save(obj: Any, f: Any, pickle_module: Any = None, pickle_protocol: int = 2, _use_new_zipfile_serialization: bool = True,
         _disable_byteorder_record: bool = False) -> None:  # fmt: skip
    """NotImplementedError: metatensor writes no checkpoints yet."""
    raise NotImplementedError("torch.save: metatensor writes no checkpoints yet; use safetensors.torch.save_file")


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Keep classes that checkpoints may name."""
    _safe.extend(safe_globals)


def get_safe_globals() -> list[Any]:
    """The classes that were kept."""
    return list(_safe)


def clear_safe_globals() -> None:
    """Forget them."""
    _safe.clear()


@contextlib.contextmanager
def _kept(classes: list[Any]) -> Any:
    before = list(_safe)
    _safe.extend(classes)
    try:
        yield
    finally:
        _safe[:] = before


def safe_globals(safe_globals: list[Any]) -> Any:
    """A context manager: inside, checkpoints may name these classes."""
    return _kept(safe_globals)


def get_unsafe_globals_in_checkpoint(f: Any) -> list[str]:
    """NotImplementedError: metatensor reads no pickled checkpoints yet."""
    raise NotImplementedError("torch.serialization.get_unsafe_globals_in_checkpoint: metatensor reads no pickled checkpoints yet")


def location_tag(storage: Any) -> str:
    """The device of a storage as text: "cpu", "cuda:0"."""
    device = storage.device
    return str(device.type) if device.index is None or device.type in ("cpu", "meta") else str(device)


def normalize_storage_type(storage_type: Any) -> Any:
    """The class itself."""
    return storage_type
