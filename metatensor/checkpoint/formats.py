"""Checkpoint formats, and the detection of a file's format from its content.

`BUILTIN` lists the built-in formats. Their modules are imported when a file may be in that format. The hook
``metatensor_checkpoint_formats`` adds others.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from metatensor.checkpoint.errors import CheckpointError
from metatensor.checkpoint.model import Checkpoint

if TYPE_CHECKING:
    from metatensor.checkpoint.map_location import Places

__all__ = ["BUILTIN", "HEAD", "Format", "format_of", "known"]

HEAD = 512
"""Number of leading bytes that identify a file's format."""


class Format(Protocol):
    """Interface of a checkpoint format.

    A format may also have a method ``fetch(file, name, checkpoint, tensor)``. It returns the bytes of one tensor, from
    its first to its last element in memory, in the machine's byte order. `load_into` and `convert` call it for tensors
    whose `TensorInfo.offset` is -1.
    """

    name: str
    """Name in messages."""
    suffixes: tuple[str, ...]
    """Usual file extensions. They only select the error message for a file that no format recognizes."""

    def matches(self, head: bytes, size: int) -> bool:
        """Return True if a file of ``size`` bytes is in this format. ``head`` holds its first bytes, at most `HEAD`."""
        raise NotImplementedError

    def inspect(self, file: BinaryIO, name: str) -> Checkpoint:
        """Return the contents of ``file`` without reading tensor data. Raise `CheckpointError` with ``name`` in it."""
        raise NotImplementedError

    def load(self, file: BinaryIO, name: str, place: Places) -> Any:
        """Return the saved object: a dict of tensors by name if the format stores nothing else.

        ``place(location)`` returns the device for a tensor saved at ``location`` ("cpu" if the format does not record
        it). No data is read for meta. Raise `CheckpointError` with ``name`` in it.
        """
        raise NotImplementedError


# A cheap test of the first bytes, and the module whose FORMAT decides.
BUILTIN: tuple[tuple[Callable[[bytes], bool], str], ...] = (
    (lambda head: head[8:9] == b"{", "metatensor.checkpoint.safetensors"),
    (lambda head: head[:4] == b"GGUF", "metatensor.checkpoint.gguf"),
    (lambda head: head[:6] == b"\x93NUMPY", "metatensor.checkpoint.npy"),
    (lambda head: head.lstrip()[:1] == b"{", "metatensor.checkpoint.sharded"),
    (lambda head: head[:1] == b"\x08", "metatensor.checkpoint.onnx"),
    (lambda head: head[:2] == b"PK", "metatensor.checkpoint.zips"),
    (lambda head: head[:1] == b"\x80" and b"torch.distributed" in head[:128], "metatensor.checkpoint.distributed"),
    (lambda head: head[:1] in (b"\x80", b"L") or b"ustar" in head[250:270], "metatensor.checkpoint.torch_legacy"),
)


# Files that are often mistaken for checkpoints: their first bytes and a description.
FOREIGN: tuple[tuple[bytes, str], ...] = (
    (b"version https://git-lfs.github.com/", "a Git LFS pointer and not the file itself: fetch the file with `git lfs pull`"),
    (b"\x1f\x8b", "compressed by gzip: unpack it first"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes them: not a supported format"),
    (b"<", "a page of HTML or XML: probably a failed download"),
    (b"\x80", "a pickle without tensor data: torch.save did not write it"),
)


def known() -> Iterator[Format]:
    """Yield all formats, built-in ones first."""
    from metatensor import plugins

    for _, module in BUILTIN:
        yield import_module(module).FORMAT
    yield from plugins.formats().values()


def format_of(file: BinaryIO, name: str) -> Format:
    """Return the format of the file at its current position. Raise `CheckpointError` if none matches."""
    start = file.seek(0, os.SEEK_CUR)
    size = file.seek(0, os.SEEK_END) - start
    file.seek(start)
    head = file.read(HEAD)
    file.seek(start)
    for test, module in BUILTIN:
        if test(head):
            found: Format = import_module(module).FORMAT
            if found.matches(head, size):
                return found
    from metatensor import plugins

    for label, candidate in plugins.formats().items():
        try:
            if candidate.matches(head, size):
                return candidate
        except Exception as error:  # a faulty plugin must not keep other formats from being tried
            warnings.warn(f"the checkpoint format {label!r} fails: {type(error).__name__}: {error}", stacklevel=2)
    for beginning, what in FOREIGN:
        if head.lstrip().startswith(beginning):
            raise CheckpointError(name, what)
    formats = list(known())
    for candidate in formats:
        suffixes = getattr(candidate, "suffixes", ())
        if isinstance(suffixes, (tuple, list)) and any(isinstance(suffix, str) and name.endswith(suffix) for suffix in suffixes):
            return candidate  # its reader raises the most precise error
    if size == 0:
        raise CheckpointError(name, "the file is empty")
    names = ", ".join(dict.fromkeys(candidate.name for candidate in formats))
    raise CheckpointError(name, f"not a checkpoint of a known format ({names}); it begins with {head[:16]!r}")
