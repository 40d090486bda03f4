"""Files that are there as a whole or not at all.

What is written goes to a file without a name where the system has such, else to one with a name of its own beside the
target. It gets the target's name when all of it is on the disk. Whatever happens before, the old file is untouched.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

__all__ = ["replacing"]


@contextmanager
def replacing(path: str) -> Iterator[BinaryIO]:
    """A file to write; at the end of the block it takes the place of ``path``, unless the block raises.

    A link is followed. What is no ordinary file (a pipe, ``/dev/null``) is written as it is.
    """
    path = os.path.realpath(path)
    try:
        before = os.stat(path)
    except FileNotFoundError:
        before = None
    if before is not None and not stat.S_ISREG(before.st_mode):
        with open(path, "wb") as file:
            yield file
        return
    folder, base = os.path.split(path)
    temporary = os.path.join(folder, f".{base[:200]}.{secrets.token_hex(6)}.tmp")
    handle, named = _fresh(folder, temporary)
    try:
        with os.fdopen(handle, "wb", buffering=0) as file:
            yield file  # type: ignore[misc]
            if before is not None:
                with suppress(OSError):  # somebody else's file: the new one is ours, with our rights
                    os.fchmod(handle, stat.S_IMODE(before.st_mode))
            os.fsync(handle)
            if not named:
                named = _give_name(handle, folder, temporary)
        os.replace(temporary, path)
        named = False
    finally:
        if named:
            with suppress(OSError):
                os.unlink(temporary)
    _sync_folder(folder)


def _fresh(folder: str, temporary: str) -> tuple[int, bool]:
    """A new file in ``folder`` and whether it has a name already."""
    unnamed = getattr(os, "O_TMPFILE", None)
    if unnamed is not None and os.path.isdir("/proc/self/fd"):
        with suppress(OSError):  # a file system without them
            return os.open(folder, unnamed | os.O_RDWR | os.O_CLOEXEC, 0o666), False
    return os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_BINARY", 0), 0o666), True


def _give_name(handle: int, folder: str, temporary: str) -> bool:
    """Give an open file without a name one. The folder's handle makes Python follow the link that stands for the file."""
    at = os.open(folder, os.O_RDONLY)
    try:
        os.link(f"/proc/self/fd/{handle}", os.path.basename(temporary), dst_dir_fd=at, follow_symlinks=True)
    finally:
        os.close(at)
    return True


def _sync_folder(folder: str) -> None:
    """Have the new name on the disk, where folders can be told to."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
