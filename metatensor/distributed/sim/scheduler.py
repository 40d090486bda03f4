"""Ranks as threads that take turns: one runs at a time, and gives way to the next one only where it waits for others.

The order in which ranks run is always the same, and they need no locks. If no rank can run, they wait for each other in
vain, which is found at once.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from metatensor._core.modes import _disable_modes, _restore_modes
from metatensor._core.random import default_generator
from metatensor._core.source_locations import add_note, location_of, running_line
from metatensor.distributed._errors import DistBackendError
from metatensor.distributed._world import Simulation, World, use_world

__all__ = ["Deadlock", "Rank", "RankFailed", "Scheduler"]

POLLS = 10_000
"""A rank that asks this many times whether an operation has completed, while no rank makes progress, waits in vain."""


class RankFailed(DistBackendError):
    """Raised on all ranks after another one has failed."""


class Deadlock(DistBackendError):
    """Raised on all ranks if they wait for each other in vain."""


class _Abandoned(BaseException):
    """Ends the thread of a rank whose simulation is over."""


class Rank:
    """One rank: its thread, and what it waits for."""

    def __init__(self, index: int, world: World) -> None:
        self.index, self.world = index, world
        self.thread: threading.Thread | None = None
        self.turn = threading.Lock()
        self.turn.acquire()
        self.waiting: Any = None
        """What the rank waits for: an object that `str` describes. None if it can run."""
        self.done = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.random_state = (0, 0)
        self.queued = False
        """True while the rank is among those that can run."""
        self.polls = 0
        self.polled_at = 0


class Scheduler:
    """Runs a function on several ranks.

    Parameters
    ----------
    ranks : list of Rank
        The ranks to run.
    explain : callable
        ``explain(waiting)`` returns the text of the error if the ranks in a list wait for each other.
    timeout : float, optional
        Seconds of wall-clock time after which the simulation fails.
    """

    def __init__(self, ranks: list[Rank], explain: Callable[[list[Rank]], str], timeout: float | None = None) -> None:
        self.ranks, self._explain, self._timeout = ranks, explain, timeout
        self._ready: deque[Rank] = deque()
        for rank in ranks:
            self._enqueue(rank)
        self._steps = 0
        """How many operations have begun or completed."""
        self._simulation = Simulation()
        self._main = threading.Lock()
        self._main.acquire()
        self.current: Rank | None = None
        self.failed: tuple[Rank, BaseException] | None = None
        self._job: tuple[Rank, Callable[[], Any]] | None = None
        self._abandoned = False

    # Called by the thread that starts the simulation ----------------------------------------------------------

    def run(self, function: Callable[[Rank], Any]) -> None:
        """Run ``function(rank)`` on all ranks. Raise the error of the first rank that fails."""
        deadline = None if self._timeout is None else time.monotonic() + self._timeout
        before = _random_state()
        self._seed_ranks(before)
        try:
            with self._simulation:
                self._start_next(function)
                while True:
                    if not self._main.acquire(timeout=-1 if deadline is None else max(0.0, deadline - time.monotonic())):
                        raise TimeoutError(self._stuck())
                    if self._job is None:
                        break
                    self._do_job()
        finally:
            self._abandon()
            _set_random_state(before)
        if self.failed is not None:
            rank, error = self.failed
            if not isinstance(error, Deadlock):
                add_note(error, f"raised by rank {rank.index} of {len(self.ranks)}")
            raise error

    def _abandon(self) -> None:
        """End the threads that still wait."""
        self._abandoned = True
        self._ready.clear()
        for rank in self.ranks:
            if rank.thread is not None and not rank.done and (rank.waiting is not None or rank.queued):
                with suppress(RuntimeError):  # another rank may have given it the turn already
                    rank.turn.release()

    def _seed_ranks(self, state: tuple[int, int]) -> None:
        """Give each rank random numbers of its own, which depend on the state of the caller."""
        for rank in self.ranks:
            rank.random_state = ((state[0] + (rank.index + 1) * 0x9E3779B97F4A7C15 + state[1]) % 2**64, 0)

    def _do_job(self) -> None:
        assert self._job is not None
        rank, job = self._job
        self._job = None
        level = _disable_modes()
        try:
            job()
        except BaseException as error:
            self.fail(rank, error)
        finally:
            _restore_modes(level)
        rank.turn.release()

    def _stuck(self) -> str:
        assert self.current is not None
        frame = sys._current_frames().get(self.current.thread.ident or 0) if self.current.thread is not None else None
        found = running_line(frame)
        place = "" if found is None else f" at {found[0]}:{found[1]}"
        waiting = [f"rank {one.index} waits for {one.waiting}" for one in self.ranks if one.waiting is not None][:4]
        return (
            f"sim.run: no result after {self._timeout} s. Rank {self.current.index} runs{place} without giving way to others"
            + "".join(f"\n  {text}" for text in waiting)
        )

    # Called by ranks ------------------------------------------------------------------------------------------

    def wait(self, rank: Rank, what: Any, done: Callable[[], bool]) -> None:
        """Let other ranks run until ``done()``; ``what`` describes what the rank waits for."""
        while not done():
            self.check(what)
            rank.waiting = what
            self._give_way(rank)
            rank.waiting = None
            if not done():
                self.check(what)

    def poll(self, rank: Rank, what: Any) -> None:
        """Let the others run, because the rank has asked in vain whether an operation has completed."""
        rank.polls = rank.polls + 1 if rank.polled_at == self._steps else 0
        rank.polled_at = self._steps
        self.check(what)
        if rank.polls > POLLS:
            rank.waiting = what
            text = self._explain([one for one in self.ranks if one.waiting is not None])
            rank.waiting = None
            self.fail(rank, Deadlock(text))
            self.check(what)
        self._enqueue(rank)
        self._give_way(rank)

    def wake(self, rank: Rank) -> None:
        """Let a waiting rank run after those that can run already."""
        self.progress()
        if rank.waiting is not None:
            self._enqueue(rank)

    def progress(self) -> None:
        """Note that an operation has begun or completed, so that ranks that ask for it do not ask in vain."""
        self._steps += 1

    def _enqueue(self, rank: Rank) -> None:
        if not rank.queued:
            rank.queued = True
            self._ready.append(rank)

    def _next(self) -> Rank:
        rank = self._ready.popleft()
        rank.queued = False
        return rank

    def check(self, what: Any) -> None:
        """Raise `RankFailed` if another rank has failed."""
        if self._abandoned:
            raise _Abandoned
        if self.failed is not None:
            rank, error = self.failed
            if isinstance(error, Deadlock):
                raise Deadlock(str(error))
            place = location_of(error.__traceback__)
            raise RankFailed(
                f"rank {rank.index} failed{f' at {place}' if place else ''} with {type(error).__name__}: {error}\n"
                f"  meanwhile rank {self.current.index if self.current else '?'} was in {what}"
            )

    def fail(self, rank: Rank, error: BaseException) -> None:
        """Make all communication fail from now on, because of an error of a rank."""
        if self.failed is None:
            self.failed = rank, error
        for one in self.ranks:
            if one.waiting is not None:
                self._enqueue(one)

    def _deadlock(self, rank: Rank) -> None:
        self.fail(rank, Deadlock(self._explain([one for one in self.ranks if one.waiting is not None])))

    def apart(self, rank: Rank, job: Callable[[], Any]) -> None:
        """Run ``job`` in the thread that started the simulation, so that no mode or tracker of the rank sees it."""
        self._job = rank, job
        self._main.release()
        rank.turn.acquire()

    def _give_way(self, rank: Rank) -> None:
        """Let the next rank run, until it is the turn of this one again."""
        if not self._ready:
            self._deadlock(rank)
        if self._ready[0] is rank:
            self._next()
            return
        rank.random_state = _random_state()
        self._switch()
        rank.turn.acquire()
        if self._abandoned:
            raise _Abandoned
        self._runs(rank)

    def _runs(self, rank: Rank) -> None:
        self.current = rank
        self._simulation.world = rank.world
        _set_random_state(rank.random_state)

    def _switch(self) -> None:
        """Give the turn to the next rank that can run."""
        following = self._next()
        if following.thread is None:
            self._begin(following)
        else:
            following.turn.release()

    def _start_next(self, function: Callable[[Rank], Any]) -> None:
        self._function = function
        self._switch()

    def _begin(self, rank: Rank) -> None:
        rank.thread = threading.Thread(target=self._live, args=(rank,), name=f"rank {rank.index}", daemon=True)
        rank.thread.start()

    def _live(self, rank: Rank) -> None:
        """The thread of a rank."""
        use_world(rank.world)
        self._runs(rank)
        try:
            if self.failed is None:
                rank.result = self._function(rank)
        except _Abandoned:
            return
        except BaseException as error:
            rank.error = error
            self.fail(rank, error)
        rank.done = True
        self.progress()
        if self._abandoned:
            return
        if not self._ready and any(one.waiting is not None for one in self.ranks):
            self._deadlock(rank)
        if self._ready:
            self._switch()
        else:
            self._main.release()


def _random_state() -> tuple[int, int]:
    """Return key and position of the default random generator."""
    reduced: Any = default_generator.__reduce__()
    key, taken = reduced[1][1:]
    return key, taken


def _set_random_state(state: tuple[int, int]) -> None:
    default_generator.set_state(state[0].to_bytes(8, "little") + state[1].to_bytes(8, "little"))
