"""Zip files. The names of the members tell which zip-based format a file has."""

from __future__ import annotations

from importlib import import_module
from typing import Any, BinaryIO

from metatensor.checkpoint._zip import Directory
from metatensor.checkpoint.errors import CheckpointError
from metatensor.checkpoint.map_location import Places
from metatensor.checkpoint.members import Members
from metatensor.checkpoint.model import Checkpoint
from metatensor.checkpoint.source import Source

__all__ = ["FORMAT", "READERS", "Zips"]

# Modules whose FORMAT has methods `has`, `inspect`, `load` and `fetch` that take the directory. The first whose `has`
# returns true reads the file.
READERS = ("metatensor.checkpoint.torch_script", "metatensor.checkpoint.torch_zip", "metatensor.checkpoint.npz")


class Zips:
    """Dispatches a zip file to its reader."""

    name: str = "PyTorch (zip)"
    suffixes: tuple[str, ...] = (".pt", ".pth", ".ckpt", ".npz")

    def matches(self, head: bytes, size: int) -> bool:
        """Return True if the file begins with a member's header, or with the end record of an empty archive."""
        return head[:4] in (b"PK\3\4", b"PK\5\6")

    def inspect(self, file: BinaryIO, name: str) -> Checkpoint:
        """Return the reader's description of the file."""
        reader, directory = self.reader(file, name)
        checkpoint: Checkpoint = reader.inspect(directory)
        if isinstance(checkpoint.private, Members):
            checkpoint.private.reader = reader
        return checkpoint

    def load(self, file: BinaryIO, name: str, place: Places) -> Any:
        """Return the object that the reader loads."""
        reader, directory = self.reader(file, name)
        return reader.load(directory, place)

    def unpickle(self, file: BinaryIO, name: str, place: Places, pickle_module: Any = None, **options: Any) -> Any:
        """Return what Python's unpickler loads from PyTorch's archive. Load any other archive as `load` does."""
        reader, directory = self.reader(file, name)
        if not hasattr(reader, "unpickle"):
            return reader.load(directory, place)
        return reader.unpickle(directory, place, pickle_module, **options)

    def fetch(self, file: BinaryIO, name: str, checkpoint: Checkpoint, tensor: str) -> Any:
        """Return the bytes of a tensor that cannot be copied straight from the file, such as a compressed one."""
        members = checkpoint.private
        if isinstance(members, Members) and members.directory.source.file is file:
            return members.reader.fetch(members.directory, checkpoint, tensor)
        reader, directory = self.reader(file, name)
        return reader.fetch(directory, checkpoint, tensor)

    def reader(self, file: BinaryIO, name: str) -> tuple[Any, Directory]:
        """Return a file's reader and its directory."""
        directory = Directory(Source(file, name))
        for module in READERS:
            reader = import_module(module).FORMAT
            if reader.has(directory):
                return reader, directory
        names = ", ".join(repr(member[:60]) for member in list(directory)[:5])
        raise CheckpointError(name, f"a zip file, but no checkpoint of a known format: its members are {names or 'none'}")


FORMAT = Zips()
