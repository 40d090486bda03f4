"""The safetensors format: 8 bytes with the header's length, the header in JSON, then the tensors' data.

The header maps each tensor's name to its dtype, shape and data offsets, and ``__metadata__`` to a dict of strings. Data
is little-endian and row-major, without gaps or overlaps. The whole header is checked before any of it is used. The
check takes time and memory proportional to the header, whose length is bounded.

Format: https://github.com/huggingface/safetensors
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from math import prod
from operator import itemgetter
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, NoReturn

from metatensor.checkpoint._entries import plain_entries
from metatensor.checkpoint.errors import CheckpointError
from metatensor.checkpoint.model import Checkpoint, TensorInfo
from metatensor.checkpoint.reading import json_integer
from metatensor.checkpoint.source import Source, mapped_for_writing, read

if TYPE_CHECKING:
    from metatensor import Tensor
    from metatensor.checkpoint.map_location import Places

__all__ = ["FORMAT", "MAX_HEADER", "Safetensors"]

MAX_HEADER = 100_000_000
"""Longest header in bytes; the reference implementation has the same limit."""
MAX_DIMS = 64
MAX_INT = 2**63 - 1
MAX_BITS = MAX_INT * 8

# Name in the file: (bits per element, metatensor's dtype or None).
DTYPES: dict[str, tuple[int, str | None]] = {
    "BOOL": (8, "bool"),
    "U8": (8, "uint8"),
    "I8": (8, "int8"),
    "U16": (16, "uint16"),
    "I16": (16, "int16"),
    "U32": (32, "uint32"),
    "I32": (32, "int32"),
    "U64": (64, "uint64"),
    "I64": (64, "int64"),
    "F16": (16, "float16"),
    "BF16": (16, "bfloat16"),
    "F32": (32, "float32"),
    "F64": (64, "float64"),
    "C64": (64, "complex64"),
    "F8_E5M2": (8, "float8_e5m2"),
    "F8_E4M3": (8, "float8_e4m3fn"),
    "F8_E5M2FNUZ": (8, "float8_e5m2fnuz"),
    "F8_E4M3FNUZ": (8, "float8_e4m3fnuz"),
    "F8_E8M0": (8, "float8_e8m0fnu"),
    "F4": (4, "float4_e2m1fn_x2"),
    "F6_E2M3": (6, None),
    "F6_E3M2": (6, None),
}


_BITS = {kind: bits for kind, (bits, _) in DTYPES.items()}

# A validated entry of the header: name, dtype, shape, and begin and end of its bytes relative to the start of all data.
Entry = tuple[str, str, list[int], int, int]


class Header(NamedTuple):
    """A validated header, with its tensors in the order of their data."""

    entries: list[Entry]
    metadata: dict[str, str]
    data: int
    """Offset of the first data byte from the beginning of the checkpoint."""
    size: int
    """Size of the whole checkpoint in bytes."""


class Safetensors:
    """Reader of safetensors files."""

    name: str = "safetensors"
    suffixes: tuple[str, ...] = (".safetensors",)

    def matches(self, head: bytes, size: int) -> bool:
        """Return True if the file begins with a plausible header length and the opening brace of a JSON object."""
        return head[8:9] == b"{" and 2 <= int.from_bytes(head[:8], "little") <= min(size - 8, MAX_HEADER)

    def inspect(self, file: BinaryIO, name: str) -> Checkpoint:
        """Return the tensors and metadata in the header."""
        header = read_header(file, name)
        tensors = {}
        for tensor, kind, shape, begin, end in header.entries:
            if kind == "F4" and shape and shape[-1] % 2 == 0:
                shape = [*shape[:-1], shape[-1] // 2]
            tensors[tensor] = TensorInfo(DTYPES[kind][1] or kind, tuple(shape), end - begin, header.data + begin)
        return Checkpoint(name, self.name, header.size, tensors, header.metadata)

    def load(self, file: BinaryIO, name: str, place: Places) -> dict[str, Tensor]:
        """Return the tensors by name.

        All are loaded onto the device that ``place`` maps "cpu" to, because the format records no devices.
        """
        import metatensor as mt

        source = Source(file, name)
        target = place("cpu")
        header = read_header(file, name)
        dtypes = {kind: self._dtype(name, header, kind) for kind in {entry[1] for entry in header.entries}}
        empty = mt.empty
        tensors = {
            tensor: empty(shape, dtype=dtypes[kind], device=target)
            for tensor, kind, shape, _, _ in (_packed(name, header) if "F4" in dtypes else header.entries)
        }
        if target.type != "meta" and header.size > header.data:
            self._fill(tensors, header, source, target, place.mmap)
        return tensors

    def _dtype(self, name: str, header: Header, kind: str) -> Any:
        import metatensor as mt

        dtype = DTYPES[kind][1]
        if dtype is None:
            first = next(entry[0] for entry in header.entries if entry[1] == kind)
            raise CheckpointError(name, f"tensor {first!r} has dtype {kind}, which metatensor has no counterpart for")
        return getattr(mt, dtype)

    def _fill(self, tensors: dict[str, Tensor], header: Header, source: Source, target: Any, mmap: bool) -> None:
        """Read each tensor's bytes into its memory. With ``mmap``, use the mapped bytes in place if possible."""
        from metatensor import plugins
        from metatensor.checkpoint.filling import Filler, read_tensor

        if mmap and (mapped := mapped_for_writing(source)) is not None:
            filler = Filler("little", mapped)
            for name, _, _, begin, end in header.entries:
                if end > begin:
                    filler.fill_from(source, tensors[name].untyped_storage(), header.data + begin, tensors[name].dtype)
            return
        backend = plugins.backend(target.type)
        with source:
            for name, kind, _, begin, end in header.entries:
                if end > begin:
                    read_tensor(source, header.data + begin, tensors[name], backend, DTYPES[kind][0] // 8, "little")


FORMAT = Safetensors()


def read_header(file: BinaryIO, name: str) -> Header:
    """Read and check the header at the file's position. Raise `CheckpointError` if it is invalid."""
    start = file.tell()
    size = file.seek(0, os.SEEK_END) - start
    file.seek(start)
    first = read(file, 8)
    if len(first) < 8:
        raise CheckpointError(name, f"truncated: {len(first)} bytes, too few for the header's length")
    length = int.from_bytes(first, "little")
    if length > MAX_HEADER:
        raise CheckpointError(name, f"the header length is {length:,} bytes, more than the limit of {MAX_HEADER:,}")
    if length > size - 8:
        raise CheckpointError(
            name,
            f"truncated: the header length is {length:,} bytes, but only {max(size - 8, 0):,} bytes follow the length field",
        )
    text = read(file, length)
    if len(text) < length:
        raise CheckpointError(
            name, f"truncated: the header length is {length:,} bytes, but only {len(text):,} could be read"
        )
    metadata, entries = _plain(text, name) or _check_entries(_decoded(text, name), name)
    _check_places(entries, size - 8 - length, name)
    return Header(entries, metadata, 8 + length, size)


def _plain(text: bytes, name: str) -> tuple[dict[str, str], list[Entry]] | None:
    """Return the result of the fast header parser, or None if the header needs the full one."""
    found = plain_entries(text, _BITS)
    if found is None:
        return None
    metadata, entries = found
    return {} if metadata is None else _check_metadata(_decoded(metadata, name), name), entries


def _decoded(text: bytes, name: str) -> tuple[tuple[str, Any], ...]:
    """Return the (key, value) pairs of a JSON object."""
    try:
        pairs = _DECODER.decode(text.decode("utf-8"))
    except RecursionError:
        raise CheckpointError(name, "the header is nested too deeply") from None
    except ValueError as error:
        raise CheckpointError(name, f"the header is not JSON in UTF-8: {error}") from None
    if type(pairs) is not tuple:
        raise CheckpointError(name, f"the header is {_json_type(pairs)}, not a JSON object")
    return pairs


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


# Objects become tuples of pairs, arrays become lists. This keeps repeated keys visible.
_DECODER = json.JSONDecoder(object_pairs_hook=tuple, parse_constant=_no_constant, parse_int=json_integer)
_KEYS = ("dtype", "shape", "data_offsets")


def _check_entries(pairs: tuple[tuple[str, Any], ...], file: str) -> tuple[dict[str, str], list[Entry]]:
    """Check the keys and value types of each entry, and that its shape and dtype match its number of bytes.

    Return the metadata and the entries.
    """
    metadata: dict[str, str] = {}
    entries: list[Entry] = []
    names = dict(pairs)
    if len(names) != len(pairs):
        raise CheckpointError(file, f"the name {_repeated([name for name, _ in pairs])!r} is in the header twice")
    try:
        "".join(names).encode("utf-8")
    except UnicodeEncodeError:
        raise CheckpointError(file, "a name in the header is not Unicode text") from None
    for name, value in pairs:
        if name == "__metadata__":
            metadata = _check_metadata(value, file)
            continue
        kind, shape, (begin, end) = _members(name, value, file)
        if type(kind) is not str or kind not in _BITS:
            raise _wrong(file, name, f"unknown dtype {_short(kind)}")
        if type(shape) is not list or len(shape) > MAX_DIMS:
            raise _wrong(file, name, f"the shape must be an array of at most {MAX_DIMS} sizes, got {_short(shape)}")
        for dim in shape:
            if type(dim) is not int or not 0 <= dim <= MAX_INT:
                raise _wrong(file, name, f"the size {_short(dim)} in its shape is not an integer from 0 to 2**63 - 1")
        if type(begin) is not int or type(end) is not int or not 0 <= begin <= end <= MAX_INT:
            raise _wrong(
                file, name, f"bad data_offsets [{_short(begin)}, {_short(end)}]: they must satisfy 0 <= begin <= end < 2**63"
            )
        needed = prod(shape) * _BITS[kind]
        if needed > MAX_BITS or (not needed and prod([dim for dim in shape if dim]) * _BITS[kind] > MAX_BITS):
            raise _wrong(
                file, name, f"{kind} of shape {_short(shape)} is too large: its nonzero sizes need more than 2**63 - 1 bytes"
            )
        if needed != (end - begin) * 8:
            raise _wrong(
                file, name, f"{kind} of shape {_short(shape)} needs {_bytes(needed)} bytes, but its data_offsets hold {end - begin:,}"
            )
        entries.append((name, kind, shape, begin, end))
    return metadata, entries


def _check_places(entries: list[Entry], available: int, file: str) -> None:
    """Sort the entries by offset and check that their data fills the rest of the file without gaps or overlaps."""
    entries.sort(key=itemgetter(3, 4))
    at, before = 0, ""
    for name, _, _, begin, end in entries:
        if begin != at:
            if begin < at:
                raise _wrong(file, name, f"its data begins at {begin:,} and overlaps the data of {before!r}, which ends at {at:,}")
            raise _wrong(file, name, f"gap before its data: it begins at {begin:,}, but the preceding data ends at {at:,}")
        at, before = end, name
    if at > available:
        raise CheckpointError(
            file,
            f"truncated: the header describes {at:,} bytes of data, up to the end of tensor {before!r}, but the file has "
            f"{available:,} after the header",
        )
    if at < available:
        raise CheckpointError(file, f"{available - at:,} bytes at its end belong to no tensor")


def _members(name: str, value: Any, file: str) -> tuple[Any, Any, tuple[Any, Any]]:
    """Return the three members of an entry, or raise `CheckpointError`."""
    if type(value) is not tuple:
        raise _wrong(file, name, f"its entry is {_json_type(value)}, not a JSON object")
    members = dict(value)
    if len(members) != len(value):
        raise _wrong(file, name, f"its entry has {_repeated([key for key, _ in value])!r} twice")
    for key in _KEYS:
        if key not in members:
            raise _wrong(file, name, f"its entry lacks {key!r}")
    for key in members:
        if key not in _KEYS:
            raise _wrong(file, name, f"its entry has an unknown member {_short(key)}")
    offsets = members["data_offsets"]
    if type(offsets) is not list or len(offsets) != 2:
        raise _wrong(file, name, f"data_offsets must be an array of two integers, got {_short(offsets)}")
    return members["dtype"], members["shape"], (offsets[0], offsets[1])


def _check_metadata(value: Any, file: str) -> dict[str, str]:
    if type(value) is not tuple or any(type(text) is not str for _, text in value):
        raise CheckpointError(file, "__metadata__ must be a JSON object whose values are strings")
    metadata = dict(value)
    try:
        for item in metadata.items():
            "".join(item).encode("utf-8")
    except UnicodeEncodeError:
        raise CheckpointError(file, "a string in __metadata__ is not Unicode") from None
    if len(metadata) != len(value):
        raise CheckpointError(file, f"__metadata__ has {_repeated([key for key, _ in value])!r} twice")
    return metadata


def _packed(file: str, header: Header) -> list[Entry]:
    """Return the entries with metatensor's shapes: two 4-bit floats make one element."""
    packed = []
    for name, kind, shape, begin, end in header.entries:
        if kind == "F4":
            if not shape or shape[-1] % 2:
                raise _wrong(file, name, f"its 4-bit floats come in pairs, which the shape {_short(shape)} does not allow")
            shape = [*shape[:-1], shape[-1] // 2]
        packed.append((name, kind, shape, begin, end))
    return packed


def _wrong(file: str, tensor: str, reason: str) -> CheckpointError:
    return CheckpointError(file, f"tensor {_short(tensor)}: {reason}")


def _short(value: Any) -> str:
    """Return a value from the file as short text for a message."""
    if type(value) is list:
        text = str(value[:9]) if len(value) < 10 and all(type(item) is int for item in value) else f"an array of {len(value)}"
    elif type(value) is int and value.bit_length() > 80:
        text = f"an integer of {value.bit_length()} bits"
    elif type(value) in (str, int, float, bool, type(None)):
        text = repr(value[:101]) if type(value) is str else repr(value)
    else:
        text = _json_type(value)
    return text if len(text) <= 100 else text[:97] + "..."


def _json_type(value: Any) -> str:
    names = {tuple: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _repeated(names: Sequence[str]) -> str:
    """Return the first repeated name, shortened."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name[:100]
        seen.add(name)
    raise AssertionError("no name is repeated")


def _bytes(bits: int) -> str:
    return f"{bits // 8:,}" if bits % 8 == 0 else f"{bits / 8:,}"
