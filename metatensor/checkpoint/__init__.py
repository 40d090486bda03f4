"""Checkpoints: `load` their tensors onto any device, or `inspect` what is in them without reading it.

Which format a file has is decided by its content, never by its name. A format is an object with the four members
of `Format`; other packages add theirs through the hook ``metatensor_checkpoint_formats``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from metatensor.checkpoint.errors import CheckpointError
from metatensor.checkpoint.model import Checkpoint, TensorInfo

if TYPE_CHECKING:
    from metatensor import Tensor, device

__all__ = ["Checkpoint", "CheckpointError", "Format", "TensorInfo", "inspect", "load"]

HEAD = 64
"""How many bytes of a file its format is told by."""


class Format(Protocol):
    """What a checkpoint format provides."""

    name: str
    """What messages call it."""
    suffixes: tuple[str, ...]
    """Its usual file name endings; they only choose the message for a file that no format recognises."""

    def matches(self, head: bytes, size: int) -> bool:
        """Whether a file of ``size`` bytes that begins with ``head`` (up to `HEAD` bytes) is of this format."""
        raise NotImplementedError

    def inspect(self, file: BinaryIO, name: str) -> Checkpoint:
        """What is in ``file``, without reading tensors' data. Raises `CheckpointError` with ``name`` in it."""
        raise NotImplementedError

    def load(self, file: BinaryIO, name: str, target: device) -> dict[str, Tensor]:
        """The tensors of ``file`` on device ``target``; for meta without reading their data."""
        raise NotImplementedError


def load(
    f: str | os.PathLike[str] | BinaryIO,
    map_location: Any = None,
    *,
    weights_only: bool = True,
    mmap: bool | None = None,
) -> dict[str, Tensor]:
    """The tensors of a checkpoint by name, on device ``map_location``.

    ``f`` is a path, or a file opened for reading in binary that can seek (read from where it stands to its end).
    ``map_location`` is a device or its name; a dict that maps ``"cpu"`` to one; or None for the default device.
    With ``"meta"`` only the header is read, so a checkpoint of any size loads at once and takes no memory.
    ``weights_only`` and ``mmap`` are PyTorch's and change nothing: nothing in a file is ever executed, and data go
    straight from the file to the device.

    Raises `CheckpointError` (a `ValueError`) naming the file and the reason for a file that is damaged, hostile or
    of no known format, `OSError` for one that cannot be read.
    """
    import metatensor as mt

    location = map_location
    if isinstance(location, dict):
        location = location.get("cpu", "cpu")
    if callable(location) and not isinstance(location, mt.device):
        raise TypeError("load: map_location must be a device, its name or a dict of these; callables are not supported")
    target = mt.get_default_device() if location is None else mt.device(location)
    with _opened(f) as (file, name):
        return _format_of(file, name).load(file, name, target)


def inspect(f: str | os.PathLike[str] | BinaryIO) -> Checkpoint:
    """Names, shapes, dtypes and places of a checkpoint's tensors, and its metadata, from its header alone.

    Takes and raises what `load` does.
    """
    with _opened(f) as (file, name):
        return _format_of(file, name).inspect(file, name)


@contextmanager
def _opened(f: Any) -> Iterator[tuple[BinaryIO, str]]:
    """The file and what messages call it; closed afterwards if it was opened here."""
    if hasattr(f, "read") and hasattr(f, "seek"):
        yield f, str(getattr(f, "name", "the open file"))
        return
    path = os.fspath(f)
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    with open(path, "rb", buffering=0) as file:
        yield file, path


def _format_of(file: BinaryIO, name: str) -> Format:
    from metatensor.checkpoint.safetensors import FORMAT

    start = file.seek(0, os.SEEK_CUR)
    size = file.seek(0, os.SEEK_END) - start
    file.seek(start)
    head = file.read(HEAD)
    file.seek(start)
    if FORMAT.matches(head, size):
        return FORMAT
    from metatensor import plugins

    known: list[Format] = [FORMAT, *plugins.formats().values()]
    for candidate in known:
        if candidate.matches(head, size):
            return candidate
    for candidate in known:
        if name.endswith(tuple(candidate.suffixes)):
            return candidate  # its own reader says best what is wrong
    if size == 0:
        raise CheckpointError(name, "the file is empty")
    names = ", ".join(candidate.name for candidate in known)
    raise CheckpointError(name, f"not a checkpoint of a known format ({names}); it begins with {head[:16]!r}")
