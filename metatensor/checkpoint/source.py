"""Read byte ranges of a checkpoint file, or map the file into memory."""

from __future__ import annotations

import errno
import io
import mmap
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from metatensor.checkpoint.errors import CheckpointError
from metatensor.serialization import get_default_mmap_options

__all__ = ["MAPPED_ALIGNMENT", "Source", "mapped_for_writing", "native", "open_file", "opened", "read"]


MAPPED_ALIGNMENT = 8
"""Required alignment of mapped bytes that are used in place. safetensors guarantees only this much."""


@contextmanager
def opened(f: Any) -> Iterator[tuple[BinaryIO, str]]:
    """Yield the binary file ``f`` and its name for messages.

    If ``f`` is a path, open the file, and close it at the end of the block.
    """
    if hasattr(f, "read"):
        yield f, _described(f)
        return
    if not isinstance(f, (str, bytes, os.PathLike)):
        raise TypeError(f"load: expected a path, or a file open for reading in binary mode, got {type(f).__name__}")
    path = os.fsdecode(os.fspath(f))
    with open_file(path) as file:
        yield file, path


def open_file(path: str) -> BinaryIO:
    """Open a regular file for reading without blocking. Raise `CheckpointError` for a FIFO, a socket or a device."""
    return open(path, "rb", buffering=0, opener=_ordinary)  # type: ignore[return-value]


def _ordinary(path: str, flags: int) -> int:
    try:
        handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        if error.errno != errno.ENXIO:  # raised for a socket
            raise
        raise CheckpointError(path, _OTHER) from None
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # for a folder, `open` raises OSError
        os.close(handle)
        raise CheckpointError(path, _OTHER)
    return handle


_OTHER = "it is not an ordinary file but a pipe, a socket or a device, which is not read"


def _described(file: Any) -> str:
    """Return an open file's name for messages. Raise, with advice, if the file is open for text or cannot seek."""
    name = str(getattr(file, "name", "the open file"))
    if isinstance(file, io.TextIOBase):
        raise TypeError(f'load: {name} is open for text; open it in binary mode: open(path, "rb")')
    try:
        file.seek(0, os.SEEK_CUR)
    except (AttributeError, io.UnsupportedOperation):
        advice = f"load: {name} cannot seek, as a pipe or a download cannot: read all of it and pass io.BytesIO(content)"
        raise io.UnsupportedOperation(advice) from None
    return name


def read(file: BinaryIO, count: int) -> bytes:
    """Return ``count`` bytes, or fewer at the end of the file. One call of a raw file's ``read`` may return fewer."""
    data = file.read(count)
    if len(data) == count or not data:
        return data
    parts = [data]
    count -= len(data)
    while count and (data := file.read(count)):
        parts.append(data)
        count -= len(data)
    return b"".join(parts)


class Source:
    """The bytes of a file from its current position to its end. Offsets count from that position.

    The file is read and never mapped, so if another process truncates it meanwhile, an error is raised.
    Use `read` for structured data, `at` and `read_into` for tensor data.
    """

    LEAST, BLOCK = 1 << 12, 1 << 18
    """Minimum and maximum number of bytes that `at` reads ahead. The number grows while reads are sequential."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.file = file
        self.name = name
        self.start = file.seek(0, os.SEEK_CUR)
        self.size = file.seek(0, os.SEEK_END) - self.start
        """Number of bytes from the position to the end when the source was created."""
        file.seek(self.start)
        self._block = memoryview(b"")
        self._begin = 0
        self._ahead = self.LEAST

    def read(self, begin: int, count: int, what: str = "data") -> bytes:
        """Return ``count`` bytes from ``begin`` on. Raise `CheckpointError` if the file is too short."""
        self.check(begin, count, what)
        self.file.seek(self.start + begin)
        data = read(self.file, count)
        if len(data) < count:
            raise self._cut(begin, count, len(data), what)
        return data

    def check(self, begin: int, count: int, what: str = "data") -> None:
        """Raise `CheckpointError` unless ``count`` bytes from ``begin`` on lie within the file."""
        if begin < 0 or count < 0 or begin + count > self.size:
            raise CheckpointError(
                self.name, f"truncated: {what} at byte {begin:,} needs {count:,} bytes, but the file ends at byte {self.size:,}"
            )

    def at(self, begin: int, end: int) -> memoryview:
        """Return the bytes from ``begin`` to ``end``. Consecutive small ranges are read from the file together."""
        if end - begin >= self.BLOCK:
            return memoryview(self.read(begin, end - begin))
        at = begin - self._begin
        if at < 0 or end - self._begin > len(self._block):
            self.check(begin, end - begin)
            near = 0 <= begin - self._begin - len(self._block) <= self._ahead or 0 <= at < len(self._block)
            self._ahead = min(4 * self._ahead, self.BLOCK) if near else self.LEAST
            self._block = memoryview(self.read(begin, min(max(self._ahead, end - begin), self.size - begin)))
            self._begin = begin
            at = 0
        return self._block[at : at + end - begin]

    def read_into(self, begin: int, target: memoryview) -> None:
        """Fill ``target`` with the bytes from ``begin`` on."""
        self.check(begin, len(target))
        self.file.seek(self.start + begin)
        done = 0
        while done < len(target):
            count = self.file.readinto(target[done:])  # type: ignore[attr-defined]
            if not count:
                raise self._cut(begin, len(target), done, "data")
            done += count

    def _cut(self, begin: int, count: int, got: int, what: str) -> CheckpointError:
        return CheckpointError(self.name, f"truncated: {what} at byte {begin:,} needs {count:,} bytes, but only {got:,} could be read")

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *error: object) -> None:
        self._block = memoryview(b"")


def mapped_for_writing(source: Source) -> memoryview | None:
    """Map all bytes of a source. Return None if the file cannot be mapped or is not aligned.

    Writing to it changes a private copy, or the file itself if `metatensor.serialization.set_default_mmap_options` says
    so.
    """
    if source.start % MAPPED_ALIGNMENT:
        return None
    try:
        if get_default_mmap_options() == mmap.MAP_SHARED:
            with open(source.file.name, "r+b") as file:
                whole = mmap.mmap(file.fileno(), source.start + source.size)
        else:
            whole = mmap.mmap(source.file.fileno(), source.start + source.size, access=mmap.ACCESS_COPY)
    except (AttributeError, OSError, ValueError):
        return None
    return memoryview(whole)[source.start :]


def native(data: Any, width: int, order: str = "little") -> Any:
    """Return elements of ``width`` bytes, stored in byte order ``order``, in the machine's byte order."""
    if sys.byteorder == order or width <= 1:
        return data
    swapped = bytearray(len(data))
    for i in range(width):
        swapped[i::width] = data[width - 1 - i :: width]
    return swapped
