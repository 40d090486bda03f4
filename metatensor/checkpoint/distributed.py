"""PyTorch's distributed checkpoints: a folder with ``.metadata`` and the ``.distcp`` files of each rank.

``.metadata`` is a pickle. It lists the tensors, the chunks that each was split into, and the location of each chunk.
The safe pickle machine reads it and represents its few classes by inert records. A chunk is a tensor in PyTorch's zip
format, in a range of a ``.distcp`` file. Tensors are assembled from their chunks. Other saved values are loaded like
any checkpoint.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from math import prod
from struct import pack
from typing import Any, BinaryIO, NamedTuple

from metatensor.checkpoint._values import Known, Record
from metatensor.checkpoint.boxes import MAX_CUT, Box, badly_covered, overlap
from metatensor.checkpoint.budget import Claims, current
from metatensor.checkpoint.errors import CheckpointError
from metatensor.checkpoint.map_location import Places
from metatensor.checkpoint.model import Checkpoint, Piece, TensorInfo
from metatensor.checkpoint.reading import Item, beside, contiguous, counted, materialise, must_be_found, resolved, row_major, shown
from metatensor.checkpoint.source import Source, open_file

__all__ = ["FORMAT", "METADATA", "SUFFIX", "Distributed", "Part", "files_of"]

MAX_METADATA = 1 << 28
MAX_DIMS = 64
MAX_PATH = 100
SUFFIX = ".distcp"
METADATA = ".metadata"
MODULE = b"torch.distributed.checkpoint.metadata"


def _get(record: Record, name: str, place: int) -> Any:
    """Return a member of a record by name, or by position if the record's state is a tuple."""
    state = record.state
    if isinstance(state, dict):
        return state.get(name)
    return state[place] if isinstance(state, tuple) and place < len(state) else None


