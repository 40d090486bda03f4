"""Loading and saving."""

from __future__ import annotations

import os
from typing import Any

import metatensor as mt
from metatensor.serialization import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    get_unsafe_globals_in_checkpoint,
    safe_globals,
)

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "get_unsafe_globals_in_checkpoint", "load",
           "location_tag", "normalize_storage_type", "safe_globals", "save"]  # fmt: skip


def load(f: Any, map_location: Any = None, pickle_module: Any = None, *, weights_only: bool | None = None, mmap: bool | None = None,
         **pickle_load_args: Any) -> Any:  # fmt: skip
    """What `metatensor.load` gives. Nothing in a file is ever executed, whatever ``weights_only`` says."""
    return mt.load(f, map_location=map_location, mmap=mmap)


def save(obj: Any, f: str | os.PathLike[str] | Any, pickle_module: Any = None, pickle_protocol: int = 2,
         _use_new_zipfile_serialization: bool = True, _disable_byteorder_record: bool = False) -> None:  # fmt: skip
    """What `metatensor.save` writes: PyTorch's zip format. NotImplementedError for the format before 1.6."""
    if not _use_new_zipfile_serialization:
        raise NotImplementedError("torch.save: the format before PyTorch 1.6 is read, but not written")
    mt.save(obj, f, format="torch")


def location_tag(storage: Any) -> str:
    """The device of a storage as text: "cpu", "cuda:0"."""
    device = storage.device
    return str(device.type) if device.index is None or device.type in ("cpu", "meta") else str(device)


def normalize_storage_type(storage_type: Any) -> Any:
    """The class itself."""
    return storage_type
