"""Open a checkpoint of any format and read one tensor at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO

from metatensor.checkpoint.boxes import Box, whole_box
from metatensor.checkpoint.budget import shared
from metatensor.checkpoint.errors import CheckpointError
from metatensor.checkpoint.formats import Format, format_of
from metatensor.checkpoint.model import Checkpoint, Piece, TensorInfo
from metatensor.checkpoint.reading import beside, shown, span
from metatensor.checkpoint.source import open_file

__all__ = ["Opened", "path_of", "span_bytes"]

CHUNK = 1 << 24


def path_of(f: Any) -> Any:
    """Return the path to open: for a folder, the file that represents its checkpoint, else ``f`` itself."""
    if isinstance(f, (str, bytes, os.PathLike)):
        path = os.fsdecode(os.fspath(f))
        if os.path.isdir(path):
            from metatensor.checkpoint.sharded import file_in

            return file_in(path)
        return path
    return f


def span_bytes(info: TensorInfo) -> int:
    """Return the number of bytes from a tensor's first to its last element in memory."""
    if info.stride is None or not info.nbytes:
        return info.nbytes
    elements = 1
    for size in info.shape:
        elements *= size
    return span(info.shape, info.stride) * (info.nbytes // elements)


def read_at(file: BinaryIO, target: memoryview, position: int) -> int:
    """Fill ``target`` with bytes of a file from ``position`` on. Return how many were read."""
    if hasattr(os, "preadv"):
        return os.preadv(file.fileno(), (target,), position)
    file.seek(position)
    return int(file.readinto(target))  # type: ignore[attr-defined]


class Opened:
    """An open checkpoint, described by `checkpoint`. Use it as a context manager, or call `close`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: str = path_of(path)
        self._files: dict[str, BinaryIO] = {}
        self._inner: Opened | None = None
        self._last: tuple[str, Any] = "", b""
        try:
            with shared() as self.budget:
                file = self._file(self.path)
                self.format: Format = format_of(file, self.path)
                self.checkpoint: Checkpoint = self.format.inspect(file, self.path)
        except BaseException:
            self.close()
            raise

    def fetch(self, name: str) -> Any:
        """Return a tensor's bytes from its first to its last element in memory, in the machine's byte order."""
        info = self.checkpoint.tensors[name]
        if info.offset >= 0:
            data = bytearray(span_bytes(info))
            self.read_into(name, memoryview(data))
            return data
        if info.file is not None:
            with shared(self.budget):
                return self._shard(info.file).fetch(name)
        fetch = getattr(self.format, "fetch", None)
        if fetch is None:
            raise CheckpointError(self.path, f"tensor {shown(name)}: {self.format.name} cannot read one tensor by itself")
        file = self._file(self.path)
        file.seek(0)
        with shared(self.budget):
            return fetch(file, self.path, self.checkpoint, name)

    def read_into(self, name: str, target: memoryview, begin: int = 0, step: Callable[[int], None] | None = None) -> None:
        """Fill ``target`` with a tensor's bytes from ``begin`` on.

        ``step`` is called with the size of each piece that is read.
        """
        info = self.checkpoint.tensors[name]
        if info.offset < 0:
            target[:] = memoryview(self.fetch(name)).cast("B")[begin : begin + len(target)]
            if step is not None:
                step(len(target))
            return
        if not len(target):
            return
        path = self.path_of(name)
        file = self._file(path)
        file.seek(info.offset + begin)
        at = 0
        while at < len(target):
            count = file.readinto(target[at : at + CHUNK])  # type: ignore[attr-defined]
            if not count:
                raise CheckpointError(path, f"truncated: tensor {shown(name)} lacks {len(target) - at:,} bytes at its end")
            at += count
            if step is not None:
                step(count)

    def pieces(self, name: str, box: Box) -> list[Piece]:
        """Return the stored arrays that hold the elements of a box of a tensor."""
        info = self.checkpoint.tensors[name]
        if info.offset < 0 and info.file is not None:
            with shared(self.budget):
                return self._shard(info.file).pieces(name, box)
        if info.offset >= 0:
            return [Piece(whole_box(info.shape), self.path_of(name), info)]
        pieces = getattr(self.format, "pieces", None)
        if pieces is None:
            return [Piece(whole_box(info.shape), None, info)]
        with shared(self.budget):
            return list(pieces(self.checkpoint, name, box))

    def path_of(self, name: str) -> str:
        """Return the path of the file that holds a tensor."""
        file = self.checkpoint.tensors[name].file
        return self.path if file is None else beside(self.path, file, "the shard")

    def release(self) -> None:
        """Forget the bytes of the tensor that was read last."""
        self._last = "", b""

    def read_ranges(self, name: str, piece: Piece, ranges: Iterable[int], length: int, target: memoryview,
                    step: Callable[[int], None] | None = None) -> None:  # fmt: skip
        """Fill ``target`` with ranges of a stored array, one after the other.

        Parameters
        ----------
        name : str
            The tensor.
        piece : Piece
            The stored array.
        ranges : iterable of int
            The first byte of each range, from the array's first element on.
        length : int
            The number of bytes of each range.
        target : memoryview
            The memory.
        step : callable, optional
            It is called with the size of each piece that is read.
        """
        at = 0
        if piece.path is None:  # the reader can only supply the whole array
            if self._last[0] != name:
                self._last = "", b""
                self._last = name, self.fetch(name)
            data = memoryview(self._last[1]).cast("B")
            for begin in ranges:
                target[at : at + length] = data[begin : begin + length]
                at += length
            return
        file, start = self._file(piece.path), piece.info.offset
        for begin in ranges:
            end = at + length
            position = start + begin
            while at < end:
                count = read_at(file, target[at : min(end, at + CHUNK)], position)
                if not count:
                    raise CheckpointError(piece.path, f"truncated: tensor {shown(name)} lacks {end - at:,} bytes at its end")
                at += count
                position += count
                if step is not None:
                    step(count)

    def again(self) -> BinaryIO:
        """Open the file once more, at its beginning."""
        return open_file(self.path)

    def _file(self, path: str) -> BinaryIO:
        """Return the open file for a path. Only the shard that was used last stays open."""
        found = self._files.get(path)
        if found is None:
            for other in [key for key in self._files if key != self.path]:
                self._files.pop(other).close()
            found = self._files[path] = open_file(path)
        return found

    def _shard(self, name: str) -> Opened:
        path = beside(self.path, name, "the shard")
        if self._inner is None or self._inner.path != path:
            if self._inner is not None:
                self._inner.close()
            self._inner = Opened(path)
        return self._inner

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            file.close()
        self._files.clear()
        if self._inner is not None:
            self._inner.close()
            self._inner = None

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
