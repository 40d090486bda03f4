"""Files that appear whole or not at all.

A file is written without a name where the system allows that, otherwise under a temporary name beside its target. It gets the
target's name once its content is on the disk. Whatever happens before that, the old file stays as it was.

A temporary name can be recognised as one of ours, and its file is locked for as long as its owner lives. `sweep` removes the
temporary files of owners that died.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from typing import Any, BinaryIO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["Staged", "hidden_name", "lock", "mode_of", "replacing", "shortened", "sweep", "sync_folder"]

MAX_NAME = 255
"""Most bytes of a file's name, on all usual file systems."""


# Names and locks ------------------------------------------------------------------


def shortened(name: str, most: int) -> str:
    """Return ``name`` cut to at most ``most`` bytes; what was cut is replaced by a digest of the whole."""
    if len(os.fsencode(name)) <= most:
        return name
    digest = _digest(name)
    while len(os.fsencode(name)) > most - len(digest) - 1:
        name = name[:-1]
    return f"{name}~{digest}"


def hidden_name(base: str, ending: str) -> str:
    """Return the name of a hidden file that belongs to the file ``base`` in the same folder."""
    return f".{shortened(base, MAX_NAME - 1 - len(ending))}{ending}"


def _digest(*parts: str) -> str:
    return blake2b("\0".join(parts).encode("utf-8", "surrogateescape"), digest_size=6).hexdigest()


def _temporary(base: str, token: str) -> str:
    """A name that only `Staged` makes for ``base``: the last twelve digits follow from the rest."""
    return hidden_name(base, f".{token}{_digest(base, token)}.tmp")


def _is_temporary(name: str, base: str) -> bool:
    return name == _temporary(base, name[-28:-16])


def lock(handle: int, wait: bool) -> bool | None:
    """Lock an open file until it is closed. Return False if another process holds it, None where files cannot be locked."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def sweep(folder: str, base: str) -> None:
    """Remove temporary files of ``base`` whose owners have died."""
    if fcntl is None:
        return
    with suppress(OSError):
        for name in [name for name in os.listdir(folder) if name.endswith(".tmp") and _is_temporary(name, base)]:
            path = os.path.join(folder, name)
            with suppress(OSError):
                handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
                try:
                    if stat.S_ISREG(os.fstat(handle).st_mode) and lock(handle, wait=False):
                        os.unlink(path)
                finally:
                    os.close(handle)


def mode_of(*paths: str) -> int | None:
    """Return the permissions that all those of ``paths`` grant which are ordinary files; None if none of them is one."""
    modes = []
    for path in paths:
        with suppress(OSError):
            state = os.stat(path)
            if stat.S_ISREG(state.st_mode):
                modes.append(stat.S_IMODE(state.st_mode))
    if not modes:
        return None
    common = modes[0]
    for mode in modes[1:]:
        common &= mode
    return common


# Files ----------------------------------------------------------------------------


@contextmanager
def replacing(path: str, mode: int | None = None) -> Iterator[BinaryIO]:
    """Yield a file to write. At the end of the block it takes the place of ``path``, unless the block raises.

    A link is followed. What is not an ordinary file (a pipe, ``/dev/null``) is written as it is. The new file has the
    permissions of the one that it replaces, or else ``mode``.
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
    if before is not None:
        mode = stat.S_IMODE(before.st_mode)
    folder, base = os.path.split(path)
    sweep(folder, base)
    with Staged(folder, base, mode) as staged:
        yield staged.file
        staged.sync()
        staged.replace(path)


class Staged:
    """A file in ``folder`` that has its content but not its name yet. At the end of the block it is gone, unless it was named."""

    def __init__(self, folder: str, base: str, mode: int | None = None) -> None:
        if not os.path.isdir(folder):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.path.join(folder, base))
        self.folder = folder
        self.name: str | None = None
        """The path under which it can be seen now."""
        self._base = base
        self._mode = mode
        self.file: BinaryIO = self._open()

    def _open(self) -> Any:
        # Until it is whole, a file that will not be for everybody is for its owner alone.
        mode = 0o666 if self._mode is None else 0o600
        unnamed = getattr(os, "O_TMPFILE", None)
        if unnamed is not None and os.path.isdir("/proc/self/fd"):
            with suppress(OSError):  # a file system without them
                handle = os.open(self.folder, unnamed | os.O_RDWR | os.O_CLOEXEC, mode)
                lock(handle, wait=False)
                return os.fdopen(handle, "wb", buffering=0)
        while True:
            path = self._temporary_path()
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_BINARY", 0), mode)
            held = lock(handle, wait=False)
            if held is None or (held and os.path.exists(path)):  # else `sweep` came between the two calls
                self.name = path
                return os.fdopen(handle, "wb", buffering=0)
            os.close(handle)

    def _temporary_path(self) -> str:
        return os.path.join(self.folder, _temporary(self._base, secrets.token_hex(6)))

    def sync(self) -> None:
        """Set the permissions, and wait until the content is on the disk."""
        if self._mode is not None:
            with suppress(OSError, AttributeError):  # a file system without permissions
                os.fchmod(self.file.fileno(), self._mode)
        os.fsync(self.file.fileno())

    def link(self, path: str) -> None:
        """Give it the name ``path``, which must be free; it loses it at the end of the block unless `keep` is called."""
        if self.name is not None:
            try:
                os.link(self.name, path)
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
                    raise
                if os.path.lexists(path):  # a file system without links
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path) from None
                os.rename(self.name, path)
            else:
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
            self.link(self._temporary_path())
        assert self.name is not None
        if fcntl is None:  # only a closed file can be renamed there; elsewhere the lock is to last until it is
            self.file.close()
        os.replace(self.name, path)
        self.name = None
        self.file.close()
        sync_folder(self.folder)

    def keep(self) -> None:
        """Leave it under the name it has."""
        self.name = None

    def discard(self) -> None:
        """Close it, and take its name away."""
        self.file.close()
        if self.name is not None:
            with suppress(OSError):
                os.unlink(self.name)
            self.name = None

    def __enter__(self) -> Staged:
        return self

    def __exit__(self, *error: object) -> None:
        self.discard()


def sync_folder(folder: str) -> None:
    """Wait until the names in ``folder`` are on the disk, where the system can do that."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
