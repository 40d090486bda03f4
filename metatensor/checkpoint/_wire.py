"""Protocol buffers' wire format, read field by field within bounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from metatensor.checkpoint.errors import CheckpointError
from metatensor.checkpoint.reading import Window
from metatensor.checkpoint.source import Source

__all__ = ["BYTES", "FIXED32", "FIXED64", "VARINT", "Field", "fields", "signed", "varint", "varints"]

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class Field(NamedTuple):
    """One field of a message."""

    number: int
    kind: int
    value: int
    """Of a varint or a fixed number; for bytes where they begin."""
    size: int
    """Of bytes, how many."""


def fields(source: Source, begin: int, end: int, budget: list[int]) -> Iterator[Field]:
    """The fields of the message from ``begin`` to ``end``; the contents of bytes are not read.

    ``budget[0]`` is how many fields may still be read in all. Raises `CheckpointError`.
    """
    window = Window(source, begin, end)
    while window.at < end:
        budget[0] -= 1
        if budget[0] < 0:
            raise CheckpointError(source.name, "it has more fields than any sound file")
        at = window.at
        tag = varint(window)
        number, kind = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise CheckpointError(source.name, f"the field at byte {at:,} has the number {number}, which is none")
        if kind == VARINT:
            yield Field(number, kind, varint(window), 0)
        elif kind == BYTES:
            size = varint(window)
            yield Field(number, kind, window.at, size) if window.at + size <= end else _beyond(source, at, size)
            window.skip(size)
        elif kind in (FIXED64, FIXED32):
            width = 8 if kind == FIXED64 else 4
            yield Field(number, kind, int.from_bytes(window.take(width, "a number"), "little"), width)
        else:
            raise CheckpointError(source.name, f"the field at byte {at:,} is of kind {kind}, which is not used")


def _beyond(source: Source, at: int, size: int) -> Field:
    raise CheckpointError(source.name, f"truncated or damaged: the field at byte {at:,} claims {size:,} bytes, more than its message has")


def varint(window: Window) -> int:
    """The next number of 1 to 10 bytes."""
    value = shift = 0
    while True:
        byte = window.take(1, "a number")[0]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF
        shift += 7
        if shift > 63:
            raise CheckpointError(window.source.name, f"the number before byte {window.at:,} has more than 10 bytes")


def varints(data: bytes, file: str) -> list[int]:
    """All numbers of a packed field, unsigned."""
    found = []
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            found.append(value & 0xFFFFFFFFFFFFFFFF)
            value = shift = 0
        else:
            shift += 7
            if shift > 63:
                raise CheckpointError(file, "a packed number has more than 10 bytes")
    if shift:
        raise CheckpointError(file, "a packed number is cut off")
    return found


def signed(value: int) -> int:
    """A varint as the signed number of 64 bits that it stands for."""
    return value - (1 << 64) if value >= 1 << 63 else value
