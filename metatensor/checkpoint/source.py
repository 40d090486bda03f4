"""A checkpoint file as ranges of bytes: opened, read, and mapped where that is asked for."""

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
"""Bytes of a file are used where they lie if they begin at a multiple of this: safetensors aligns no better."""


@contextmanager
def opened(f: Any) -> Iterator[tuple[BinaryIO, str]]:
    """The file and what messages call it; closed afterwards if it was opened here."""
    if hasattr(f, "read"):
        yield f, _described(f)
        return
    if not isinstance(f, (str, bytes, os.PathLike)):
        raise TypeError(f"load: a checkpoint is given by its path, or by a file opened for reading in binary, got {type(f).__name__}")
    path = os.fsdecode(os.fspath(f))
    with open_file(path) as file:
        yield file, path


def open_file(path: str) -> BinaryIO:
    """Open an ordinary file for reading, without waiting. `CheckpointError` for a pipe, a socket or a device."""
    return open(path, "rb", buffering=0, opener=_ordinary)  # type: ignore[return-value]


def _ordinary(path: str, flags: int) -> int:
    try:
        handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        if error.errno != errno.ENXIO:  # that of a socket
            raise
        raise CheckpointError(path, _OTHER) from None
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # a folder is an OSError of `open`
        os.close(handle)
        raise CheckpointError(path, _OTHER)
    return handle


_OTHER = "it is not an ordinary file but a pipe, a socket or a device, which is not read"


def _described(file: Any) -> str:
    """What messages call an open file. Raises what tells how it should have been opened, where it cannot be read here and there."""
    name = str(getattr(file, "name", "the open file"))
    if isinstance(file, io.TextIOBase):
        raise TypeError(f'load: {name} is open for text; a checkpoint is read from bytes: open(path, "rb")')
    try:
        file.seek(0, os.SEEK_CUR)
    except (AttributeError, io.UnsupportedOperation):
        advice = f"load: {name} cannot seek, as a pipe or a download cannot: read all of it, and give io.BytesIO(content)"
        raise io.UnsupportedOperation(advice) from None
    return name


def read(file: BinaryIO, count: int) -> bytes:
    """``count`` bytes, or fewer at the file's end: a raw file may give less than was asked for at a time."""
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
    """The bytes from a file's position to its end; places are counted from there.

    The file is read, never mapped: a file that another process cuts short meanwhile is an error, not a signal. `read` is for
    what a program parses. `at` and `read_into` are for tensors' data.
    """

    LEAST, BLOCK = 1 << 12, 1 << 18
    """How much `at` reads ahead: little where it jumps, more the longer it goes on."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.file = file
        self.name = name
        self.start = file.seek(0, os.SEEK_CUR)
        self.size = file.seek(0, os.SEEK_END) - self.start
        """Bytes from the position to the end, at the time it was opened."""
        file.seek(self.start)
        self._block = memoryview(b"")
        self._begin = 0
        self._ahead = self.LEAST

    def read(self, begin: int, count: int, what: str = "data") -> bytes:
        """``count`` bytes from ``begin`` on; `CheckpointError` where the file does not hold as many."""
        self.check(begin, count, what)
        self.file.seek(self.start + begin)
        data = read(self.file, count)
        if len(data) < count:
            raise self._cut(begin, count, len(data), what)
        return data

    def check(self, begin: int, count: int, what: str = "data") -> None:
        """`CheckpointError` unless ``count`` bytes from ``begin`` on lie within the file."""
        if begin < 0 or count < 0 or begin + count > self.size:
            raise CheckpointError(
                self.name, f"truncated: {what} at byte {begin:,} needs {count:,} bytes, the file ends at {self.size:,}"
            )

    def at(self, begin: int, end: int) -> memoryview:
        """The bytes from ``begin`` to ``end``. Small ranges that follow one another are read together."""
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
        return CheckpointError(self.name, f"truncated: {what} at byte {begin:,} needs {count:,} bytes, {got:,} could be read")

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *error: object) -> None:
        self._block = memoryview(b"")


def mapped_for_writing(source: Source) -> memoryview | None:
    """Map all bytes of a source; None where the file cannot be mapped, or is not aligned.

    Writing changes a private copy, or the file where `metatensor.serialization.set_default_mmap_options` says so.
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
    """Elements of ``width`` bytes, written in ``order``, in this machine's byte order."""
    if sys.byteorder == order or width <= 1:
        return data
    swapped = bytearray(len(data))
    for i in range(width):
        swapped[i::width] = data[width - 1 - i :: width]
    return swapped
