"""Checkpoints: `load` their tensors onto any device, or `inspect` what is in them without reading it.

Which format a file has is decided by its content, never by its name. A format is an object with the four members
of `Format`; other packages add theirs through the hook ``metatensor_checkpoint_formats``.
"""

from __future__ import annotations

import os
from typing import Any, BinaryIO

from metatensor.checkpoint.errors import CheckpointError
from metatensor.checkpoint.formats import Format, format_of
from metatensor.checkpoint.model import Checkpoint, TensorInfo
from metatensor.checkpoint.places import Places
from metatensor.checkpoint.source import opened

__all__ = ["Checkpoint", "CheckpointError", "Format", "Places", "TensorInfo", "inspect", "load"]


def load(
    f: str | os.PathLike[str] | BinaryIO,
    map_location: Any = None,
    *,
    weights_only: bool = True,
    mmap: bool | None = None,
) -> Any:
    """What a checkpoint holds, on the devices that ``map_location`` says: mostly a dict of tensors by name.

    ``f`` is a path, or a file opened for reading in binary that can seek (read from where it stands to its end).
    ``map_location`` is a device or its name; a dict that maps the locations of the file ("cpu", "cuda:0") to such; a
    callable as in PyTorch; or None for the place where each tensor was, the cpu being the default device.
    With ``"meta"`` the tensors' data are not read, so a checkpoint of any size loads at once and takes no memory.
    With ``mmap`` a device that can use the file's bytes where they lie (the cpu) does so; writing to such a tensor
    does not change the file. ``weights_only`` is PyTorch's and changes nothing: nothing in a file is ever executed.

    Raises `CheckpointError` (a `ValueError`) naming the file and the reason for a file that is damaged, hostile or
    of no known format, `OSError` for one that cannot be read.
    """
    place = Places(map_location, bool(mmap))
    with opened(f) as (file, name):
        return format_of(file, name).load(file, name, place)


def inspect(f: str | os.PathLike[str] | BinaryIO) -> Checkpoint:
    """Names, shapes, dtypes and places of a checkpoint's tensors, and its metadata, from its header alone.

    Takes and raises what `load` does.
    """
    with opened(f) as (file, name):
        return format_of(file, name).inspect(file, name)