class _Chunk(NamedTuple):
    """A part of a tensor, with the file and byte range that hold it."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    file: str
    begin: int
    length: int

    @property
    def box(self) -> Box:
        """The part of the tensor."""
        return Box(self.offsets, self.sizes)


class _Tensor(NamedTuple):
    """A tensor assembled from chunks."""

    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    chunks: list[_Chunk]


class Distributed:
    """Reader of ``.metadata`` and the files that it names. Tensors keep their fully qualified names."""

    name: str = "distributed"
    suffixes: tuple[str, ...] = (".metadata",)

    def matches(self, head: bytes, size: int) -> bool:
        """Return True if the file is a pickle that begins with the metadata class of distributed checkpoints."""
        return head[:1] == b"\x80" and MODULE in head[:128]

    def inspect(self, file: BinaryIO, name: str) -> Checkpoint:
        """Return the tensors that the metadata describes."""
        layout = _Layout(file, name)
        tensors = {
            key: TensorInfo(tensor.dtype, tensor.shape, tensor.nbytes, -1) for key, tensor in layout.tensors.items()
        }
        metadata = dict.fromkeys(layout.others, "not a tensor")
        return Checkpoint(name, self.name, layout.size, tensors, metadata, layout)

    def load(self, file: BinaryIO, name: str, place: Places) -> dict[str, Any]:
        """Return tensors and other values by their fully qualified names."""
        layout = _Layout(file, name)
        items = (
            Item(key, tensor.dtype, tensor.shape, None, _Assembly(layout, key, tensor)) for key, tensor in layout.tensors.items()
        )
        found: dict[str, Any] = materialise(items, place)
        for key, chunk in layout.others.items():
            found[key] = layout.value(chunk, place)
        return found

    def fetch(self, file: BinaryIO, name: str, checkpoint: Checkpoint, tensor: str) -> Any:
        """Return the bytes of a tensor, assembled from its chunks."""
        layout: _Layout = checkpoint.private
        return _Assembly(layout, tensor, layout.tensors[tensor])()

    def piece(self, checkpoint: Checkpoint, tensor: str, offsets: tuple[int, ...]) -> Piece:
        """Return the chunk of a tensor that begins at ``offsets``."""
        layout: _Layout = checkpoint.private
        chunk = layout.chunk_at(tensor, offsets)
        return _Assembly(layout, tensor, layout.tensors[tensor]).piece(chunk)

    def object_bytes(self, checkpoint: Checkpoint, name: str) -> bytes:
        """Return the file, in any format, that holds an object that is not a tensor."""
        layout: _Layout = checkpoint.private
        chunk = layout.others[name]
        path = beside(layout.name, chunk.file, "the file")
        with open_file(path) as file:
            return Source(file, path).read(chunk.begin, chunk.length, f"the object {shown(name)}")

    def pieces(self, checkpoint: Checkpoint, tensor: str, box: Box) -> list[Piece]:
        """Return the chunks that hold elements of a box."""
        layout: _Layout = checkpoint.private
        assembly = _Assembly(layout, tensor, layout.tensors[tensor])
        return [assembly.piece(chunk) for chunk in layout.tensors[tensor].chunks if overlap(chunk.box, box) is not None]


FORMAT = Distributed()


def files_of(path: str) -> set[str] | None:
    """Return the names of the ``.distcp`` files to which the metadata at ``path`` refers, or None if it cannot be read."""
    try:
        with open_file(path) as file:
            source = Source(file, path)
            root = _unpickled(source.read(0, min(source.size, MAX_METADATA)), path)
    except FileNotFoundError:
        return set()
    except (OSError, CheckpointError):
        return None
    table = _get(root, "storage_data", 2) if isinstance(root, Record) else None
    found = (_get(info, "relative_path", 0) for info in table.values() if isinstance(info, Record)) if isinstance(table, dict) else ()
    return {name for name in found if isinstance(name, str) and name.endswith(SUFFIX) and not any(c in name for c in "/\\:\0")}


class Part(io.RawIOBase):
    """A file object over a range of an open file."""

    def __init__(self, file: BinaryIO, begin: int, length: int) -> None:
        self._file = file
        self._begin = begin
        self._length = length
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = max(0, offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._length}[whence])
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        count = max(0, min(len(view), self._length - self._at))
        self._file.seek(self._begin + self._at)
        read: int = self._file.readinto(view[:count])  # type: ignore[attr-defined]
        self._at += read
        return read


class _Layout:
    """The checked contents of the metadata."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.name = name
        source = Source(file, name)
        if source.size > MAX_METADATA:
            raise CheckpointError(name, f"the metadata has {source.size:,} bytes; the limit is {MAX_METADATA:,}")
        root = _unpickled(source.read(0, source.size, "the metadata"), name)
        must_be_found(file, name, "files of chunks")
        self.size = source.size
        self.tensors: dict[str, _Tensor] = {}
        self.others: dict[str, _Chunk] = {}
        self._sizes: dict[str, int] = {}
        self._claims: dict[str, Claims] = {}
        self._at: dict[str, dict[bytes, _Chunk]] = {}
        self.budget = current()
        if not isinstance(root, Record) or root.name != "Metadata" or not isinstance(root.state, dict):
            raise CheckpointError(name, "it is a pickle, but not of a distributed checkpoint's metadata")
        places = self._places(_get(root, "storage_data", 2))
        entries = _get(root, "state_dict_metadata", 0)
        if not isinstance(entries, dict):
            raise CheckpointError(name, "the metadata has no table of tensors")
        for key, entry in entries.items():
            if not isinstance(key, str) or not isinstance(entry, Record):
                raise CheckpointError(name, f"the metadata has an invalid entry {shown(key)}")
            if entry.name == "TensorStorageMetadata":
                self.tensors[key] = self._tensor(key, entry, places)
            elif entry.name == "BytesStorageMetadata":
                if (key, None) not in places:
                    raise self._wrong(key, "it is not stored anywhere")
                self.others[key] = places[key, None]
            else:
                raise self._wrong(key, f"it is of class {entry.name}, which does not describe an entry")
        self.paths = _paths(_get(root, "planner_data", 1))
        self.size += sum(self._sizes.values())

    def _places(self, table: Any) -> dict[tuple[str, Any], _Chunk]:
        """Return each chunk's location, keyed by the tensor's name and the chunk's offsets."""
        if not isinstance(table, dict):
            raise CheckpointError(self.name, "the metadata has no table of locations")
        found = {}
        for index, info in table.items():
            sound = isinstance(index, Record) and index.name == "MetadataIndex" and isinstance(info, Record) and info.name == "_StorageInfo"
            if not sound:
                raise CheckpointError(self.name, "the metadata has an invalid storage location")
            key, offsets = _get(index, "fqn", 0), _get(index, "offset", 1)
            file, begin, length = _get(info, "relative_path", 0), _get(info, "offset", 1), _get(info, "length", 2)
            if not isinstance(key, str) or not (offsets is None or _is_sizes(offsets)):
                raise CheckpointError(self.name, f"the metadata has an invalid storage location for {shown(key)}")
            if type(begin) is not int or type(length) is not int or not 0 <= begin < 2**63 or not 0 <= length < 2**63:
                raise self._wrong(key, f"its location, {shown(length)} bytes from byte {shown(begin)} on, is invalid")
            if _get(info, "transform_descriptors", 3):
                raise self._wrong(key, "it is compressed or otherwise transformed, which is not supported")
            if not isinstance(file, str) or file not in self._sizes:
                path = beside(self.name, file, "the file")
                with open_file(path) as opened:
                    self._sizes[file] = Source(opened, path).size
                self._claims[file] = Claims(path, self._sizes[file], "tensors claim the same bytes again and again, which takes memory")
            self._claims[file].add(length)
            if begin + length > self._sizes[file]:
                raise self._wrong(key, f"truncated: {length:,} bytes from byte {begin:,} of {file!r}, which has {self._sizes[file]:,}")
            place = (key, None if offsets is None else _packed(offsets))
            if place in found:
                raise self._wrong(key, "one of its chunks has two locations")
            found[place] = _Chunk(tuple(offsets or ()), (), file, begin, length)
        return found

    def _tensor(self, key: str, entry: Record, places: dict[tuple[str, Any], _Chunk]) -> _Tensor:
        import metatensor as mt

        shape, properties, chunks = _get(entry, "size", 1), _get(entry, "properties", 0), _get(entry, "chunks", 2)
        dtype = _get(properties, "dtype", 0) if isinstance(properties, Record) else None
        if not isinstance(dtype, mt.dtype):
            raise self._wrong(key, "its dtype is invalid")
        if not _is_sizes(shape) or not isinstance(chunks, list):
            raise self._wrong(key, "its shape or its list of chunks is invalid")
        shape = tuple(shape)
        nbytes = counted(self.name, key, shape, 8 * dtype.itemsize)
        found = []
        for chunk in chunks:
            offsets: Any = _get(chunk, "offsets", 0) if isinstance(chunk, Record) else None
            sizes: Any = _get(chunk, "sizes", 1) if isinstance(chunk, Record) else None
            if not _is_sizes(offsets) or not _is_sizes(sizes) or len(offsets) != len(shape) or len(sizes) != len(shape):
                raise self._wrong(key, "one of its chunks has an invalid location")
            if any(begin + size > whole for begin, size, whole in zip(offsets, sizes, shape)):
                raise self._wrong(key, f"a chunk of {shown(list(sizes))} at {shown(list(offsets))} is not within {shown(list(shape))}")
            place = places.get((key, _packed(offsets)))
            if place is None:
                raise self._wrong(key, f"its chunk at {shown(list(offsets))} is not stored anywhere")
            claimed = prod(sizes) * dtype.itemsize
            if claimed > place.length:  # the chunk was saved from an expanded tensor
                self.budget.charge(self.name, claimed - place.length, f"the chunks of {shown(key)} take memory")
            found.append(place._replace(offsets=tuple(offsets), sizes=tuple(sizes)))
        _check_cover(self, key, shape, found)
        return _Tensor(dtype.name, shape, nbytes, found)

    def chunk_at(self, key: str, offsets: tuple[int, ...]) -> _Chunk:
        """Return the chunk of a tensor that begins at ``offsets``."""
        if key not in self._at:
            self._at[key] = {_packed(chunk.offsets): chunk for chunk in self.tensors[key].chunks}
        return self._at[key][_packed(offsets)]

    def value(self, chunk: _Chunk, place: Places) -> Any:
        """Load a saved value that is not a tensor."""
        from metatensor.checkpoint.formats import format_of

        path = beside(self.name, chunk.file, "the file")
        with open_file(path) as file:
            part: Any = Part(file, chunk.begin, chunk.length)
            form = format_of(part, path)
            if form is FORMAT:
                raise CheckpointError(path, "the checkpoint contains itself")
            return form.load(part, path, place)

    def _wrong(self, key: Any, reason: str) -> CheckpointError:
        return CheckpointError(self.name, f"{shown(key)}: {reason}")


