"""Write files atomically: the complete new file replaces the old one, or nothing changes.

A file is written without a name if the system supports that, else under a temporary name beside its target. It gets
the target's name once its content is on the disk. Until then the old file stays as it was.

`sweep` recognizes temporary names and removes the files whose writers have died. A live writer holds a lock on its
file.
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

__all__ = ["Staged", "held", "hidden_name", "lock", "mode_of", "replacing", "shortened", "sweep", "sync_folder"]

MAX_NAME = 255
"""Longest file name in bytes on common file systems."""


# Names and locks ------------------------------------------------------------------


def shortened(name: str, most: int) -> str:
    """Return ``name`` cut to at most ``most`` bytes, with a digest of the whole name at the end if it was cut."""
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
    """Return the temporary name for ``base`` and ``token``.

    Its last twelve hex digits are a digest of the rest of the name, so `sweep` can recognize it.
    """
    return hidden_name(base, f".{token}{_digest(base, token)}.tmp")


def _is_temporary(name: str, base: str) -> bool:
    return name == _temporary(base, name[-28:-16])


def lock(handle: int, wait: bool) -> bool | None:
    """Lock an open file until it is closed.

    Return False if another process holds the lock, None if locking is unsupported.
    """
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def held(path: str) -> int | None:
    """Lock the file at ``path`` and return its file descriptor, or None if locking is not possible."""
    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0), 0o600)
        except OSError:
            return None
        try:
            if stat.S_ISREG(os.fstat(handle).st_mode) and lock(handle, wait=True):
                if os.path.samestat(os.fstat(handle), os.lstat(path)):
                    return handle
            else:
                os.close(handle)
                return None
        except FileNotFoundError:  # the previous saver has removed it
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def sweep(folder: str, base: str) -> None:
    """Remove temporary files of ``base`` whose writing process has died."""
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
    """Return the permissions common to all regular files among ``paths``, or None if there are none."""
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
    """Yield a file to write. At the end of the block it replaces ``path``, unless the block raises.

    Symbolic links are followed. If ``path`` is not a regular file (a pipe, ``/dev/null``), the block writes to it
    directly. The new file has the permissions of the one that it replaces, else ``mode``.
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
    """A file in ``folder`` with content but no final name yet.

    It is deleted at the end of the block unless it has been given a name.
    """

    def __init__(self, folder: str, base: str, mode: int | None = None) -> None:
        if not os.path.isdir(folder):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.path.join(folder, base))
        self.folder = folder
        self.name: str | None = None
        """The file's current path, or None if it has none."""
        self._base = base
        self._mode = mode
        self.file: BinaryIO = self._open()

    def _open(self) -> Any:
        # While it is incomplete, a file with restricted permissions is accessible to its owner only.
        mode = 0o666 if self._mode is None else 0o600
        unnamed = getattr(os, "O_TMPFILE", None)
        if unnamed is not None and os.path.isdir("/proc/self/fd"):
            with suppress(OSError):  # raised if the file system has no unnamed files
                handle = os.open(self.folder, unnamed | os.O_RDWR | os.O_CLOEXEC, mode)
                lock(handle, wait=False)
                return os.fdopen(handle, "wb", buffering=0)
        while True:
            path = self._temporary_path()
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_BINARY", 0), mode)
            held = lock(handle, wait=False)
            if held is None or (held and os.path.exists(path)):  # otherwise `sweep` removed it before it was locked
                self.name = path
                return os.fdopen(handle, "wb", buffering=0)
            os.close(handle)

    def _temporary_path(self) -> str:
        return os.path.join(self.folder, _temporary(self._base, secrets.token_hex(6)))

    def sync(self) -> None:
        """Set the permissions and wait until the content is on the disk."""
        if self._mode is not None:
            with suppress(OSError, AttributeError):  # a file system without permissions
                os.fchmod(self.file.fileno(), self._mode)
        os.fsync(self.file.fileno())

    def link(self, path: str) -> None:
        """Name the file ``path``, which must not exist.

        It loses the name at the end of the block unless `keep` is called.
        """
        if self.name is not None:
            try:
                os.link(self.name, path)
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
                    raise
                if os.path.lexists(path):  # the file system has no hard links
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path) from None
                os.rename(self.name, path)
            else:
                os.unlink(self.name)
        else:
            # Python follows the link in /proc only if the folder's descriptor is passed.
            at = os.open(self.folder, os.O_RDONLY)
            try:
                os.link(f"/proc/self/fd/{self.file.fileno()}", os.path.basename(path), dst_dir_fd=at, follow_symlinks=True)
            finally:
                os.close(at)
        self.name = path

    def replace(self, path: str) -> None:
        """Replace ``path`` with this file atomically."""
        if self.name is None:
            self.link(self._temporary_path())
        assert self.name is not None
        if fcntl is None:  # Windows renames only closed files; elsewhere the lock is held until the file is renamed
            self.file.close()
        os.replace(self.name, path)
        self.name = None
        self.file.close()
        sync_folder(self.folder)

    def keep(self) -> None:
        """Keep the file under its current name."""
        self.name = None

    def discard(self) -> None:
        """Close the file and delete it."""
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
    """Wait until the directory entries of ``folder`` are on the disk, where the system supports that."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
