"""Read the wire format of Protocol Buffers field by field, with bounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from metatensor.checkpoint.errors import CheckpointError
from metatensor.checkpoint.source import Source

__all__ = ["BYTES", "FIXED32", "FIXED64", "VARINT", "Field", "fields", "signed", "varints"]

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class Field(NamedTuple):
    """One field of a message."""

    number: int
    kind: int
    value: int
    """The value of a varint or fixed-size number; the offset of a bytes field."""
    size: int
    """Length in bytes of a bytes field or a fixed-size number; 0 for a varint."""


PIECE = 1 << 12


def fields(source: Source, begin: int, end: int, budget: list[int]) -> Iterator[Field]:
    """Yield the fields of the message from ``begin`` to ``end``, without reading the contents of bytes fields.

    ``budget[0]`` is the number of fields that may still be read in all. Raise `CheckpointError` if the message is
    invalid.
    """
    at, first, data = begin, begin, b""
    while at < end:
        budget[0] -= 1
        if budget[0] < 0:
            raise CheckpointError(source.name, "it has too many fields")
        if at + 32 > first + len(data) < end or at < first:
            first, data = at, bytes(source.at(at, min(at + PIECE, end)))
        try:
            tag, i = _varint(data, at - first)
            number, kind = tag >> 3, tag & 7
            if kind == BYTES:
                size, i = _varint(data, i)
                value, after = first + i, first + i + size
            elif kind == VARINT:
                value, i = _varint(data, i)
                size, after = 0, first + i
            elif kind in (FIXED64, FIXED32):
                size = 8 if kind == FIXED64 else 4
                value, after = int.from_bytes(data[i : i + size], "little"), first + i + size
            else:
                raise CheckpointError(source.name, f"the field at byte {at:,} is of kind {kind}, which is not used")
        except IndexError:
            raise CheckpointError(source.name, f"truncated or damaged: the field at byte {at:,} is cut off") from None
        except OverflowError:
            raise CheckpointError(source.name, f"a number of the field at byte {at:,} has more than 10 bytes") from None
        if not 0 < number < 1 << 29:
            raise CheckpointError(source.name, f"the field at byte {at:,} has the number {number}, which is invalid")
        if after > end:
            raise CheckpointError(
                source.name, f"truncated or damaged: the field at byte {at:,} claims {size:,} bytes, more than its message has"
            )
        yield Field(number, kind, value, size)
        at = after


def _varint(data: bytes, i: int) -> tuple[int, int]:
    """Return the number at ``i`` and the index after it.

    Raise IndexError if it is cut off, OverflowError if it exceeds 10 bytes.
    """
    byte = data[i]
    if byte < 0x80:
        return byte, i + 1
    value, shift = byte & 0x7F, 7
    while shift <= 63:
        i += 1
        byte = data[i]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, i + 1
        shift += 7
    raise OverflowError


def varints(data: bytes, file: str) -> list[int]:
    """Return all numbers of a packed field, unsigned."""
    if data.isascii():  # every number takes one byte
        return list(data)
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
    """Return a varint reinterpreted as a signed 64-bit number."""
    return value - (1 << 64) if value >= 1 << 63 else value
