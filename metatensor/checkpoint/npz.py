"""NumPy's ``.npz`` archives: zip files of ``.npy`` files."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from metatensor.checkpoint._zip import Directory
from metatensor.checkpoint.errors import CheckpointError
from metatensor.checkpoint.map_location import Places
from metatensor.checkpoint.members import Members
from metatensor.checkpoint.model import Checkpoint, TensorInfo
from metatensor.checkpoint.npy import Array, array_at, header_size, info_of, read_array
from metatensor.checkpoint.reading import Item, materialise
from metatensor.checkpoint.source import Source

__all__ = ["FORMAT", "Npz"]

ENDING = ".npy"
MAX_INFLATED = 1 << 34
"""Largest size in bytes of one decompressed array. The size of the file also limits the total of all arrays."""


FIRST, MAX_HEAD = 1 << 13, 1 << 17
"""Number of bytes to decompress for a header: the first attempt, and the limit."""


class _Arrays(Members):
    """An archive and its arrays by name."""

    def __init__(self, directory: Directory, found: dict[str, _Found]) -> None:
        super().__init__(directory)
        self.found = found


class _Found(NamedTuple):
    """An array of the archive."""

    name: str
    member: str
    array: Array
    stored: bool


class Npz:
    """Reader of archives of arrays, stored or compressed."""

    name: str = "npz"

    def has(self, directory: Directory) -> bool:
        """Return True if the names of all members end in ``.npy``."""
        return all(member.endswith(ENDING) for member in directory)

    def inspect(self, directory: Directory) -> Checkpoint:
        """Return the arrays, described by their headers alone."""
        source = directory.source
        found = {item.name: item for item in self._arrays(source, directory)}
        tensors = {}
        for item in found.values():
            info: TensorInfo = info_of(item.array)
            tensors[item.name] = info if item.stored else info._replace(offset=-1)
        return Checkpoint(source.name, self.name, source.size, tensors, private=_Arrays(directory, found))

    def load(self, directory: Directory, place: Places) -> dict[str, Any]:
        """Return the arrays as a dict of tensors by name."""
        with directory.source as source:
            return materialise((self._item(source, directory, found) for found in self._arrays(source, directory)), place)

    def fetch(self, directory: Directory, checkpoint: Checkpoint, tensor: str) -> Any:
        """Return the elements of an array in memory order."""
        return self._item(directory.source, directory, checkpoint.private.found[tensor]).fetch()

    def _item(self, source: Source, directory: Any, found: _Found) -> Item:
        item = array_at(source, found.name, found.array)
        if found.stored:
            return item

        def fetch() -> Any:
            content = directory.read(found.member, MAX_INFLATED)
            return array_at(Source(io.BytesIO(content), source.name), found.name, found.array).fetch()

        return item._replace(fetch=fetch, place=None)

    def _arrays(self, source: Source, directory: Directory) -> Iterator[_Found]:
        """Yield all arrays with their headers. Only the beginning of a compressed array is decompressed.
        """
        for member in directory:
            name = member.removesuffix(ENDING)
            begin, packed = directory.place_of(member)
            if directory.is_stored(member):
                yield _Found(name, member, read_array(source, begin, begin + packed, name), True)
                continue
            size = directory.size_of(member)
            for most in (FIRST, MAX_HEAD):
                try:
                    head = zlib.decompressobj(-15).decompress(source.read(begin, min(packed, most), "an array"), most)
                except zlib.error as error:
                    raise CheckpointError(source.name, f"the array {name[:100]!r} cannot be decompressed: {error}") from None
                if len(head) < most or most == MAX_HEAD or header_size(head) <= most // 2:
                    break
            yield _Found(name, member, read_array(Source(io.BytesIO(head), source.name), 0, size, name), False)


FORMAT = Npz()
