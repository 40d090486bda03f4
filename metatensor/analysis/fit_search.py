"""The search of `fit`: cached trials, and the search for the largest size that fits."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from metatensor.analysis.fit_report import FitSetting, FitTrial

__all__ = ["MOST", "Search", "divisors"]

MOST = 1 << 20
"""Greatest size that is tried."""


class Search:
    """Trials of settings. No setting runs twice. Memory is assumed to grow with the batch.

    Parameters
    ----------
    measure : callable
        Returns the peak memory of a setting in bytes, or raises the model's exception.
    limit : int
        The available memory, in bytes.
    progress : callable, optional
        Called with each setting before it runs.
    """

    def __init__(self, measure: Callable[[FitSetting], int], limit: int, progress: Callable[[FitSetting], None] | None = None) -> None:
        self.measure, self.limit, self.progress = measure, limit, progress
        self._known: dict[FitSetting, tuple[int | None, str | None]] = {}

    def trial(self, setting: FitSetting) -> FitTrial:
        """Return the trial of a setting, which is run unless it is cached."""
        key = _key(setting)
        if key not in self._known:
            if self.progress is not None:
                self.progress(setting)
            try:
                self._known[key] = self.measure(key), None
            except Exception as raised:
                self._known[key] = None, f"{type(raised).__name__}: {raised}".partition("\n")[0]
        size, error = self._known[key]
        return FitTrial(setting, size, fits=size is not None and size <= self.limit, error=error)

    def fits(self, setting: FitSetting) -> bool:
        """Return whether a setting fits. Nothing runs if it follows from a greater batch that fits, or a smaller one that does not."""
        key = _key(setting)
        for other, (size, _) in self._known.items():
            if size is not None and dataclasses.replace(other, batch=key.batch) == key:
                if other.batch >= key.batch and size <= self.limit:
                    return True
                if other.batch <= key.batch and size > self.limit:
                    return False
        return self.trial(setting).fits

    def greatest(self, make: Callable[[int], FitSetting], start: int) -> tuple[FitTrial | None, FitTrial | None]:
        """Return the trials of the greatest size that fits and of the next one, which does not.

        A line through two estimates proposes the next size, and bisection bounds the number of steps. Either trial is None if
        there is none: no size fits, or all sizes up to `MOST` do.

        Parameters
        ----------
        make : callable
            Returns the setting with a size.
        start : int
            The first size to try.
        """
        low, high = 0, MOST + 1  # low fits, or is too small to run; high does not
        trials: dict[int, FitTrial] = {}
        value, step = start, 0
        while high - low > 1:
            trial = trials[value] = self.trial(make(value))
            if trial.fits:
                low = value
            elif trial.bytes is None and value == 1 and high > 2:
                low = 1  # such as batch normalization, which needs two samples
            else:
                high = value
            step += 1
            value = self._next(trials, low, high, step)
        found = trials.get(low)
        return (found if found is not None and found.fits else None), trials.get(high)

    def _next(self, trials: dict[int, FitTrial], low: int, high: int, step: int) -> int:
        """Return the size to try next, between ``low`` and ``high``."""
        open_end = high > MOST
        if low == 0:
            return 1
        if step % 3 == 2:  # the line may be far off
            return min(2 * low, high - 1) if open_end else (low + high) // 2
        around = sorted((value, trial.bytes) for value, trial in trials.items() if trial.bytes is not None)
        below = [point for point in around if point[0] <= low][-2:]
        above = [point for point in around if point[0] >= high][:1]
        points = (below + above)[-2:]
        if len(points) == 2 and points[1][1] > points[0][1]:
            (x, size), (y, greater) = points
            guess = x + (self.limit - size) * (y - x) // (greater - size)
            return min(max(guess, low + 1), high - 1)
        return min(2 * low, high - 1) if open_end else (low + high) // 2

    def remarks(self) -> list[str]:
        """Return remarks on batches that do not run, and on memory that does not grow with the batch."""
        groups: dict[FitSetting, list[tuple[int, int]]] = {}
        found: list[str] = []
        for setting, (size, error) in self._known.items():
            if size is not None:
                groups.setdefault(dataclasses.replace(setting, batch=1), []).append((setting.batch, size))
            elif error is not None and not found:
                recompute = "" if setting.recompute == "none" else f", recompute {setting.recompute}"
                precision = "" if setting.precision is None else f", precision {setting.precision}"
                found.append(f"batch {setting.batch:,}{recompute}{precision} does not run: {error}")
        for points in groups.values():
            sizes = [size for _, size in sorted(points)]
            if sizes != sorted(sizes):
                found.append("memory does not grow steadily with the batch, so a greater batch may fit too")
                break
        return found


def _key(setting: FitSetting) -> FitSetting:
    """Return the setting that represents all with the same memory: micro-batches after the second have the same peak."""
    return dataclasses.replace(setting, grad_accumulation=min(setting.grad_accumulation, 2))


def divisors(number: int) -> Sequence[int]:
    """Return the divisors of a positive number in ascending order."""
    small = [n for n in range(1, int(number**0.5) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})