def _paths(table: Any) -> dict[str, tuple[Any, ...]]:
    """Return the path of each entry in the nested state dict that was saved. Omit what is not a path."""
    if not isinstance(table, dict):
        return {}
    return {
        key: path for key, path in table.items()
        if isinstance(key, str) and isinstance(path, tuple) and 0 < len(path) <= MAX_PATH and all(type(one) in (str, int) for one in path)
    }  # fmt: skip


def _is_sizes(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) <= MAX_DIMS and all(type(size) is int and 0 <= size < 2**63 for size in value)


def _packed(offsets: tuple[int, ...]) -> bytes:
    """Return offsets as bytes, for use as a dict key. A file could choose tuples whose hashes collide."""
    return pack(f"<{len(offsets)}q", *offsets)


def _check_cover(layout: _Layout, key: str, shape: tuple[int, ...], chunks: list[_Chunk]) -> None:
    """Check that the chunks contain each element of a tensor exactly once."""
    total = sum(prod(chunk.sizes) for chunk in chunks)
    if total != prod(shape):
        raise layout._wrong(key, f"its chunks hold {total:,} elements, but its shape {shown(list(shape))} has {prod(shape):,}")
    full = [chunk.box for chunk in chunks if prod(chunk.sizes)]
    cut = sum(any(box.sizes[dim] != size for box in full) for dim, size in enumerate(shape))
    if cut <= MAX_CUT:
        layout.budget.charge(layout.name, max(0, 16 * len(full) << cut) - 1024 * len(full), f"the chunks of {shown(key)} take time")
    try:
        at = badly_covered(shape, full)
    except ValueError as error:
        raise layout._wrong(key, f"its {error}") from None
    if at is not None:
        raise layout._wrong(key, f"its chunks overlap, or leave a gap, at {shown(list(at))}")


