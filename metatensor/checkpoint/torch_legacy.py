"""PyTorch's format before 1.6: a stream of pickles, followed by the bytes of the storages.

The pickles hold a magic number, a version, properties of the machine that wrote the file, the object, and the keys of
the storages in file order. Each storage consists of its number of elements (8 bytes) and its data.
The even older tar format is recognized and refused.
"""

from __future__ import annotations

import sys
from typing import Any, BinaryIO

from metatensor.checkpoint._pickle import Machine
from metatensor.checkpoint._stack import Truncated
from metatensor.checkpoint._tensors import TensorMachine
from metatensor.checkpoint.errors import CheckpointError
from metatensor.checkpoint.filling import Filler
from metatensor.checkpoint.listing import listed
from metatensor.checkpoint.map_location import FakePlaces, Places
from metatensor.checkpoint.model import Checkpoint
from metatensor.checkpoint.source import Source
from metatensor.checkpoint.torch_names import table
from metatensor.checkpoint.torch_zip import MAX_PICKLE, fill_tensor
from metatensor.serialization import allowed_names

__all__ = ["FORMAT", "MAGIC", "TorchLegacy"]

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001
FIRST = 4096
"""Number of bytes to read at first for a pickle. For the pickle of the object, 64 times as many are read."""


class TorchLegacy:
    """Reader of streams that torch.save wrote."""

    name: str = "PyTorch (legacy)"
    suffixes: tuple[str, ...] = (".pt", ".pth", ".bin", ".ckpt")

    def matches(self, head: bytes, size: int) -> bool:
        """Return True if the file begins with a pickle of the magic number, or is a tar archive.

        The reader then rejects the tar archive.
        """
        binary, text = MAGIC.to_bytes(10, "little"), b"L%dL\n" % MAGIC  # in pickle protocol 2 and up, and in 0 and 1
        return binary in head[:32] or head.startswith(text) or b"ustar" in head[250:270]

    def inspect(self, file: BinaryIO, name: str) -> Checkpoint:
        """Return what the pickle describes. The metadata lists unknown names."""
        stream = _Stream(file, name, Places("meta"), tolerant=True)
        straight = stream.order == sys.byteorder
        return listed(self.name, stream.source, stream.value, stream.machine, lambda ref: stream.begins[ref.key] if straight else -1)

    def load(self, file: BinaryIO, name: str, place: Places) -> Any:
        """Return the saved object, with its tensors on the devices that ``place`` returns."""
        return self._filled(_Stream(file, name, place), file)

    def unpickle(self, file: BinaryIO, name: str, place: Places, pickle_module: Any = None, **options: Any) -> Any:
        """Return the object that Python's unpickler, or that of ``pickle_module``, loads from the stream."""
        from metatensor.checkpoint.unpickling import unpickler_for

        stream = _Stream(file, name, place, unpickle=lambda data, trusted: unpickler_for(pickle_module)(data, trusted, **options).load())
        return self._filled(stream, file)

    def _filled(self, stream: _Stream, file: BinaryIO) -> Any:
        if isinstance(stream.place, FakePlaces):
            stream.place.note(stream.machine.storages.values())
        filler = Filler(stream.order)
        with stream.source as source:
            for ref in stream.machine.storages.values():
                if ref.storage.device.type != "meta":
                    begin = stream.begins[ref.key]
                    filler.fill(ref.storage, source.at(begin, begin + ref.nbytes) if ref.nbytes else None, ref.dtype)
        for tensor, values in stream.machine.fillings:
            fill_tensor(tensor, values)
        file.seek(stream.source.start + stream.end)
        return stream.value


FORMAT = TorchLegacy()


class _Stream:
    """A stream whose pickles have been read and checked. The bytes of the storages have not been read."""

    def __init__(self, file: BinaryIO, name: str, place: Places, tolerant: bool = False, unpickle: Any = None) -> None:
        self.unpickle = unpickle
        """``unpickle(file, Trusted)`` if Python's own unpickler loads the object, else None."""
        self.source = Source(file, name)
        self.place = place
        self.tolerant = tolerant
        self.end = 0
        head = self.source.read(0, min(270, self.source.size))
        if b"ustar" in head[250:]:
            raise CheckpointError(name, "a tar archive, PyTorch's format before 0.2: load it with PyTorch and save it again")
        self._expect(MAGIC, "the magic number")
        self._expect(PROTOCOL, "the version")
        about = self._plain("the properties of the writing machine")
        if type(about) is not dict or type(about.get("little_endian")) is not bool:
            raise CheckpointError(name, f"at byte {self.end:,}: the file does not record its byte order")
        self.order = "little" if about["little_endian"] else "big"
        self.machine, self.value = self._object()
        self.begins = self._storages(self._plain("the storages' keys"))

    def _plain(self, what: str) -> Any:
        """Return the value of the next pickle, which may not name classes or functions."""
        return self._pickle(lambda: Machine(self.source.name, {}), what)[1]

    def _expect(self, value: int, what: str) -> None:
        before = self.end
        found = self._plain(what)
        if type(found) is not int or found != value:
            raise CheckpointError(self.source.name, f"at byte {before:,}: {what} is not {value}")

    def _object(self) -> tuple[Any, Any]:
        if self.unpickle is not None:
            from metatensor.checkpoint.unpickling import Trusted

            trusted = Trusted(self.source.name, self.place)
            self.source.file.seek(self.source.start + self.end)
            value = self.unpickle(self.source.file, trusted)
            self.end = self.source.file.tell() - self.source.start
            return trusted, value

        def make() -> TensorMachine:
            return TensorMachine(self.source.name, table(), self.place, allowed=allowed_names(), tolerant=self.tolerant)

        return self._pickle(make, "the object", 64 * FIRST)

    def _pickle(self, make: Any, what: str, chunk: int = FIRST) -> tuple[Any, Any]:
        """Run the next pickle. Return the machine that ran it, and its value."""
        source = self.source
        while True:
            data = source.read(self.end, min(chunk, source.size - self.end), what)
            machine = make()
            try:
                value, used = machine.load(data, self.end)
            except Truncated:
                if len(data) == source.size - self.end:
                    raise
                if chunk >= MAX_PICKLE:
                    raise CheckpointError(source.name, f"at byte {self.end:,}: {what} takes more than {chunk:,} bytes") from None
                chunk *= 4
                continue
            self.end += used
            return machine, value

    def _storages(self, keys: Any) -> dict[str, int]:
        """Return the offset of each storage's bytes."""
        source, storages = self.source, self.machine.storages
        if type(keys) is not list or any(type(key) is not str for key in keys):
            raise CheckpointError(source.name, f"at byte {self.end:,}: the storages' keys must be a list of strings")
        if len(set(keys)) != len(keys) or set(keys) != set(storages):
            raise CheckpointError(
                source.name,
                f"at byte {self.end:,}: the file has {len(keys):,} storages with {len(set(keys)):,} keys, but "
                f"its tensors use {len(storages):,} storages; the two sets of keys must be equal",
            )
        begins = {}
        for key in keys:
            ref = storages[key]
            width = 1 if ref.dtype is None else ref.dtype.itemsize
            numel = int.from_bytes(source.read(self.end, 8, f"the size of storage {key[:40]!r}"), "little")
            if numel * width != ref.nbytes:
                raise CheckpointError(
                    source.name,
                    f"at byte {self.end:,}: storage {key[:40]!r} has {numel * width:,} bytes, but its tensors need {ref.nbytes:,}",
                )
            begins[key] = self.end + 8
            source.check(self.end + 8, ref.nbytes, f"storage {key[:40]!r}")
            self.end += 8 + ref.nbytes
        return begins


