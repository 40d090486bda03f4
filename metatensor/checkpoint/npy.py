"""NumPy's ``.npy`` files: a header, which is a Python dict literal with three keys, then the elements.

A small parser reads the header without evaluating it. It knows dicts, tuples, lists, strings, integers, True and False.
Arrays of Python objects, which contain pickles, are refused.

Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

from __future__ import annotations

import re
import sys
from typing import Any, BinaryIO, NamedTuple

from metatensor.checkpoint.errors import CheckpointError
from metatensor.checkpoint.map_location import Places
from metatensor.checkpoint.model import Checkpoint, TensorInfo
from metatensor.checkpoint.reading import Item, Window, counted, materialise, shown
from metatensor.checkpoint.source import Source, native

__all__ = ["FORMAT", "MAGIC", "MAX_HEADER", "Array", "Npy", "array_at", "header_size", "native_elements", "read_array"]

MAGIC = b"\x93NUMPY"
MAX_HEADER = 1 << 16
"""Longest accepted header in bytes. The header of a plain array usually has 118 bytes."""

DTYPES = {
    "b1": "bool", "u1": "uint8", "i1": "int8", "u2": "uint16", "i2": "int16", "u4": "uint32", "i4": "int32", "u8": "uint64",
    "i8": "int64", "f2": "float16", "f4": "float32", "f8": "float64", "c8": "complex64", "c16": "complex128",
}  # fmt: skip
KINDS = {"O": "Python objects", "S": "byte strings", "U": "texts", "M": "dates", "m": "durations", "V": "records or raw bytes"}

_DESCR = re.compile(r"([<>|=]?)([a-zA-Z])(\d{0,9})(?:\[[A-Za-z0-9]{1,9}\])?")
_TOKEN = re.compile(r"""\s*(?:(?P<text>'[^'\\\n]*'|"[^"\\\n]*")|(?P<int>\d{1,20})L?|(?P<name>True|False)|(?P<mark>[{}()\[\],:]))""")


class Array(NamedTuple):
    """A checked header."""

    dtype: str
    """Name of metatensor's dtype, or NumPy's description if metatensor has no such dtype."""
    shape: tuple[int, ...]
    stride: tuple[int, ...] | None
    nbytes: int
    data: int
    """Offset of the first element."""
    order: str
    """The byte order of the elements: "little" or "big"."""

    @property
    def width(self) -> int:
        """Number of bytes that are byte-swapped together; 0 for a dtype that metatensor lacks."""
        import metatensor as mt

        dtype = getattr(mt, self.dtype, None)
        if not isinstance(dtype, mt.dtype):
            return 0
        return dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize


class Npy:
    """Reader of files with a single array, which is listed under the name "array"."""

    name: str = "npy"
    suffixes: tuple[str, ...] = (".npy",)

    def matches(self, head: bytes, size: int) -> bool:
        """Return True if the file begins with the signature."""
        return head.startswith(MAGIC)

    def inspect(self, file: BinaryIO, name: str) -> Checkpoint:
        """Return the array, described by its header."""
        source = Source(file, name)
        array = read_array(source)
        return Checkpoint(name, self.name, source.size, {"array": info_of(array)})

    def load(self, file: BinaryIO, name: str, place: Places) -> Any:
        """Return the array as a tensor."""
        with Source(file, name) as source:
            array = read_array(source)
            return materialise([array_at(source, "array", array)], place)["array"]

    def fetch(self, file: BinaryIO, name: str, checkpoint: Checkpoint, tensor: str) -> Any:
        """Return the elements in memory order."""
        source = Source(file, name)
        return array_at(source, tensor, read_array(source)).fetch()


FORMAT = Npy()


def info_of(array: Array, offset: int = 0) -> TensorInfo:
    """Return the description of an array. ``offset`` is the position of the ``.npy`` file within a larger file."""
    raw = array.order == sys.byteorder or array.width == 1
    return TensorInfo(array.dtype, array.shape, array.nbytes, array.data + offset if raw else -1, array.stride)


def array_at(source: Source, name: str, array: Array) -> Item:
    """Return the `Item` for an array. Raise `CheckpointError` if metatensor has no such dtype."""
    if not array.width:
        raise CheckpointError(source.name, f"array {shown(name)} is of {array.dtype}, which metatensor has no counterpart for")
    straight = array.order == sys.byteorder or array.width == 1
    return Item(
        name, array.dtype, array.shape, array.stride,
        lambda: native_elements(array, source.at(array.data, array.data + array.nbytes)),
        (source, array.data) if straight else None,
    )  # fmt: skip


def native_elements(array: Array, data: Any) -> Any:
    """Return the elements in the machine's byte order."""
    return native(data, array.width, array.order)


def read_array(source: Source, at: int = 0, end: int | None = None, name: str = "array") -> Array:
    """Read and check the header at ``at``. Raise `CheckpointError` unless the array ends exactly at ``end``."""
    window = Window(source, at, end, 1 << 20)
    magic = window.take(8, "the signature of an array")
    if not magic.startswith(MAGIC):
        raise CheckpointError(source.name, f"{shown(name)} begins with {magic!r}, which is not the signature of an array")
    version = (magic[6], magic[7])
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise CheckpointError(source.name, f"{shown(name)} has version {version[0]}.{version[1]}; versions 1.0, 2.0 and 3.0 are supported")
    length = int.from_bytes(window.take(2 if version == (1, 0) else 4, "the length of a header"), "little")
    if length > MAX_HEADER:
        raise CheckpointError(source.name, f"the header of {shown(name)} claims {length:,} bytes, more than the limit of {MAX_HEADER:,}")
    raw = window.take(length, "the header of an array")
    try:
        text = raw.decode("utf-8" if version == (3, 0) else "latin-1")
    except UnicodeDecodeError:
        raise CheckpointError(source.name, f"the header of {shown(name)} is not text in UTF-8") from None
    descr, fortran, shape = _members(source.name, name, text)
    dtype, size, order = _dtype(source.name, name, descr)
    nbytes = counted(source.name, name, shape, 8 * size)
    available = window.end - window.at
    if nbytes != available:
        kind = "truncated" if nbytes > available else "longer than its array"
        raise CheckpointError(
            source.name, f"{kind}: {shown(name)} of shape {shown(list(shape))} needs {nbytes:,} bytes, but there are {available:,}"
        )
    stride = None
    if fortran and len([extent for extent in shape if extent != 1]) > 1:
        steps, step = [], 1
        for extent in shape:
            steps.append(step)
            step *= max(extent, 1)
        stride = tuple(steps)
    return Array(dtype, shape, stride, nbytes, window.at, order)


def header_size(head: bytes) -> int:
    """Return the size in bytes of the whole header, of which ``head`` holds the first 12 bytes."""
    wide = head[6:7] != b"\1"
    return 12 + int.from_bytes(head[8:12], "little") if wide else 10 + int.from_bytes(head[8:10], "little")


def _dtype(file: str, name: str, descr: Any) -> tuple[str, int, str]:
    """Return the dtype's name (metatensor's or NumPy's), its size in bytes and its byte order."""
    if isinstance(descr, list):
        raise CheckpointError(file, f"array {shown(name)} has records of several fields, which cannot become a tensor")
    match = _DESCR.fullmatch(descr) if isinstance(descr, str) else None
    if match is None:
        raise CheckpointError(file, f"array {shown(name)} has the dtype {shown(descr)}, which NumPy does not have")
    order, kind, size = match[1], match[2], int(match[3] or 0)
    if kind == "O":
        raise CheckpointError(file, f"array {shown(name)} holds Python objects, which are pickles; such arrays are refused")
    found = DTYPES.get(kind + match[3])
    width = size * 4 if kind == "U" else size
    if found is None:
        if kind not in KINDS and kind not in "fciub":
            raise CheckpointError(file, f"array {shown(name)} has the dtype {shown(descr)}, which NumPy does not have")
        return descr, width, "little"
    return found, width, {"<": "little", ">": "big"}.get(order, sys.byteorder)


def _members(file: str, name: str, text: str) -> tuple[Any, bool, tuple[int, ...]]:
    """Return the three values of the header's dict."""
    try:
        value = _Parser(text).whole()
    except ValueError as error:
        raise CheckpointError(file, f"the header of {shown(name)} is not the expected dict: {error}") from None
    if type(value) is not dict or set(value) != {"descr", "fortran_order", "shape"}:
        keys = sorted(map(str, value))[:5] if type(value) is dict else type(value).__name__
        raise CheckpointError(file, f"the header of {shown(name)} should have descr, fortran_order and shape; it has {shown(keys)}")
    fortran, shape = value["fortran_order"], value["shape"]
    if type(fortran) is not bool:
        raise CheckpointError(file, f"the header of {shown(name)}: fortran_order must be True or False, not {shown(fortran)}")
    if type(shape) is not tuple or any(type(size) is not int for size in shape):
        raise CheckpointError(file, f"the header of {shown(name)}: the shape must be a tuple of integers, not {shown(shape)}")
    return value["descr"], fortran, shape


class _Parser:
    """Parser for Python literals of a few types, with limited nesting."""

    MAX_DEPTH = 8

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0

    def whole(self) -> Any:
        """Return the only value in the text. Raise ValueError for anything else."""
        value = self.value(*self.token())
        if self.text[self.at :].strip():
            raise ValueError(f"something follows it at character {self.at}")
        return value

    def token(self) -> tuple[str, str]:
        """Return the kind and the text of the next token."""
        match = _TOKEN.match(self.text, self.at)
        if match is None:
            raise ValueError(f"it cannot be read at character {self.at}: {self.text[self.at : self.at + 20]!r}")
        self.at = match.end()
        kind = str(match.lastgroup)
        return kind, match[kind]

    def value(self, kind: str, text: str) -> Any:
        """Return the value that begins with the given token."""
        if kind == "text":
            return text[1:-1]
        if kind == "int":
            return int(text)
        if kind == "name":
            return text == "True"
        if text not in "{([":
            raise ValueError(f"{text!r} at character {self.at - 1} is out of place")
        self.depth += 1
        if self.depth > self.MAX_DEPTH:
            raise ValueError("it is nested too deeply")
        close = {"{": "}", "(": ")", "[": "]"}[text]
        items = list(self.items(close, text == "{"))
        self.depth -= 1
        if text != "{":
            return tuple(items) if text == "(" else items
        made = dict(items)
        if len(made) != len(items):
            raise ValueError("it has a key twice")
        return made

    def items(self, close: str, pairs: bool) -> Any:
        """Yield the comma-separated items up to a closing bracket."""
        kind, text = self.token()
        while not (kind == "mark" and text == close):
            item = self.value(kind, text)
            if pairs:
                if type(item) is not str or self.token() != ("mark", ":"):
                    raise ValueError("a key must be a string followed by a colon")
                item = (item, self.value(*self.token()))
            yield item
            mark = self.token()
            if mark == ("mark", close):
                return
            if mark != ("mark", ","):
                raise ValueError(f"a comma is missing at character {self.at - len(mark[1])}")
            kind, text = self.token()
