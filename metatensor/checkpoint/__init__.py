"""Checkpoints: `load` their tensors onto any device, or `inspect` what is in them without reading it.

Which format a file has is decided by its content, never by its name. A format is an object with the four members
of `Format`; other packages add theirs through the hook ``metatensor_checkpoint_formats``.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any, BinaryIO

from metatensor._core.recorder import current_recorder, suspended
from metatensor.checkpoint.budget import shared
from metatensor.checkpoint.errors import CheckpointError
from metatensor.checkpoint.formats import Format, format_of
from metatensor.checkpoint.model import Checkpoint, TensorInfo
from metatensor.checkpoint.opening import path_of
from metatensor.checkpoint.places import NoDevice, Places
from metatensor.checkpoint.source import opened

if TYPE_CHECKING:
    from metatensor.checkpoint.converting import convert
    from metatensor.checkpoint.into import load_into
    from metatensor.checkpoint.saving import save

__all__ = ["Checkpoint", "CheckpointError", "Format", "Places", "TensorInfo", "convert", "inspect", "load", "load_into", "save"]


def load(
    f: str | os.PathLike[str] | BinaryIO,
    map_location: Any = None,
    *,
    weights_only: bool = True,
    mmap: bool | None = None,
) -> Any:
    """What a checkpoint holds, on the devices that ``map_location`` says: mostly a dict of tensors by name.

    ``f`` is a path, or a file opened for reading in binary that can seek (read from where it stands to its end). The
    path of a checkpoint in several files is that of its index, or of the folder.
    ``map_location`` is a device or its name; a dict that maps the locations of the file ("cpu", "cuda:0") to such; a
    callable as in PyTorch; or None for the place where each tensor was, the cpu being the default device.
    With ``"meta"`` the tensors' data are not read, so a checkpoint of any size loads at once and takes no memory.
    With ``mmap`` a device that can use the file's bytes where they lie (the cpu) does so, for PyTorch's zip format
    and safetensors; writing to such a tensor does not change the file. Under `deferred_init` the tensors hold data all
    the same; under `FakeTensorMode` they are fake. ``weights_only`` is PyTorch's and changes nothing: nothing in a file
    is ever executed.

    Raises `CheckpointError` (a `ValueError`) naming the file and the reason for a file that is damaged, hostile or
    of no known format, `OSError` for one that cannot be read.
    """
    place = Places(map_location, bool(mmap))
    recorder = current_recorder()
    with shared(), suspended(), opened(path_of(f)) as (file, name):
        try:
            found = format_of(file, name).load(file, name, place)
        except NoDevice as error:
            error.file = name
            raise
    return found if recorder is None or recorder.everything else _faked(found, recorder)


def _faked(found: Any, mode: Any) -> Any:
    """What was loaded, with fake tensors in the place of those that hold data."""
    from metatensor.deferred.faithful import converted
    from metatensor.deferred.fake import FakeTensorMode

    mode = mode if isinstance(mode, FakeTensorMode) else FakeTensorMode()
    return converted(found, lambda leaf: mode.from_tensor(leaf) if not leaf.is_meta else leaf)


def inspect(f: str | os.PathLike[str] | BinaryIO) -> Checkpoint:
    """Names, shapes, dtypes and places of a checkpoint's tensors, and its metadata, from its header alone.

    Takes and raises what `load` does.
    """
    with shared(), opened(path_of(f)) as (file, name):
        return format_of(file, name).inspect(file, name)


# Loaded when first asked for: they need more than reading does.
_LAZY = {
    "convert": "metatensor.checkpoint.converting",
    "load_into": "metatensor.checkpoint.into",
    "save": "metatensor.checkpoint.saving",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_LAZY[name]), name)
    return found
