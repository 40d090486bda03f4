"""Profiling of operators by their time on the host. `metatensor.analysis` reports FLOPs and memory by module."""

from __future__ import annotations

import enum
import gzip
import os
import socket
import time
from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Any

from metatensor.profiler._events import EventList, EventTracer

__all__ = ["DeviceType", "ExecutionTraceObserver", "ProfilerAction", "ProfilerActivity", "kineto_available", "profile",
           "record_function", "schedule", "supported_activities", "tensorboard_trace_handler"]  # fmt: skip


class ProfilerActivity(enum.Enum):
    """The kind of device to profile."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """What the profiler does during a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class DeviceType(enum.Enum):
    """The type of device on which an event ran."""

    CPU = 0
    CUDA = 1


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """Return a function that maps a step number to a `ProfilerAction`.

    After `skip_first` steps, cycles of waiting, warming up and recording follow.

    Parameters
    ----------
    wait, warmup, active : int
        Number of steps of each phase of a cycle.
    repeat : int
        Number of cycles. 0 means no limit. Default: 0.
    skip_first : int
        Number of steps before the first cycle. Default: 0.
    skip_first_wait : int
        If it is not 0, the first cycle has no waiting phase. Default: 0.

    Examples
    --------
    >>> from metatensor.profiler import schedule
    >>> action = schedule(wait=1, warmup=1, active=2)
    >>> [action(step).name for step in range(4)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE']
    """

    def action(step: int) -> ProfilerAction:
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        first = 0 if skip_first_wait == 0 else wait
        length = wait + warmup + active
        step += first
        if repeat > 0 and step // length >= repeat:
            return ProfilerAction.NONE
        place = step % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if place == length - 1 else ProfilerAction.RECORD

    return action


class profile:
    """Context manager that records the operators of this thread and their times.

    Parameters
    ----------
    activities : any
        Stored and not used. Operators of all devices are recorded, with their time on the host.
    schedule : callable, optional
        Function from a step number to a `ProfilerAction`, see `schedule`. Default: record everything.
    on_trace_ready : callable, optional
        Called with the profiler at the end of each recorded cycle, or at the end of the recording.
    record_shapes : bool
        Whether events have ``input_shapes``. Default: False.
    profile_memory : bool
        Whether events have ``cpu_memory_usage``, the change of the number of allocated bytes. Default: False.
    with_stack, with_flops, with_modules : bool
        Must be False.

    Raises
    ------
    NotImplementedError
        If `with_stack`, `with_flops` or `with_modules` is true. `metatensor.analysis` reports FLOPs by module.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.profiler import profile
    >>> with profile() as profiler:
    ...     _ = mt.empty(3, device="meta") + 1
    >>> [event.name for event in profiler.events()]
    ['aten::empty', 'aten::add']
    """

    def __init__(
        self, *, activities: Any = None, schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None, record_shapes: bool = False, profile_memory: bool = False,
        with_stack: bool = False, with_flops: bool = False, with_modules: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        for name, wanted in (("with_stack", with_stack), ("with_flops", with_flops), ("with_modules", with_modules)):
            if wanted:
                raise NotImplementedError(
                    f"torch.profiler.profile: {name} is not supported; metatensor.analysis reports FLOPs and memory by module"
                )
        self.activities, self.schedule, self.on_trace_ready = activities, schedule, on_trace_ready
        self.record_shapes, self.profile_memory = record_shapes, profile_memory
        self.step_num = 0
        self.current_action = self._action()
        self._tracer: EventTracer | None = None
        self._events: EventList | None = None

    def _action(self) -> ProfilerAction:
        return ProfilerAction.RECORD if self.schedule is None else self.schedule(self.step_num)

    def start(self) -> None:
        """Start recording if the schedule says so for the current step."""
        self.current_action = self._action()
        self._record(self.current_action)

    def stop(self) -> None:
        """Stop recording. Call `on_trace_ready` if a recording was running."""
        if self._tracer is not None:
            self._finish()
            self._ready()

    def step(self) -> None:
        """Start the next step of the schedule."""
        before = self.current_action
        self.step_num += 1
        self.current_action = self._action()
        if before is ProfilerAction.RECORD_AND_SAVE and self._tracer is not None:
            self._finish()
            self._ready()
        self._record(self.current_action)

    def _record(self, action: ProfilerAction) -> None:
        recording = action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if recording and self._tracer is None:
            self._tracer = EventTracer(self.record_shapes, self.profile_memory)
            self._tracer.__enter__()
        elif not recording and self._tracer is not None:
            self._finish()

    def _finish(self) -> None:
        assert self._tracer is not None
        self._tracer.__exit__(None, None, None)
        self._events, self._tracer = self._tracer.events, None

    def _ready(self) -> None:
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def events(self) -> EventList:
        """Return the events of the last recording. Raise RuntimeError if there is none."""
        if self._events is None:
            raise RuntimeError("torch.profiler.profile: nothing has been recorded yet")
        return self._events

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """Return averages of the events of the last recording, grouped by operator."""
        return self.events().key_averages(group_by_input_shape, group_by_stack_n)

    def export_chrome_trace(self, path: str) -> None:
        """Write the last recording as a trace file for chrome://tracing and Perfetto."""
        self.events().export_chrome_trace(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Raise NotImplementedError: call stacks are not recorded."""
        raise NotImplementedError("torch.profiler.profile.export_stacks: metatensor records no call stacks")


class record_function(ContextDecorator):
    """Context manager and decorator that records the enclosed code as one event.

    Parameters
    ----------
    name : str
        Name of the event.
    args : str, optional
        Stored and not used.
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        self._open: list[tuple[EventTracer, Any]] = []

    def __enter__(self) -> record_function:
        self._open = [(tracer, tracer.begin(self.name)) for tracer in EventTracer.active]
        return self

    def __exit__(self, *_: Any) -> None:
        for tracer, event in self._open:
            tracer.end(event)
        self._open = []


class ExecutionTraceObserver:
    """An observer of execution traces. The constructor raises NotImplementedError."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError("torch.profiler.ExecutionTraceObserver: metatensor records no execution traces")


def supported_activities() -> set[ProfilerActivity]:
    """Return the kinds of devices that can be profiled: only the CPU, because times are measured on the host."""
    return {ProfilerActivity.CPU}


def kineto_available() -> bool:
    """Return False, because PyTorch's tracing library is not available."""
    return False


def tensorboard_trace_handler(dir_name: str, worker_name: str | None = None, use_gzip: bool = False) -> Callable[[Any], None]:
    """Return a function for `on_trace_ready` that writes each recording to a file in a folder.

    TensorBoard's profiler plugin finds the files there.
    """

    def handler(profiler: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        path = os.path.join(dir_name, f"{worker}.{time.time_ns()}.pt.trace.json")
        profiler.export_chrome_trace(path)
        if use_gzip:
            with open(path, "rb") as plain, gzip.open(path + ".gz", "wb") as packed:
                packed.write(plain.read())
            os.remove(path)

    return handler
