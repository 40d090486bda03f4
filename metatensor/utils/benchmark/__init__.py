"""Measurement of execution times: `Timer` runs a statement many times and returns a `Measurement`."""

from __future__ import annotations

import enum
import statistics
import textwrap
import timeit
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

__all__ = ["Compare", "Language", "Measurement", "TaskSpec", "Timer", "select_unit"]

timer = perf_counter


class Language(enum.Enum):
    """The language of a statement. Only Python can be measured."""

    PYTHON = 0
    CPP = 1


@dataclass(frozen=True)
class TaskSpec:
    """The measured statement, and labels for tables of results."""

    stmt: str
    setup: str = "pass"
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, or the statement if there is no label."""
        return self.label or self.stmt


def select_unit(t: float) -> tuple[str, float]:
    """Return the unit in which to display `t` seconds, and its length in seconds."""
    for name, length in (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3)):
        if t < 1000 * length:
            return name, length
    return "s", 1.0


@dataclass
class Measurement:
    """Execution times of a statement.

    Parameters
    ----------
    number_per_run : int
        Number of executions in one run.
    raw_times : list of float
        Time of each run in seconds.
    task_spec : TaskSpec
    metadata : dict, optional
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = field(default=None)

    @property
    def times(self) -> list[float]:
        """The time of one execution in seconds, for each run."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def median(self) -> float:
        """The median of `times`."""
        return statistics.median(self.times)

    @property
    def mean(self) -> float:
        """The mean of `times`."""
        return statistics.fmean(self.times)

    @property
    def iqr(self) -> float:
        """The interquartile range of `times`, or 0 if there are fewer than two."""
        if len(self.times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return high - low

    def __repr__(self) -> str:
        unit, length = select_unit(self.median)
        runs = f"{len(self.times)} measurement{'s' if len(self.times) != 1 else ''}, {self.number_per_run} runs per measurement"
        return f"<Measurement {self.task_spec.title}: {self.median / length:.2f} {unit}; {runs}>"


class Timer:
    """Timer for a Python statement.

    Parameters
    ----------
    stmt : str
        The statement to measure.
    setup : str
        A statement that runs once before each measurement.
    timer : callable
        Function that returns the current time in seconds. Default: `time.perf_counter`.
    globals : dict, optional
        Names that are visible to both statements.
    label, sub_label, description, env : str, optional
        Stored in `Measurement.task_spec`.
    num_threads : int
        Must be 1. The number of threads that kernels use is not changed.

    Raises
    ------
    NotImplementedError
        If `language` is not Python, `global_setup` is given, or `num_threads` is not 1.

    Examples
    --------
    >>> from metatensor.utils.benchmark import Timer
    >>> Timer("x + 1", globals={"x": 1}).timeit(100).number_per_run
    100
    """

    def __init__(
        self, stmt: str = "pass", setup: str = "pass", global_setup: str = "", timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None, label: str | None = None, sub_label: str | None = None, description: str | None = None,
        env: str | None = None, num_threads: int = 1, language: Language | str = Language.PYTHON,
    ) -> None:  # fmt: skip
        if language not in (Language.PYTHON, "py", "python") or global_setup:
            raise NotImplementedError("torch.utils.benchmark.Timer: only statements in Python can be measured")
        if num_threads != 1:
            raise NotImplementedError("torch.utils.benchmark.Timer: num_threads must be 1, because the number "
                                      "of threads is not configurable")
        stmt, setup = textwrap.dedent(stmt).strip(), textwrap.dedent(setup).strip()
        self._task_spec = TaskSpec(stmt, setup, "", label, sub_label, description, env, num_threads)
        self._globals = dict(globals or {})
        self._timer = timeit.Timer(stmt, setup, timer, self._globals)

    def _timed(self, number: int) -> float:
        return self._timer.timeit(number)

    def timeit(self, number: int = 1000000) -> Measurement:
        """Run the statement `number` times after a short warm-up, as one measurement."""
        self._timed(max(int(number // 100), 2))
        return Measurement(number, [self._timed(number)], self._task_spec)

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """Raise NotImplementedError. Use `blocked_autorange`."""
        raise NotImplementedError("torch.utils.benchmark.Timer.repeat: use blocked_autorange()")

    def autorange(self, callback: Any = None) -> None:
        """Raise NotImplementedError. Use `blocked_autorange`."""
        raise NotImplementedError("torch.utils.benchmark.Timer.autorange: use blocked_autorange()")

    def blocked_autorange(self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2) -> Measurement:
        """Run the statement in blocks until the blocks have taken `min_run_time` seconds.

        A block has enough executions to take at least a thousandth of that time. `callback` is called after each block
        with the number of executions and the seconds that they took.
        """
        number = 1
        while (took := self._timed(number)) < min_run_time / 1000 and number < 10**9:
            number *= 10
        times: list[float] = []
        while sum(times) < min_run_time:
            took = self._timed(number)
            times.append(took)
            if callback is not None:
                callback(number, took)
        return Measurement(number, times, self._task_spec)

    def adaptive_autorange(
        self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:  # fmt: skip
        """Run the statement in blocks until the interquartile range is at most `threshold` times the median.

        At least `min_run_time` seconds are measured, and no new block starts after `max_run_time` seconds.
        """
        found = self.blocked_autorange(callback, min_run_time)
        while found.iqr > threshold * found.median and sum(found.raw_times) < max_run_time:
            found.raw_times.append(self._timed(found.number_per_run))
        return found

    def collect_callgrind(self, *args: Any, **kwargs: Any) -> None:
        """Raise NotImplementedError: metatensor does not run Valgrind."""
        raise NotImplementedError("torch.utils.benchmark.Timer.collect_callgrind: metatensor does not run Valgrind")


class Compare:
    """A table of medians, with a row for each `sub_label` and a column for each `description`."""

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results = list(results)

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add measurements."""
        self._results.extend(results)

    def __str__(self) -> str:
        rows = list(dict.fromkeys(r.task_spec.sub_label or r.task_spec.stmt for r in self._results))
        columns = list(dict.fromkeys(r.task_spec.description or "time" for r in self._results))
        unit, length = select_unit(min((r.median for r in self._results), default=0.0))
        cells = {
            (r.task_spec.sub_label or r.task_spec.stmt, r.task_spec.description or "time"): f"{r.median / length:.1f}"
            for r in self._results
        }
        lines = [["", *columns], *([row, *(cells.get((row, column), "") for column in columns)] for row in rows)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(columns) + 1)]
        text = [" | ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
        return "\n".join([*text, f"times are in {unit}"])

    def print(self) -> None:
        """Print the table."""
        print(self)

