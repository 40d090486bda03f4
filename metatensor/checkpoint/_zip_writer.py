"""Write zip archives as PyTorch and NumPy do: uncompressed, aligned, with 64-bit sizes where needed.

Writing takes one pass without seeking, because a member's size and checksum are known before its bytes are written.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, BinaryIO, NamedTuple

from metatensor.checkpoint._zip import problem_of

__all__ = ["ZipWriter", "write_all"]

CHUNK = 1 << 24
_FULL = 0xFFFFFFFF
_PADDING = 0x4246
"""ID of the extra field that aligns a member's bytes; PyTorch uses the same one."""
_DATE = 0x21  # 1 January 1980, the earliest date. It is constant, so that equal contents give equal files


class _Member(NamedTuple):
    name: bytes
    crc: int
    size: int
    at: int


class ZipWriter:
    """Writes members to ``file`` one after the other. `close` adds the directory and leaves the file open.

    Offsets count from the file's initial position. If ``checksums`` is false, checksums are 0, and readers that verify
    them (`zipfile`) refuse the archive.
    """

    def __init__(self, file: BinaryIO, checksums: bool = True) -> None:
        self.file = file
        self.checksums = checksums
        self.at = 0
        self.members: list[_Member] = []

    def add(self, name: str, *parts: Any, align: int = 1) -> None:
        """Add a member with the bytes of these buffers, starting at a multiple of ``align``."""
        views = [memoryview(part).cast("B") for part in parts]
        encoded = name.encode("utf-8")
        if (problem := problem_of(encoded)) is not None:
            raise ValueError(f"save: a zip archive cannot have the name {name[:100]!r}: {problem}")
        if len(encoded) > 0xFFFF:
            raise ValueError(f"save: a name of {len(encoded):,} bytes is too long for a zip archive: {name[:60]!r}...")
        crc = 0
        for view in views if self.checksums else ():
            crc = _crc(view, crc)
        size = sum(map(len, views))
        extra = struct.pack("<HHQQ", 1, 16, size, size) if size >= _FULL else b""
        begin = self.at + 30 + len(encoded) + len(extra)
        if align > 1:
            gap = -(begin + 4) % align
            extra += struct.pack("<HH", _PADDING, gap) + bytes(gap)
        short = min(size, _FULL)
        self.members.append(_Member(encoded, crc, size, self.at))
        self._write(
            struct.pack("<IHHHHHIIIHH", 0x04034B50, 45 if size >= _FULL else 20, _flags(encoded), 0, 0, _DATE, crc, short, short,
                        len(encoded), len(extra))
            + encoded + extra
        )  # fmt: skip
        for view in views:
            self._write(view)

    def close(self) -> None:
        """Write the directory."""
        begin = self.at
        for member in self.members:
            large = [value for value in (member.size, member.size, member.at) if value >= _FULL]
            extra = struct.pack(f"<HH{len(large)}Q", 1, 8 * len(large), *large) if large else b""
            size = min(member.size, _FULL)
            version = 45 if large else 20
            self._write(
                struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, version, version, _flags(member.name), 0, 0, _DATE, member.crc,
                            size, size, len(member.name), len(extra), 0, 0, 0, 0, min(member.at, _FULL))
                + member.name + extra
            )  # fmt: skip
        end, count = self.at, len(self.members)
        size = end - begin
        if count >= 0xFFFF or size >= _FULL or begin >= _FULL:
            self._write(struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, count, count, size, begin))
            self._write(struct.pack("<IIQI", 0x07064B50, 0, end, 1))
        few = min(count, 0xFFFF)
        self._write(struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, few, few, min(size, _FULL), min(begin, _FULL), 0))

    def _write(self, data: Any) -> None:
        write_all(self.file, data)
        self.at += len(data)


def write_all(file: BinaryIO, data: Any) -> None:
    """Write a whole buffer, even if the file accepts only part of it at a time."""
    view = memoryview(data)
    at = 0
    while at < len(view):
        count = file.write(view[at : at + CHUNK])
        at += len(view[at : at + CHUNK]) if count is None else count


def _crc(view: memoryview, crc: int) -> int:
    for at in range(0, len(view), CHUNK):
        crc = zlib.crc32(view[at : at + CHUNK], crc)
    return crc


def _flags(name: bytes) -> int:
    """Return the flags of a member. Bit 11 marks a name in UTF-8. An ASCII name does not need it."""
    return 0 if name.isascii() else 0x800
