"""Substitutes for values that a script requests from tensors without data, and the lines that requested them."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections import Counter
from typing import Any

import metatensor as mt
from metatensor._core.modes import _disable_modes, _restore_modes
from metatensor._core.source_locations import is_ours, running_line
from metatensor.analysis.assumptions import asserted

__all__ = ["POLICIES", "Tally", "Values"]

POLICIES = ("bound", "zero", "raise")
LINES = 8
"""Maximum number of lines named in a summary."""


class Tally:
    """A counter of events by line of the script."""

    def __init__(self) -> None:
        self.lines: Counter[tuple[str, int]] = Counter()

    def count(self) -> None:
        """Count one event at the running line."""
        self.lines[_line()] += 1

    @property
    def total(self) -> int:
        """The number of events."""
        return self.lines.total() if hasattr(self.lines, "total") else sum(self.lines.values())

    def __str__(self) -> str:
        shown = [
            f"{_short(file)}:{line}{f' ({times} times)' if times > 1 else ''}"
            for (file, line), times in self.lines.most_common(LINES)
        ]
        more = len(self.lines) - len(shown)
        return ", ".join(shown) + (f" and {more} more lines" if more > 0 else "")


_INSTALLED = (*map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib")), *site.getsitepackages())
_LIBRARIES = tuple({path + os.sep for path in _INSTALLED if path})


def _line() -> tuple[str, int]:
    """Return the innermost running line outside of libraries. If there is none, return the innermost line."""
    first = frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(("<", *_LIBRARIES)) and not is_ours(frame):
            return file, frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return running_line(first) or ("?", 0)


def _short(file: str) -> str:
    return file.removeprefix(os.getcwd() + os.sep)


class Values:
    """Substitutes for values that are not available.

    With the policy "bound" every number is 1, every condition is False, and a size that depends on values is the
    largest possible one. With "zero", numbers and sizes are those of tensors of zeros. With "raise" a request raises
    `DataDependentError`. In an ``assert`` statement, a condition has the value with which the assertion succeeds.
    """

    def __init__(self, policy: str) -> None:
        self.policy = policy
        self.requests = Tally()

    @property
    def replaces(self) -> bool:
        """True if requests are answered with substitutes."""
        return self.policy != "raise"

    def number(self, dtype: Any) -> Any:
        """Return the substitute for an element of a dtype."""
        if dtype == mt.bool:
            return False
        one = int(self.policy == "bound")
        return complex(one) if dtype.is_complex else float(one) if dtype.is_floating_point else one

    def item(self, tensor: Any) -> Any:
        """Return the result of ``tensor.item()``, and count the request."""
        if tensor.numel() != 1:
            return tensor.item()  # raises
        self.requests.count()
        return asserted(sys._getframe(1)) if tensor.dtype == mt.bool else self.number(tensor.dtype)

    def nested(self, tensor: Any) -> Any:
        """Return the result of ``tensor.tolist()``, and count the request."""
        self.requests.count()
        return _nested(tuple(tensor.shape), self.number(tensor.dtype))

    def filled(self, tensor: Any, index: bool = False) -> Any:
        """Return a tensor on cpu with the same shape and dtype. If it is used as an index, its integers are 0."""
        number = self.number(tensor.dtype)
        if index and not tensor.dtype.is_floating_point:
            number = 0
        level = _disable_modes()
        try:
            return mt.full(tuple(tensor.shape), number, dtype=tensor.dtype, device="cpu")
        finally:
            _restore_modes(level)


def _nested(shape: tuple[int, ...], number: Any) -> Any:
    if not shape:
        return number
    return [_nested(shape[1:], number) for _ in range(shape[0])]
