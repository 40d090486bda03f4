"""Replace the checkpoint in a folder in one step, whatever happens to the processes that save it.

The files of each save have names of their own, and ``.metadata`` is replaced last, so the old checkpoint is complete until
the new one is. While a checkpoint is saved, its coordinator holds a lock on a hidden journal, whose name contains the tag of
the new files. A journal that is not locked belongs to a saver that died, and the next saver removes what it left.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from metatensor.checkpoint._zip_writer import write_all
from metatensor.checkpoint.atomic import held, hidden_name, lock, replacing, sweep
from metatensor.checkpoint.distributed import METADATA, SUFFIX, files_of

__all__ = ["PLAIN", "STAGED", "Saving", "file_name", "note_name", "remove"]

PLAIN = ""
"""The tag of the first checkpoint in a folder: its files have PyTorch's names."""
JOURNAL = re.compile(r"\.\.metadata\.([0-9a-f]{8}|plain)\.saving")
MAX_JOURNAL = 1 << 24
STAGED = f"__{SUFFIX}"
"""Base of the temporary names of files that are being written, where the file system needs them."""


def file_name(rank: int, number: int, tag: str) -> str:
    """Return the name of a file that a rank writes."""
    return f"__{rank}_{number}{'-' if tag else ''}{tag}{SUFFIX}"


def _is_of(name: str, tag: str) -> bool:
    """Return True for the name of a file, or of a note of a rank, with this tag."""
    end = re.escape(f"-{tag}") if tag else ""
    return re.fullmatch(rf"__\d+_\d+{end}\.distcp|\.\.metadata\.{tag or 'plain'}\.\d+\.(done|told)", name) is not None


class Saving:
    """A save in progress, on its coordinator. Creating it chooses the tag of the new files.

    Parameters
    ----------
    folder : str
        The folder, which must exist.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.tag = secrets.token_hex(4)
        self._journal: int | None = None
        self._old: list[str] = []
        with self._turn() as locked:
            if locked:
                self._recover()
                names = os.listdir(folder)
                if METADATA not in names and not any(name.endswith(SUFFIX) or JOURNAL.fullmatch(name) for name in names):
                    self.tag = PLAIN
                self._journal = held(self.journal)

    @property
    def journal(self) -> str:
        """The path of the journal."""
        return os.path.join(self.folder, note_name(self.tag, "saving"))

    def commit(self, metadata: bytes, before_end: Callable[[], None] | None = None) -> None:
        """Write ``.metadata``. From then on, the new files are the checkpoint. Remove the old ones.

        ``before_end`` is called before the journal is removed.
        """
        path = os.path.join(self.folder, METADATA)
        with self._turn():
            self._old = sorted(files_of(path) or ())
            self._write_journal()
            with replacing(path) as file:
                write_all(file, metadata)
            self._remove(self._old)
        if before_end is not None:
            before_end()
        self.close()

    def abandon(self) -> None:
        """Remove the new files."""
        with self._turn():
            # The answers to the ranks stay, because the ranks still have to read them.
            self._remove(name for name in os.listdir(self.folder) if _is_of(name, self.tag) and not name.endswith(".told"))
        self.close()

    def close(self) -> None:
        """Remove the journal."""
        if self._journal is not None:
            with suppress(OSError):
                os.unlink(self.journal)
        self.leave()

    def leave(self) -> None:
        """Leave everything to the next saver."""
        if self._journal is not None:
            os.close(self._journal)
            self._journal = None

    @contextmanager
    def _turn(self) -> Iterator[bool]:
        """Wait for others that choose names or replace the metadata. Yield False if the file system has no locks."""
        path = os.path.join(self.folder, hidden_name(METADATA, ".lock"))
        handle = held(path)
        try:
            yield handle is not None
        finally:
            if handle is not None:
                with suppress(OSError):
                    os.unlink(path)
                os.close(handle)

    def _remove(self, names: Iterable[str]) -> None:
        """Remove files to which the metadata does not refer. If it cannot be read, remove none."""
        kept = files_of(os.path.join(self.folder, METADATA))
        if kept is not None:
            remove(self.folder, set(names) - kept)

    def _write_journal(self) -> None:
        if self._journal is not None:
            os.ftruncate(self._journal, 0)
            content = json.dumps(self._old).encode()
            while content:
                content = content[os.write(self._journal, content) :]
            os.fsync(self._journal)

    def _recover(self) -> None:
        """Remove what savers that died have left."""
        sweep(self.folder, STAGED)
        for name in os.listdir(self.folder):
            match = JOURNAL.fullmatch(name)
            if match is None:
                continue
            path = os.path.join(self.folder, name)
            with suppress(OSError):
                handle = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0))
                try:
                    if stat.S_ISREG(os.fstat(handle).st_mode) and lock(handle, wait=False):
                        tag = PLAIN if match[1] == "plain" else match[1]
                        self._remove([*_names_in(handle), *(other for other in os.listdir(self.folder) if _is_of(other, tag))])
                        os.unlink(path)
                finally:
                    os.close(handle)


def note_name(tag: str, ending: str) -> str:
    """Return the name of a hidden file about the save with a tag."""
    return hidden_name(METADATA, f".{tag or 'plain'}.{ending}")


def _names_in(handle: int) -> list[str]:
    """Return the names in a journal. A damaged one counts as empty: its saver died before it replaced the metadata."""
    try:
        found = json.loads(os.read(handle, MAX_JOURNAL) or b"[]")
    except (OSError, ValueError, RecursionError):
        return []
    return [name for name in found if isinstance(name, str) and name.endswith(SUFFIX)] if isinstance(found, list) else []


def remove(folder: str, names: Iterable[str]) -> None:
    """Remove files of a folder, if they exist."""
    for name in names:
        if os.path.basename(name) == name:
            with suppress(OSError):
                os.unlink(os.path.join(folder, name))