class _Assembly:
    """Callable that returns a tensor's bytes in row-major order, assembled from its chunks."""

    def __init__(self, layout: _Layout, key: str, tensor: _Tensor) -> None:
        self.layout = layout
        self.key = key
        self.tensor = tensor

    def __call__(self) -> Any:
        tensor = self.tensor
        if len(tensor.chunks) == 1:
            return self._chunk(tensor.chunks[0])
        out = memoryview(bytearray(tensor.nbytes))
        size = tensor.nbytes // max(prod(tensor.shape), 1)
        for chunk in tensor.chunks:
            if prod(chunk.sizes):
                data = memoryview(self._chunk(chunk)).cast("B")
                for run, (begin, end) in enumerate(_runs(tensor.shape, chunk.offsets, chunk.sizes)):
                    count = (end - begin) * size
                    out[begin * size : end * size] = data[run * count : (run + 1) * count]
        return out

    def piece(self, chunk: _Chunk) -> Piece:
        """Return the location of a chunk's elements, from the header of its zip file."""
        from metatensor.checkpoint import zips

        path = beside(self.layout.name, chunk.file, "the file")
        with open_file(path) as file:
            part: Any = Part(file, chunk.begin, chunk.length)
            found = zips.FORMAT.inspect(part, path)
        infos = list(found.tensors.values())
        if len(infos) != 1 or infos[0].dtype != self.tensor.dtype or infos[0].shape != chunk.sizes:
            raise CheckpointError(path, f"the chunk of {shown(self.key)} at byte {chunk.begin:,} does not match the metadata")
        if infos[0].offset < 0:
            raise CheckpointError(path, f"the chunk of {shown(self.key)} at byte {chunk.begin:,} is compressed or byte-swapped")
        return Piece(chunk.box, path, infos[0]._replace(offset=chunk.begin + infos[0].offset))

    def _chunk(self, chunk: _Chunk) -> Any:
        """Return the elements of a chunk in row-major order."""
        from metatensor.checkpoint.opening import span_bytes

        _, path, info = self.piece(chunk)
        assert path is not None
        with open_file(path) as file:
            part: Any = Part(file, chunk.begin, chunk.length)
            data = Source(part, path).read(info.offset - chunk.begin, span_bytes(info), f"the chunk of {shown(self.key)}")
        data = resolved(data, info, path)
        if info.stride is None or info.stride == contiguous(info.shape) or not info.nbytes:
            return data
        return row_major(data, info)


