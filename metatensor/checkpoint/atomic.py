"""Files that are there as a whole or not at all.

What is written goes to a file without a name where the system has such, else to one with a name of its own beside the
target. It gets the target's name when all of it is on the disk. Whatever happens before, the old file is untouched.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

__all__ = ["Staged", "replacing", "sync_folder"]


@contextmanager
def replacing(path: str) -> Iterator[BinaryIO]:
    """A file to write; at the end of the block it takes the place of ``path``, unless the block raises.

    A link is followed. What is no ordinary file (a pipe, ``/dev/null``) is written as it is.
    """
    path = os.path.realpath(path)
    try:
        before: os.stat_result | None = os.stat(path)
    except FileNotFoundError:
        before = None
    if before is not None and not stat.S_ISREG(before.st_mode):
        with open(path, "wb") as file:
            yield file
        return
    with Staged(*os.path.split(path)) as staged:
        yield staged.file
        if before is not None:
            with suppress(OSError, AttributeError):  # somebody else's file: the new one is ours, with our rights
                os.fchmod(staged.file.fileno(), stat.S_IMODE(before.st_mode))
        staged.sync()
        staged.replace(path)


class Staged:
    """A file in ``folder`` that has its content but not yet its name; gone at the end of the block unless it gets one."""

    def __init__(self, folder: str, base: str) -> None:
        if not os.path.isdir(folder):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.path.join(folder, base))
        self.folder = folder
        self.name: str | None = None
        """The path under which it can be seen now."""
        self._temporary = os.path.join(folder, f".{base[:200]}.{secrets.token_hex(6)}.tmp")
        self.file: BinaryIO = self._open()

    def _open(self) -> Any:
        unnamed = getattr(os, "O_TMPFILE", None)
        if unnamed is not None and os.path.isdir("/proc/self/fd"):
            with suppress(OSError):  # a file system without them
                return os.fdopen(os.open(self.folder, unnamed | os.O_RDWR | os.O_CLOEXEC, 0o666), "wb", buffering=0)
        handle = os.open(self._temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_BINARY", 0), 0o666)
        self.name = self._temporary
        return os.fdopen(handle, "wb", buffering=0)

    def sync(self) -> None:
        """Have the content on the disk."""
        os.fsync(self.file.fileno())

    def link(self, path: str) -> None:
        """Give it the name ``path``, which no file may have yet; it loses it at the end of the block unless `keep` is called."""
        if self.name is not None:
            os.link(self.name, path)
            os.unlink(self.name)
        else:
            # Only with the folder's handle does Python follow the link that stands for the open file.
            at = os.open(self.folder, os.O_RDONLY)
            try:
                os.link(f"/proc/self/fd/{self.file.fileno()}", os.path.basename(path), dst_dir_fd=at, follow_symlinks=True)
            finally:
                os.close(at)
        self.name = path

    def replace(self, path: str) -> None:
        """Put it in the place of ``path``, in one step."""
        if self.name is None:
            self.link(self._temporary)
        assert self.name is not None
        self.file.close()
        os.replace(self.name, path)
        self.name = None
        sync_folder(self.folder)

    def keep(self) -> None:
        """Leave it under the name it has."""
        self.name = None

    def __enter__(self) -> Staged:
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()
        if self.name is not None:
            with suppress(OSError):
                os.unlink(self.name)


def sync_folder(folder: str) -> None:
    """Have names on the disk, where folders can be told to."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
