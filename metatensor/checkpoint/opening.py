"""Open a checkpoint of any format and read one tensor at a time."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, BinaryIO

from metatensor.checkpoint.budget import shared
from metatensor.checkpoint.errors import CheckpointError
from metatensor.checkpoint.formats import Format, format_of
from metatensor.checkpoint.model import Checkpoint, TensorInfo
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


class Opened:
    """An open checkpoint, described by `checkpoint`. Use it as a context manager, or call `close`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: str = path_of(path)
        self._files: dict[str, BinaryIO] = {}
        self._inner: Opened | None = None
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
        path = self.path if info.file is None else beside(self.path, info.file, "the shard")
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