def _runs(shape: tuple[int, ...], offsets: tuple[int, ...], sizes: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Yield the (begin, end) element ranges of a block within a contiguous tensor, in the block's row-major order."""
    inner = len(shape)
    while inner > 0 and sizes[inner - 1] == shape[inner - 1]:
        inner -= 1  # the block spans this dimension
    inner = max(inner - 1, 0)
    steps = contiguous(shape)
    length = prod(sizes[inner:])
    index = [0] * inner
    while True:
        begin = sum((first + i) * step for first, i, step in zip(offsets, index, steps))
        begin += offsets[inner] * steps[inner] if inner < len(shape) else 0
        yield begin, begin + length
        for dim in range(inner - 1, -1, -1):
            index[dim] += 1
            if index[dim] < sizes[dim]:
                break
            index[dim] = 0
        else:
            return


# The pickle -----------------------------------------------------------------------


def _unpickled(data: bytes, name: str) -> Any:
    """Return the value of the metadata's pickle. Unknown names become inert placeholders."""
    from metatensor.checkpoint._pickle import Machine

    machine = Machine(name, _table(), builders={Record: _build}, tolerant=True)
    return machine.load(data)[0]


def _build(machine: Any, record: Record, state: Any) -> None:
    record.state = state


_known: dict[bytes, Any] = {}


def _table() -> dict[bytes, Any]:
    """Return the names that metadata may use and their handlers."""
    if not _known:
        import metatensor as mt

        def record(module: str, kind: str) -> None:
            def new(machine: Any, args: tuple) -> Record:
                machine.charge(120)
                made = Record(kind)
                made.state = args
                return made

            _known[f"{module}\n{kind}".encode()] = Known(kind, new, new=True)

        for kind in ("Metadata", "TensorStorageMetadata", "BytesStorageMetadata", "TensorProperties", "ChunkStorageMetadata",
                     "MetadataIndex", "StorageMeta", "_MEM_FORMAT_ENCODING"):  # fmt: skip
            record(MODULE.decode(), kind)
        record("torch.distributed.checkpoint.filesystem", "_StorageInfo")
        for module in ("pathlib", "pathlib._local"):
            for kind in ("PosixPath", "PurePosixPath", "WindowsPath", "PureWindowsPath"):
                record(module, kind)
        record("torch.serialization", "_get_layout")

        def sizes(machine: Any, args: tuple) -> tuple:
            if len(args) != 1 or not isinstance(args[0], (tuple, list)):
                raise machine.error("torch.Size takes a tuple")
            machine.charge(64 + 16 * len(args[0]))
            return tuple(args[0])

        _known[b"torch\nSize"] = Known("torch.Size", sizes, value=tuple, new=True)
        for dtype in {value for value in vars(mt).values() if isinstance(value, mt.dtype)}:
            _known[f"torch\n{dtype.name}".encode()] = dtype
    return _known
