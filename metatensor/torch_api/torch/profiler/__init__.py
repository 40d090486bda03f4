"""Profiling: contexts that measure nothing. `metatensor.analysis` has what there is to measure."""

from __future__ import annotations

import enum
from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Any

__all__ = ["DeviceType", "ExecutionTraceObserver", "ProfilerAction", "ProfilerActivity", "kineto_available", "profile",
           "record_function", "schedule", "supported_activities", "tensorboard_trace_handler"]  # fmt: skip


class ProfilerActivity(enum.Enum):
    """What is profiled."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """What is done at a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class DeviceType(enum.Enum):
    """Where something ran."""

    CPU = 0
    CUDA = 1


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """A function from the number of a step to what is done at it: cycles of waiting, warming up and recording."""

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
    """A context that records nothing. Its steps are counted; asking it for results raises."""

    def __init__(
        self, *, activities: Any = None, schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None, record_shapes: bool = False, profile_memory: bool = False,
        with_stack: bool = False, with_flops: bool = False, with_modules: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        self.schedule = schedule
        self.step_num = 0

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """End."""

    def step(self) -> None:
        """Go on to the next step."""
        self.step_num += 1

    def __enter__(self) -> profile:
        return self

    def __exit__(self, *_: Any) -> None:
        return None

    def key_averages(self, *args: Any, **options: Any) -> Any:
        """NotImplementedError: nothing was recorded."""
        raise _nothing("key_averages")

    def events(self) -> Any:
        """NotImplementedError: nothing was recorded."""
        raise _nothing("events")

    def export_chrome_trace(self, path: str) -> None:
        """NotImplementedError: nothing was recorded."""
        raise _nothing("export_chrome_trace")

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """NotImplementedError: nothing was recorded."""
        raise _nothing("export_stacks")


def _nothing(name: str) -> NotImplementedError:
    return NotImplementedError(f"torch.profiler.profile.{name}: metatensor records no times; metatensor.analysis counts work and memory")


class record_function(ContextDecorator):
    """A name for what runs within: a context manager, or a decorator, without effect."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args

    def __enter__(self) -> record_function:
        return self

    def __exit__(self, *_: Any) -> None:
        return None


class ExecutionTraceObserver:
    """An observer of what runs. NotImplementedError."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError("torch.profiler.ExecutionTraceObserver: metatensor records no execution traces")


def supported_activities() -> set[ProfilerActivity]:
    """None."""
    return set()


def kineto_available() -> bool:
    """False."""
    return False


def tensorboard_trace_handler(dir_name: str, worker_name: str | None = None, use_gzip: bool = False) -> Callable[[Any], None]:
    """A handler of traces, of which there are none."""
    return lambda _: None
