"""`async_save` after planning: copy what this rank saves to host memory, write it in a thread, and agree through files.

Each rank's thread writes its data and then a note with what it has written, or with its error. The thread of the
coordinator waits for all notes, completes the checkpoint or abandons it, and answers each rank with a note.
"""

from __future__ import annotations

import builtins
import io
import json
import os
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import metatensor as mt
from metatensor.checkpoint._zip_writer import write_all
from metatensor.checkpoint.atomic import lock, replacing
from metatensor.distributed.checkpoint._folder import PLAIN, note_name
from metatensor.distributed.checkpoint._ranks import Ranks
from metatensor.distributed.checkpoint.api import CheckpointException
from metatensor.distributed.checkpoint.filesystem import FileSystemWriter, _StorageInfo
from metatensor.distributed.checkpoint.metadata import Metadata, MetadataIndex
from metatensor.distributed.checkpoint.planner import SavePlan, SavePlanner, WriteItem
from metatensor.distributed.checkpoint.storage import WriteResult

__all__ = ["PATIENCE", "save_later"]

PATIENCE = 1800.0
"""Seconds that ranks wait for each other."""
INTERVAL = 0.02
_WHAT = "torch.distributed.checkpoint.async_save"


class _Copies(SavePlanner):
    """The data of a plan's items, copied to host memory."""

    def __init__(self, plan: SavePlan, planner: SavePlanner) -> None:
        self._data = {item.index: self._copied(planner.resolve_data(item)) for item in plan.items}

    @staticmethod
    def _copied(data: Any) -> Any:
        if isinstance(data, mt.Tensor):
            return data.detach().to("cpu", copy=True)
        return io.BytesIO(data.read())

    def resolve_data(self, write_item: WriteItem) -> Any:
        return self._data.pop(write_item.index)

    def set_up_planner(self, *args: Any, **options: Any) -> None:
        raise NotImplementedError

    create_local_plan = create_global_plan = finish_plan = set_up_planner  # type: ignore[assignment]


def save_later(plan: SavePlan, metadata: Metadata | None, writer: FileSystemWriter, ranks: Ranks, planner: SavePlanner) -> Future[Any]:
    """Copy the data of a plan and start to write it. Return the future of the metadata."""
    copies: list[_Copies] = []
    ranks.gather("async_save", lambda: copies.append(_Copies(plan, planner)))
    later = _Later(plan, metadata, writer, ranks, copies[0])
    done: Future[Any] = Future()
    done.set_running_or_notify_cancel()

    def work() -> None:
        try:
            done.set_result(later.run())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=work, name="async_save", daemon=False).start()
    return done


def _noted(value: Any) -> Any:
    """Return results of writing, an exception or None as JSON types."""
    if isinstance(value, CheckpointException):
        return {"failures": {str(rank): _noted(error) for rank, error in value.failures.items()}}
    if isinstance(value, BaseException):
        return {"error": type(value).__name__, "message": str(value)}
    if value is None:
        return None
    return [
        [one.index.fqn, None if one.index.offset is None else list(one.index.offset), one.size_in_bytes, *_astuple(one.storage_data)]
        for one in value
    ]


def _astuple(info: _StorageInfo) -> tuple[str, int, int]:
    return info.relative_path, info.offset, info.length


def _read(content: bytes) -> Any:
    """Return what a note says. A damaged one is an exception."""
    try:
        return _value(json.loads(content))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        return RuntimeError(f"a damaged note in the folder of the checkpoint: {error}")


def _value(found: Any) -> Any:
    if found is None:
        return None
    if isinstance(found, list):
        return [WriteResult(MetadataIndex(name, offset), size, _StorageInfo(*info)) for name, offset, size, *info in found]
    if "failures" in found:
        return CheckpointException(_WHAT, {int(rank): _value(one) for rank, one in found["failures"].items()})
    kind = getattr(builtins, found["error"], None)
    if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, UnicodeError):
        return kind(found["message"])
    return RuntimeError(f"{found['error']}: {found['message']}")


class _Later:
    def __init__(self, plan: SavePlan, metadata: Metadata | None, writer: FileSystemWriter, ranks: Ranks, copies: _Copies) -> None:
        self.plan, self.metadata, self.writer, self.copies = plan, metadata, writer, copies
        self.rank, self.size, self.coordinates = ranks.rank, ranks.size, ranks.coordinates
        self.tag: str = plan.storage_data.tag if plan.storage_data is not None else PLAIN

    def run(self) -> Metadata | None:
        """Write this rank's data, and wait until the checkpoint is complete."""
        try:
            own: Any = self.writer.write_data(self.plan, self.copies).wait()
        except Exception as error:
            own = error
        if self.coordinates:
            return self._lead(own)
        self._follow(own)
        return None

    def _note(self, rank: int, ending: str) -> str:
        return os.path.join(self.writer.path, note_name(self.tag, f"{rank}.{ending}"))

    @staticmethod
    def _tell(path: str, value: Any) -> None:
        with replacing(path) as file:
            write_all(file, json.dumps(_noted(value)).encode())

    def _hear(self, path: str, deadline: float, alive: Any) -> Any:
        while True:
            with suppress(FileNotFoundError):
                with open(path, "rb") as file:
                    content = file.read()
                os.unlink(path)
                return _read(content)
            if time.monotonic() > deadline:
                return TimeoutError(f"nothing was heard for {PATIENCE:.0f} s ({path})")
            if not alive() and not os.path.exists(path):
                return RuntimeError(f"the coordinator has died ({path})")
            time.sleep(INTERVAL)

    def _lead(self, own: Any) -> Metadata:
        deadline = time.monotonic() + PATIENCE
        told = [own if rank == self.rank else self._hear(self._note(rank, "done"), deadline, lambda: True) for rank in range(self.size)]
        failures = {rank: one for rank, one in enumerate(told) if isinstance(one, BaseException)}
        answer: BaseException | None = CheckpointException(_WHAT, failures) if failures else None
        if answer is None:
            assert self.metadata is not None
            try:
                # The answers are in place before the journal goes, so that no rank takes the coordinator for dead.
                self.writer.finish(self.metadata, told, before_end=lambda: self._answer(None))
            except Exception as error:
                answer = CheckpointException(_WHAT, {self.rank: error})
        if answer is not None:
            self._answer(answer)
            self.writer.abandon()
            raise answer
        assert self.metadata is not None
        return self.metadata

    def _answer(self, value: Any) -> None:
        for rank in range(self.size):
            if rank != self.rank:
                self._tell(self._note(rank, "told"), value)

    def _follow(self, own: Any) -> None:
        self._tell(self._note(self.rank, "done"), own)
        answer = self._hear(self._note(self.rank, "told"), time.monotonic() + PATIENCE, self._coordinator_lives)
        if answer is not None:
            self.writer.abandon(isinstance(answer, CheckpointException))
            raise answer

    def _coordinator_lives(self) -> bool:
        """Return False if the coordinator's journal is gone, or if nobody holds a lock on it."""
        try:
            handle = os.open(os.path.join(self.writer.path, note_name(self.tag, "saving")), os.O_RDWR)
        except FileNotFoundError:
            return self.tag != PLAIN and not self._had_journal
        except OSError:
            return True
        try:
            self._had_journal = True
            return not lock(handle, wait=False)
        finally:
            os.close(handle)

    _had_journal = False
