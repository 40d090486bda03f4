"""Messages between ranks about failures, on an MPI communicator of their own.

A rank that fails tells the others why. One that waits for too long asks them where they are. Ranks look for such messages
while they wait.
"""

from __future__ import annotations

import atexit
import os
import time
from typing import Any

from metatensor._core.source_locations import location_of
from metatensor.distributed import DistBackendError

__all__ = ["Control", "RankFailed"]

FAILED, QUESTION, ANSWER, FINISHED, SEEN = 1, 2, 3, 4, 5

PATIENCE = 5.0
"""Seconds for which a rank that fails waits until the others have noticed, before it ends all."""
ANSWERS = 1.0
"""Seconds for which a rank waits for answers from the others."""


class RankFailed(DistBackendError):
    """Raised on all ranks after another one has failed."""


class Control:
    """The exchange of messages about failures.

    Parameters
    ----------
    mpi : module
        ``mpi4py.MPI``.
    comm : Comm
        An MPI communicator of all ranks that nothing else uses.
    """

    def __init__(self, mpi: Any, comm: Any) -> None:
        self.mpi, self.comm = mpi, comm
        self.failed: tuple[int, str] | None = None
        self.finished: set[int] = set()
        self.here = "no collective"
        """What this rank does, for ranks that ask."""
        self._answers: dict[int, str] = {}
        self._sent: list[Any] = []
        self._seen: set[int] = set()
        self._failing = False
        self._pid = os.getpid()
        atexit.register(self._finish)

    def check(self, what: str) -> None:
        """Look for messages. Raise `RankFailed` if another rank has failed."""
        self.look()
        if self.failed is not None and not self._failing:
            rank, why = self.failed
            raise RankFailed(f"{why}\n  meanwhile rank {self.comm.rank} was in {what}")

    def look(self) -> None:
        """Receive the messages that have arrived, and answer questions."""
        status = self.mpi.Status()
        while self.comm.iprobe(source=self.mpi.ANY_SOURCE, tag=self.mpi.ANY_TAG, status=status):
            source, tag = status.Get_source(), status.Get_tag()
            text = self.comm.recv(source=source, tag=tag)
            if tag == FAILED and self.failed is None:
                self.failed = source, text
            elif tag == QUESTION:
                self._send(self.here, source, ANSWER)
            elif tag == ANSWER:
                self._answers[source] = text
            elif tag == FINISHED:
                self.finished.add(source)
            elif tag == SEEN:
                self._seen.add(source)

    def _send(self, text: str, rank: int, tag: int) -> None:
        self._sent.append(self.comm.isend(text, dest=rank, tag=tag))

    def _others(self) -> list[int]:
        return [rank for rank in range(self.comm.size) if rank != self.comm.rank]

    def ask(self, ranks: tuple[int, ...]) -> str:
        """Return a text that says what other ranks are doing. Those that do not answer are not waiting."""
        self._answers.clear()
        others = [rank for rank in ranks if rank != self.comm.rank]
        for rank in others:
            if rank not in self.finished:
                self._send("", rank, QUESTION)
        deadline = time.monotonic() + ANSWERS
        while time.monotonic() < deadline and not set(others) <= set(self._answers) | self.finished:
            self.look()
            time.sleep(0.005)
        lines = []
        for rank in others:
            if rank in self.finished:
                lines.append(f"  rank {rank} has finished")
            else:
                lines.append(f"  rank {rank} is in {self._answers[rank]}" if rank in self._answers else
                             f"  rank {rank} does not answer: it hangs, or computes something else")  # fmt: skip
        return "\n".join(lines)

    def fail(self, error: BaseException) -> None:
        """Tell all other ranks that this one fails."""
        if self._failing:
            return
        self._failing = True
        if self.failed is not None:
            self._send("", self.failed[0], SEEN)
            return
        place = location_of(error.__traceback__)
        text = f"rank {self.comm.rank} failed{f' at {place}' if place else ''} with {type(error).__name__}: {error}"
        for rank in self._others():
            self._send(text, rank, FAILED)

    def leave(self) -> None:
        """End all processes, once the other ranks have noticed the failure or after `PATIENCE`."""
        deadline = time.monotonic() + PATIENCE + (1.0 if self.failed is not None else 0.0)
        while time.monotonic() < deadline and not set(self._others()) <= self._seen | self.finished:
            self.look()
            time.sleep(0.005)
        self.comm.Abort(1)

    def _finish(self) -> None:
        """Tell the others that this process ends, so that they do not wait for it."""
        if self._pid == os.getpid() and not self._failing and not self.mpi.Is_finalized():
            for rank in self._others():
                self._send("", rank, FINISHED)
            self.look()
