"""NumPy's archives: a zip file of array files."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from metatensor.checkpoint._zip import Directory
from metatensor.checkpoint.errors import CheckpointError
from metatensor.checkpoint.model import Checkpoint, TensorInfo
from metatensor.checkpoint.npy import Array, array_at, info_of, read_array
from metatensor.checkpoint.places import Places
from metatensor.checkpoint.reading import Item, materialise
from metatensor.checkpoint.source import Source

__all__ = ["FORMAT", "Npz"]

MAX_INFLATED = 1 << 34
"""Most bytes of one compressed array; what all of them may claim is bounded by the size of the file."""


class _Found(NamedTuple):
    """An array of the archive."""

    name: str
    member: str
    array: Array
    stored: bool


class Npz:
    """Reads archives of arrays, stored or compressed."""

    name: str = "npz"
    suffixes: tuple[str, ...] = (".npz",)

    def matches(self, head: bytes, size: int) -> bool:
        """A zip file whose first member is called after an array."""
        length = int.from_bytes(head[26:28], "little")
        return head[:4] == b"PK\3\4" and head[30 : 30 + length].endswith(b".npy")

    def inspect(self, file: BinaryIO, name: str) -> Checkpoint:
        """The arrays, by their headers alone."""
        source = Source(file, name)
        found = {item.name: item for item in self._arrays(source)}
        tensors = {}
        for item in found.values():
            info: TensorInfo = info_of(item.array)
            tensors[item.name] = info if item.stored else info._replace(offset=-1)
        return Checkpoint(name, self.name, source.size, tensors, private=found)

    def load(self, file: BinaryIO, name: str, place: Places) -> dict[str, Any]:
        """The arrays by name, as tensors."""
        with Source(file, name) as source:
            directory = Directory(source)
            return materialise((self._item(source, directory, found) for found in self._arrays(source, directory)), place)

    def fetch(self, file: BinaryIO, name: str, checkpoint: Checkpoint, tensor: str) -> Any:
        """The elements of an array in the order of memory."""
        source = Source(file, name)
        return self._item(source, Directory(source), checkpoint.private[tensor]).fetch()

    def _item(self, source: Source, directory: Any, found: _Found) -> Item:
        item = array_at(source, found.name, found.array)
        if found.stored:
            return item

        def fetch() -> Any:
            content = directory.read(found.member, MAX_INFLATED)
            return array_at(Source(io.BytesIO(content), source.name), found.name, found.array).fetch()

        return item._replace(fetch=fetch)

    def _arrays(self, source: Source, directory: Any = None) -> Iterator[_Found]:
        """All arrays with their headers; of a compressed one no more is decompressed than its header needs."""
        import zlib

        directory = Directory(source) if directory is None else directory
        names: set[str] = set()
        for member in directory:
            name = member.removesuffix(".npy")
            if name == member:
                raise CheckpointError(source.name, f"{member[:100]!r} is no array: an archive of NumPy's has nothing but .npy files")
            if name in names:
                raise CheckpointError(source.name, f"the array {name[:100]!r} is there twice")
            names.add(name)
            begin, packed = directory.place_of(member)
            if directory.is_stored(member):
                yield _Found(name, member, read_array(source, begin, begin + packed, name), True)
                continue
            size = directory.size_of(member)
            try:
                head = zlib.decompressobj(-15).decompress(source.read(begin, min(packed, 1 << 17), "an array"), 1 << 17)
            except zlib.error as error:
                raise CheckpointError(source.name, f"the array {name[:100]!r} cannot be decompressed: {error}") from None
            yield _Found(name, member, read_array(Source(io.BytesIO(head), source.name), 0, size, name), False)


FORMAT = Npz()
