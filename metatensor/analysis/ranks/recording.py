"""What one rank does in a step: its calls of operators, and where among them communication begins and is waited for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from metatensor._core.engine import visited_node
from metatensor.analysis.calls import CallRecorder
from metatensor.distributed import CommunicationLog
from metatensor.distributed.communication_log import Communication
from metatensor.nn._following import Follower, ModulePaths
from metatensor.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

__all__ = ["Mark", "RankRecorder", "optimizer_steps_marked"]


class Mark(NamedTuple):
    """A point in the program of a rank."""

    calls: int
    """How many operators were called before."""
    begins: bool
    """Whether an operation begins here, or is waited for."""
    order: int
    """`Communication.order` of the operation."""


class _MarkingLog(CommunicationLog):
    """A log that tells the recorder where operations begin and end."""

    def __init__(self, recorder: RankRecorder) -> None:
        super().__init__()
        self._recorder = recorder

    def add(self, entry: Communication) -> None:
        super().add(entry)
        self._recorder.marks.append(Mark(len(self._recorder.calls), True, entry.order))

    def waited(self, order: int) -> None:
        self._recorder.marks.append(Mark(len(self._recorder.calls), False, order))


class RankRecorder(CallRecorder):
    """Context manager that records the calls and the communication of the rank that runs in this thread.

    Parameters
    ----------
    modules : iterable of Module
        Modules that the step refers to, whose paths calls get.
    """

    def __init__(self, modules: Any = ()) -> None:
        super().__init__()
        self.marks: list[Mark] = []
        self.log = _MarkingLog(self)
        self.stepping = False
        self.module = 0
        self._known_paths = ModulePaths(modules)
        self._follower = Follower(self, self._known_paths)

    def __enter__(self) -> RankRecorder:
        _running.recorder = self
        self._follower.__enter__()
        self.log.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.log.__exit__(*error)
        self._follower.__exit__(*error)
        _running.recorder = None

    def dispatch(self, op: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        self.phase = "optimizer" if self.stepping else "backward" if visited_node() else "forward"
        return super().dispatch(op, args, kwargs)

    def _running_module(self) -> str:
        return self._known_paths.paths[self.module]


_running = threading.local()


@contextmanager
def optimizer_steps_marked() -> Iterator[None]:
    """Context manager in which recorders know that an optimizer of their thread makes a step."""

    def set_to(value: bool) -> Any:
        def hook(*_: Any) -> None:
            recorder = getattr(_running, "recorder", None)
            if recorder is not None:
                recorder.stepping = value

        return hook

    before = register_optimizer_step_pre_hook(set_to(True))
    after = register_optimizer_step_post_hook(set_to(False))
    try:
        yield
    finally:
        before.remove()
        after.remove()
