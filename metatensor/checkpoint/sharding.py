"""Save a checkpoint in several files (shards), with an index that maps tensor names to files.

A new save gives its shards unused names and then replaces the index atomically, so a reader finds the old checkpoint or
the new one. Concurrent savers of one path take turns under a lock. A turn lasts from naming the shards to removing the
old ones.

A file is removed only if it belongs to this checkpoint: either the old index names it, or the journal of a saver that
died lists it. The journal identifies files by inode, size and modification time, so a file that later takes the same
name is left alone. A file that any index in the folder names is never removed.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from metatensor.checkpoint._zip_writer import write_all
from metatensor.checkpoint.atomic import MAX_NAME, Staged, held, hidden_name, mode_of, replacing, shortened, sweep, sync_folder
from metatensor.checkpoint.sharded import MAX_INDEX
from metatensor.checkpoint.writers import OWN, WRITERS, Contents, tensors_of

__all__ = ["save_shards"]

INDEX = ".index.json"
MAX_JOURNAL = 1 << 24

Mark = tuple[str, int, int, int]
"""A journal entry: file name, inode, size and modification time."""


def save_shards(obj: Any, path: str, form: str, limit: int, metadata: Mapping[str, str] | None = None, contents: Contents = OWN) -> None:
    """Write shards of at most ``limit`` bytes, then their index.

    A shard exceeds the limit only if a single tensor or storage does.

    A checkpoint that fits in one shard becomes a single file. Raise ValueError if the format has no shards or a name
    occurs twice.
    """
    if form not in ("torch", "safetensors"):
        raise ValueError(f"save: the format {form} cannot be sharded; torch and safetensors can")
    checkpoint = _Checkpoint(*os.path.split(os.path.realpath(path)))
    mode = checkpoint.mode()
    shards: list[Staged] = []
    where: dict[str, int] = {}
    total = 0
    sweep(checkpoint.folder, checkpoint.base)
    with ExitStack() as stack:
        for group in _groups(obj, form, limit):
            for name in group:
                if where.setdefault(name, len(shards)) != len(shards):
                    raise ValueError(f"save: the name {name!r} occurs twice")
            staged = stack.enter_context(Staged(checkpoint.folder, checkpoint.base, mode))
            WRITERS[form](group, staged.file, contents, metadata or ({"format": "pt"} if form == "safetensors" else None))
            staged.sync()
            shards.append(staged)
            total += sum(tensor.nbytes for tensor in group.values())
        with checkpoint.turn() as turn:
            if len(shards) == 1:
                turn.put_one(shards[0])
            else:
                turn.put(shards, where, total, mode)


class _Checkpoint:
    """File names of a checkpoint: ``folder/base`` if it is one file, else an index and shards."""

    def __init__(self, folder: str, base: str) -> None:
        self.folder = folder
        self.base = base
        self.path = os.path.join(folder, base)
        self.index = f"{self.path}{INDEX}"
        if len(os.fsencode(base + INDEX)) > MAX_NAME:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), self.index)
        stem, self._ending = os.path.splitext(base)
        self._stem = shortened(stem, MAX_NAME - len("-12345678-00001-of-00001") - len(os.fsencode(self._ending)))
        self._shard = re.compile(re.escape(self._stem) + r"(-[0-9a-f]{8})?-\d{5,7}-of-\d{5,7}" + re.escape(self._ending))

    def is_shard(self, name: Any) -> bool:
        """Return True if ``name`` may be a shard of this checkpoint. Shards of other checkpoints may match too."""
        return isinstance(name, str) and self._shard.fullmatch(name) is not None

    def free_names(self, count: int, plain: bool) -> list[str]:
        """Return ``count`` unused shard names.

        They contain a random tag unless ``plain`` is true and the plain names are free.
        """
        tag = "" if plain else f"-{secrets.token_hex(4)}"
        while True:
            names = [f"{self._stem}{tag}-{i + 1:05d}-of-{count:05d}{self._ending}" for i in range(count)]
            if not any(os.path.lexists(os.path.join(self.folder, name)) for name in names):
                return names
            tag = f"-{secrets.token_hex(4)}"

    def old_shards(self) -> list[str]:
        """Return the shards that the current index names."""
        return sorted(name for name in _names_in(self.index) or () if self.is_shard(name))

    def mode(self) -> int | None:
        """Return the permissions of the current checkpoint, which its replacement inherits."""
        return mode_of(self.path, self.index, *(os.path.join(self.folder, name) for name in self.old_shards()))

    def mark(self, name: str) -> Mark | None:
        """Return the journal entry of an existing file, or None."""
        try:
            state = os.lstat(os.path.join(self.folder, name))
        except OSError:
            return None
        return (name, state.st_ino, state.st_size, state.st_mtime_ns) if stat.S_ISREG(state.st_mode) else None

    @contextmanager
    def turn(self) -> Iterator[_Turn]:
        """Wait for other savers of this checkpoint, then clean up after savers that died."""
        path = os.path.join(self.folder, hidden_name(self.base, ".lock"))
        handle = held(path)
        try:
            turn = _Turn(self, handle)
            turn.recover()
            yield turn
            if handle is not None and not turn.waiting:
                os.unlink(path)
        finally:
            if handle is not None:
                os.close(handle)


class _Turn:
    """One saver's turn.

    ``handle`` is the journal's file descriptor. If it is None, no shards are removed, because other savers may be
    running.
    """

    def __init__(self, checkpoint: _Checkpoint, handle: int | None) -> None:
        self.checkpoint = checkpoint
        self.handle = handle
        self.waiting: list[Mark] = []
        """Files still to be removed."""

    def put_one(self, file: Staged) -> None:
        """Install a single file as the checkpoint."""
        checkpoint = self.checkpoint
        old = checkpoint.old_shards()
        self.note(old)
        file.replace(checkpoint.path)
        with suppress(FileNotFoundError):
            os.unlink(checkpoint.index)
        self.remove(old)

    def put(self, shards: list[Staged], where: dict[str, int], total: int, mode: int | None) -> None:
        """Install several files and their index as the checkpoint."""
        checkpoint = self.checkpoint
        old = checkpoint.old_shards()
        names = checkpoint.free_names(len(shards), plain=self.handle is not None)
        states = [os.fstat(shard.file.fileno()) for shard in shards]
        self.note(old, [(name, state.st_ino, state.st_size, state.st_mtime_ns) for name, state in zip(names, states)])
        try:
            for shard, name in zip(shards, names):
                shard.link(os.path.join(checkpoint.folder, name))
            sync_folder(checkpoint.folder)
            index = {"metadata": {"total_size": total}, "weight_map": {name: names[i] for name, i in where.items()}}
            with replacing(checkpoint.index, mode) as file:
                write_all(file, json.dumps(index, indent=2).encode())
        except BaseException:
            for shard in shards:
                shard.discard()
            raise
        for shard in shards:
            shard.keep()
        with suppress(OSError):
            os.unlink(checkpoint.path)
        self.remove(old)

    # Removal ------------------------------------------------------------------

    def note(self, old: list[str], new: Iterable[Mark] = ()) -> None:
        """Write the journal: the files that the next saver must remove if this one dies.

        Files that an index names by then are not removed.
        """
        marks = [mark for name in old if (mark := self.checkpoint.mark(name)) is not None]
        self._write([*self.waiting, *marks, *new])

    def remove(self, names: Iterable[str]) -> None:
        """Remove files of this checkpoint that no index names. If an index is unreadable, leave them to a later saver.
        """
        marks = [mark for name in names if (mark := self.checkpoint.mark(name)) is not None]
        self.waiting = self._removed([*self.waiting, *marks])
        self._write(self.waiting)

    def recover(self) -> None:
        """Remove the files in the journal of a saver that died."""
        self.waiting = self._removed(self._read())

    def _removed(self, marks: list[Mark]) -> list[Mark]:
        """Remove the marked files that no index names.

        If an index cannot be read, remove none and return all marks, for a later saver.
        """
        checkpoint = self.checkpoint
        if not marks or self.handle is None:
            return []
        named = _named(checkpoint.folder)
        if named is None:
            return marks
        for mark in marks:
            if mark[0] not in named and checkpoint.mark(mark[0]) == mark:
                with suppress(OSError):
                    os.unlink(os.path.join(checkpoint.folder, mark[0]))
        return []

    def _write(self, marks: list[Mark]) -> None:
        if self.handle is not None:
            os.ftruncate(self.handle, 0)
            os.lseek(self.handle, 0, os.SEEK_SET)
            if marks:
                content = json.dumps(marks).encode()
                while content:
                    content = content[os.write(self.handle, content) :]
                os.fsync(self.handle)

    def _read(self) -> list[Mark]:
        """Return the journal's entries.

        A damaged journal counts as empty, because the process that wrote it died before it created any file.
        """
        if self.handle is None:
            return []
        try:
            os.lseek(self.handle, 0, os.SEEK_SET)
            content = os.read(self.handle, MAX_JOURNAL)
            return [(name, int(inode), int(size), int(time)) for name, inode, size, time in json.loads(content or b"[]")
                    if self.checkpoint.is_shard(name)]  # fmt: skip
        except (OSError, ValueError, TypeError, RecursionError):
            return []


def _named(folder: str) -> set[str] | None:
    """Return the files that the indexes in a folder name, or None if an index cannot be read."""
    found: set[str] = set()
    for name in os.listdir(folder):
        if name.endswith(INDEX):
            names = _names_in(os.path.join(folder, name))
            if names is None:
                return None
            found |= names
    return found


def _names_in(index: str) -> set[str] | None:
    """Return the files that an index names, or None if it cannot be read. A JSON file that is not an index names none.
    """
    try:
        with open(index, "rb", opener=_opener) as file:
            state = os.fstat(file.fileno())
            if not stat.S_ISREG(state.st_mode) or state.st_size > MAX_INDEX:
                return None
            content = json.loads(file.read(MAX_INDEX))
    except (OSError, ValueError, RecursionError):
        return None
    weights = content.get("weight_map") if isinstance(content, dict) else None
    return {name for name in weights.values() if isinstance(name, str)} if isinstance(weights, dict) else set()


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # so that a FIFO does not block


# Grouping into shards -------------------------------------------------------------


def _groups(obj: Any, form: str, limit: int) -> Iterator[dict[str, Any]]:
    """Yield at least one group of tensors, of at most ``limit`` bytes each.

    Tensors that share a storage stay together.
    """
    if isinstance(obj, dict):
        units = _units(tensors_of(obj, form))
    else:
        pairs: Iterable[tuple[str, Any]] = obj.items() if isinstance(obj, Mapping) else obj
        units = (tensors_of({name: tensor}, form) for name, tensor in pairs)
    group: dict[str, Any] = {}
    size = 0
    for unit in units:
        needed = sum(tensor.nbytes for tensor in unit.values())
        if group and size + needed > limit:
            yield group
            group, size = {}, 0
        if not group.keys().isdisjoint(unit):
            raise ValueError(f"save: the name {next(iter(unit))!r} occurs twice")
        group.update(unit)
        size += needed
    yield group


def _units(tensors: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the tensors of each storage, in the order of their first tensors."""
    found: dict[Any, dict[str, Any]] = {}
    for name, tensor in tensors.items():
        found.setdefault(tensor.untyped_storage(), {})[name] = tensor
    yield from found.values()
