"""The formats that checkpoints have, and how a file's own is found: by its content, never by its name.

Ours are in `BUILTIN`; each module is imported when a file may be of its format. Others come through the hook
``metatensor_checkpoint_formats``.
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
    from metatensor.checkpoint.places import Places

__all__ = ["BUILTIN", "HEAD", "Format", "format_of", "known"]

HEAD = 512
"""How many bytes of a file its format is told by."""


class Format(Protocol):
    """What a checkpoint format provides.

    It may also have ``fetch(file, name, checkpoint, tensor)``: the bytes of one tensor, from its first to its last element in
    memory, in this machine's byte order. `load_into` and `convert` ask for it where `TensorInfo.offset` is -1.
    """

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

    def load(self, file: BinaryIO, name: str, place: Places) -> Any:
        """What ``file`` holds, its tensors by name where it is no more than that.

        ``place(location)`` is the device of a tensor that was saved at ``location`` ("cpu" where the format does
        not say); for meta no data are read. Raises `CheckpointError` with ``name`` in it.
        """
        raise NotImplementedError


# A test of the first bytes that costs nothing, and the module (its FORMAT) that knows more.
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


# What is taken for a checkpoint now and then: how it begins, and what it is.
FOREIGN: tuple[tuple[bytes, str], ...] = (
    (b"version https://git-lfs.github.com/", "a pointer of Git LFS, which stands for the file itself: fetch that with `git lfs pull`"),
    (b"\x1f\x8b", "compressed by gzip: unpack it first"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes them: not a format that is known here"),
    (b"<", "a page of HTML or XML: a download that failed, most likely"),
    (b"\x80", "a pickle by itself, without tensors' data beside it: not a file that torch.save wrote"),
)


def known() -> Iterator[Format]:
    """All formats, ours first."""
    from metatensor import plugins

    for _, module in BUILTIN:
        yield import_module(module).FORMAT
    yield from plugins.formats().values()


def format_of(file: BinaryIO, name: str) -> Format:
    """The format of the file from its position on. `CheckpointError` where there is none."""
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
        except Exception as error:  # a format that fails is none for the other files
            warnings.warn(f"the checkpoint format {label!r} fails: {type(error).__name__}: {error}", stacklevel=2)
    for beginning, what in FOREIGN:
        if head.lstrip().startswith(beginning):
            raise CheckpointError(name, what)
    formats = list(known())
    for candidate in formats:
        suffixes = getattr(candidate, "suffixes", ())
        if isinstance(suffixes, (tuple, list)) and any(isinstance(suffix, str) and name.endswith(suffix) for suffix in suffixes):
            return candidate  # its own reader says best what is wrong
    if size == 0:
        raise CheckpointError(name, "the file is empty")
    names = ", ".join(dict.fromkeys(candidate.name for candidate in formats))
    raise CheckpointError(name, f"not a checkpoint of a known format ({names}); it begins with {head[:16]!r}")
