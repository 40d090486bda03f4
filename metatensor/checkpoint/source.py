"""A checkpoint file as ranges of bytes: opened, mapped where the system can, read where it cannot."""

from __future__ import annotations

import io
import mmap
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from metatensor.checkpoint.errors import CheckpointError
from metatensor.serialization import get_default_mmap_options

__all__ = ["MAPPED_ALIGNMENT", "Source", "mapped_for_writing", "native", "opened", "read"]


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
    with open(path, "rb", buffering=0) as file:
        yield file, path


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

    `read` copies what it is asked for, and is for what a program parses. `at` gives a view of the file where it can
    be mapped, and is for tensors' data. Used as a context manager where `at` is used: it unmaps at the end.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.file = file
        self.name = name
        self.start = file.seek(0, os.SEEK_CUR)
        self.size = file.seek(0, os.SEEK_END) - self.start
        """Bytes from the position to the end, at the time it was opened."""
        file.seek(self.start)
        self._whole: memoryview | None = None
        self._map: mmap.mmap | None = None
        self._tried = False

    def read(self, begin: int, count: int, what: str = "data") -> bytes:
        """``count`` bytes from ``begin`` on; `CheckpointError` where the file does not hold as many."""
        self.check(begin, count, what)
        self.file.seek(self.start + begin)
        data = read(self.file, count)
        if len(data) < count:
            raise CheckpointError(self.name, f"truncated: {what} at byte {begin:,} needs {count:,} bytes, {len(data):,} could be read")
        return data

    def check(self, begin: int, count: int, what: str = "data") -> None:
        """`CheckpointError` unless ``count`` bytes from ``begin`` on lie within the file."""
        if begin < 0 or count < 0 or begin + count > self.size:
            raise CheckpointError(
                self.name, f"truncated: {what} at byte {begin:,} needs {count:,} bytes, the file ends at {self.size:,}"
            )

    def at(self, begin: int, end: int) -> memoryview:
        """The bytes from ``begin`` to ``end``, a view of the mapped file where that can be."""
        self.check(begin, end - begin)
        if not self._tried:
            self._tried = True
            try:
                self._map = mmap.mmap(self.file.fileno(), self.start + self.size, access=mmap.ACCESS_READ)
                self._whole = memoryview(self._map)
            except (AttributeError, OSError, ValueError):  # not a file of the system's: a BytesIO, a socket, a zip member
                pass
        if self._whole is not None:
            return self._whole[self.start + begin : self.start + end]
        return memoryview(self.read(begin, end - begin))

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *error: object) -> None:
        if self._whole is not None and self._map is not None:
            try:
                self._whole.release()
                self._map.close()
            except BufferError:  # a device kept a view of it; it goes when that view does
                pass
            self._whole = self._map = None
            self._tried = False


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
