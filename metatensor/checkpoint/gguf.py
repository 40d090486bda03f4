"""GGUF, the format of llama.cpp: metadata and a table of tensors, followed by the tensors' aligned data.

metatensor has no dtype for quantized tensors. They load as uint8 tensors of their blocks, with the bytes of a row in
the last dimension. `inspect` reports their type ("Q4_K") and the shape that they represent.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import struct
import sys
from math import prod
from typing import Any, BinaryIO, NamedTuple

from metatensor.checkpoint.errors import CheckpointError
from metatensor.checkpoint.map_location import Places
from metatensor.checkpoint.model import Checkpoint, TensorInfo
from metatensor.checkpoint.reading import Item, Window, counted, materialise, shown
from metatensor.checkpoint.source import Source, native

__all__ = ["BLOCKS", "FORMAT", "PLAIN", "Gguf"]

MAGIC = b"GGUF"
MAX_TENSORS = 1 << 17
MAX_PAIRS = 1 << 16
MAX_ITEMS = 1 << 20
"""Limit on the array items that are parsed one by one: strings and nested arrays. A nested array counts as 16."""
MAX_NAME = 1 << 16
MAX_DIMS = 8
MAX_SHOWN = 8
"""Number of array items shown in the metadata. The array of a vocabulary has hundreds of thousands."""

# Type number: (name, metatensor's dtype).
PLAIN = {
    0: ("F32", "float32"), 1: ("F16", "float16"), 24: ("I8", "int8"), 25: ("I16", "int16"), 26: ("I32", "int32"),
    27: ("I64", "int64"), 28: ("F64", "float64"), 30: ("BF16", "bfloat16"),
}  # fmt: skip

# Number of a quantized type: (name, elements per block, bytes per block).
BLOCKS = {
    2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22), 7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 36),
    10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110), 12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292), 16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136), 29: ("IQ1_M", 256, 56),
    34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66), 39: ("MXFP4", 32, 17), 40: ("NVFP4", 64, 36), 41: ("Q1_0", 128, 18),
}  # fmt: skip

# Number of a metadata type: its `struct` format.
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, ARRAY = 8, 9


class _Entry(NamedTuple):
    """A validated entry of the table of tensors."""

    name: str
    kind: int
    shape: tuple[int, ...]
    """The logical shape, outermost dimension first."""
    nbytes: int
    at: int
    """File offset of the data."""


class Gguf:
    """Reader of GGUF versions 2 and 3 in both byte orders."""

    name: str = "gguf"
    suffixes: tuple[str, ...] = (".gguf",)

    def matches(self, head: bytes, size: int) -> bool:
        """Return True if the file begins with the signature."""
        return head.startswith(MAGIC)

    def inspect(self, file: BinaryIO, name: str) -> Checkpoint:
        """Return the tensors and metadata that the header lists."""
        source = Source(file, name)
        header = _Header(source)
        raw = header.order == sys.byteorder
        tensors = {
            entry.name: TensorInfo(_type_name(entry.kind), entry.shape, entry.nbytes, entry.at if raw else -1) for entry in header.entries
        }
        return Checkpoint(name, self.name, source.size, tensors, header.metadata, header)

    def load(self, file: BinaryIO, name: str, place: Places) -> dict[str, Any]:
        """Return the tensors by name, quantized ones as blocks."""
        with Source(file, name) as source:
            header = _Header(source)
            return materialise((_item(source, header, entry) for entry in header.entries), place)

    def fetch(self, file: BinaryIO, name: str, checkpoint: Checkpoint, tensor: str) -> Any:
        """Return the bytes of a tensor, in the machine's byte order.

        Only called for files in the other byte order. Tensors of other files are read at their offsets.
        """
        return _item(Source(file, name), checkpoint.private, checkpoint.private.by_name[tensor]).fetch()


FORMAT = Gguf()


def _type_name(kind: int) -> str:
    return PLAIN[kind][1] if kind in PLAIN else BLOCKS[kind][0]


def _item(source: Source, header: _Header, entry: _Entry) -> Item:
    """Return the `Item` for a tensor. Raise `CheckpointError` for quantized blocks if the file's byte order is not the machine's."""

    def fetch() -> Any:
        return native(source.at(entry.at, entry.at + entry.nbytes), width, header.order)

    if entry.kind in PLAIN:
        import metatensor as mt

        dtype = PLAIN[entry.kind][1]
        width = getattr(mt, dtype).itemsize
        lies = (source, entry.at) if header.order == sys.byteorder or width == 1 else None
        return Item(entry.name, dtype, entry.shape, None, fetch, lies)
    if header.order != sys.byteorder:
        raise CheckpointError(
            source.name, f"tensor {shown(entry.name)}: its blocks of {BLOCKS[entry.kind][0]} are {header.order}-endian, this machine is not"
        )
    width = 1
    _, elements, nbytes = BLOCKS[entry.kind]
    return Item(entry.name, "uint8", (*entry.shape[:-1], entry.shape[-1] // elements * nbytes), None, fetch, (source, entry.at))


class _Header:
    """The checked contents of everything before the data."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.window = Window(source)
        self.metadata: dict[str, str] = {}
        self.alignment = 32
        self._items = 0
        if self.window.take(4, "the signature") != MAGIC:
            raise CheckpointError(source.name, "it does not begin with GGUF")
        version = int.from_bytes(self.window.take(4, "the version"), "little")
        self.order = "little"
        if version and version & 0xFFFF == 0:
            version, self.order = int.from_bytes(version.to_bytes(4, "little"), "big"), "big"
        self._mark = "<" if self.order == "little" else ">"
        if version not in (2, 3):
            raise CheckpointError(source.name, f"GGUF of version {version}; versions 2 and 3 are supported")
        tensors = self._count("Q", "the number of tensors", MAX_TENSORS, 24)
        pairs = self._count("Q", "the number of metadata", MAX_PAIRS, 13)
        for _ in range(pairs):
            self._pair()
        table = [self._tensor() for _ in range(tensors)]
        self.entries = self._place(table)
        self.by_name = {entry.name: entry for entry in self.entries}

    def _number(self, code: str, what: str) -> Any:
        return struct.unpack(self._mark + code, self.window.take(struct.calcsize(self._mark + code), what))[0]

    def _count(self, code: str, what: str, limit: int, least: int) -> int:
        """Read and return the number of items that follow, each of at least ``least`` bytes.

        Raise immediately if the file is too short to hold them.
        """
        count: int = self._number(code, what)
        if count > limit:
            raise self._wrong(f"{what} is {count:,}; the limit is {limit:,}")
        self.window.need(count * least, what)
        return count

    def _text(self, what: str, limit: int) -> str:
        length = self._number("Q", what)
        if length > limit:
            raise self._wrong(f"{what} has a length of {length:,} bytes; the limit is {limit:,}")
        return self.window.take(length, what).decode("utf-8", "replace")

    # Metadata -----------------------------------------------------------------

    def _pair(self) -> None:
        name = self._text("a name in the metadata", MAX_NAME)
        kind = self._number("I", "a type in the metadata")
        value = self._value(kind, name, 0)
        if name in self.metadata:
            raise self._wrong(f"the metadata have the name {shown(name)} twice")
        if name == "general.alignment":
            if type(value) is not int or not 0 < value <= 1 << 24 or value & (value - 1):
                raise self._wrong(f"general.alignment must be a power of two, not {shown(value)}")
            self.alignment = value
        self.metadata[name] = value if type(value) is str else str(value)

    def _value(self, kind: int, name: str, depth: int) -> Any:
        if kind in NUMBERS:
            return self._number(NUMBERS[kind], "a value of the metadata")
        if kind == TEXT:
            return self._text("a string in the metadata", 1 << 26)
        if kind != ARRAY:
            raise self._wrong(f"the metadata {shown(name)} have the invalid type {kind}")
        if depth == 4:
            raise self._wrong(f"the metadata {shown(name)} are nested too deeply")
        inner = self._number("I", "the type of an array")
        count: int = self._number("Q", "the length of an array")
        if inner in NUMBERS:
            size = struct.calcsize("<" + NUMBERS[inner])
            self.window.need(count * size, f"the array {shown(name)}")
            first = [self._number(NUMBERS[inner], "an item") for _ in range(min(count, MAX_SHOWN))]
            self.window.skip((count - len(first)) * size)
        else:
            self.window.need(count * (8 if inner == TEXT else 12), f"the array {shown(name)}")
            self._items += count if inner == TEXT else 16 * count
            if self._items > MAX_ITEMS:
                raise self._wrong(f"the arrays of the metadata have more than {MAX_ITEMS:,} items")
            first = []
            for i in range(count if inner == ARRAY else min(count, MAX_SHOWN)):
                item = self._value(inner, name, depth + 1)
                if i < MAX_SHOWN:
                    first.append(item if type(item) is not str else item[:100])
            if inner == TEXT:
                self._skip_texts(count - len(first))
        return f"{first}" if count <= MAX_SHOWN else f"{str(first)[:-1]}, ... {count:,} items]"

    def _skip_texts(self, count: int) -> None:
        """Skip ``count`` strings without reading them. The array of a vocabulary has many."""
        window = self.window
        length_at = struct.Struct(self._mark + "Q").unpack_from
        data, begin = b"", window.at
        for _ in range(count):
            at = window.at - begin
            if at + 8 > len(data):
                window.need(8, "an item")
                begin, at = window.at, 0
                data = window.source.read(begin, min(window.LARGE, window.end - begin))
            window.at += 8
            window.skip(length_at(data, at)[0], "an item")

    # Tensors ------------------------------------------------------------------

    def _tensor(self) -> tuple[str, int, tuple[int, ...], int, int]:
        """Return a tensor's name, type, shape, size in bytes, and offset from the start of all data."""
        name = self._text("the name of a tensor", MAX_NAME)
        ndim = self._number("I", "the dimensions of a tensor")
        if ndim > MAX_DIMS:
            raise self._wrong(f"tensor {shown(name)} has {ndim:,} dimensions; the limit is {MAX_DIMS}")
        # The file stores the innermost dimension first.
        shape = tuple(self._number("Q", "a size") for _ in range(ndim))[::-1]
        kind = self._number("I", "the type of a tensor")
        at: int = self._number("Q", "the place of a tensor")
        if kind in PLAIN:
            import metatensor as mt

            nbytes = counted(self.source.name, name, shape, 8 * getattr(mt, PLAIN[kind][1]).itemsize)
        elif kind in BLOCKS:
            label, elements, size = BLOCKS[kind]
            if not shape or shape[-1] % elements:
                raise self._wrong(f"tensor {shown(name)}: rows of {label} must consist of blocks of {elements} "
                                  f"elements, got shape {list(shape)}")
            counted(self.source.name, name, shape, 16)
            nbytes = prod(shape[:-1]) * (shape[-1] // elements) * size
        else:
            raise self._wrong(f"tensor {shown(name)} has the type {kind}, which is not known")
        return name, kind, shape, nbytes, at

    def _place(self, table: list[tuple[str, int, tuple[int, ...], int, int]]) -> list[_Entry]:
        """Return the tensors with their file offsets. Check that they are aligned, within the file, and do not overlap.
        """
        base = -(-self.window.at // self.alignment) * self.alignment
        entries, names = [], set()
        for name, kind, shape, nbytes, at in table:
            if name in names:
                raise self._wrong(f"the tensor {shown(name)} occurs twice")
            names.add(name)
            if at % self.alignment:
                raise self._wrong(f"tensor {shown(name)} begins at {at:,}, which is not a multiple of the alignment {self.alignment}")
            if nbytes:
                self.source.check(base + at, nbytes, f"tensor {shown(name)}")
            entries.append(_Entry(name, kind, shape, nbytes, base + at if nbytes else base))
        before = None
        for entry in sorted((entry for entry in entries if entry.nbytes), key=lambda entry: entry.at):
            if before is not None and entry.at < before.at + before.nbytes:
                raise self._wrong(f"the data of tensors {shown(before.name)} and {shown(entry.name)} overlap")
            before = entry
        return entries

    def _wrong(self, reason: str) -> CheckpointError:
        return CheckpointError(self.source.name, reason)
