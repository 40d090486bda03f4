"""Anomaly mode: every recorded call stores its call stack, and gradients with NaN raise an error."""

from __future__ import annotations

import sys
import traceback
import warnings
from typing import Any

from metatensor._core.source_locations import is_ours
from metatensor._core.thread import set_anomaly

__all__ = ["call_stack", "detect_anomaly", "set_detect_anomaly"]


def call_stack() -> str:
    """Return the current call stack as text, without the package's own frames."""
    frames = []
    frame: Any = sys._getframe(1)
    while frame is not None:
        if not is_ours(frame):
            frames.append((frame, frame.f_lineno))
        frame = frame.f_back
    return "".join(traceback.StackSummary.extract(reversed(frames)).format())


class set_detect_anomaly:
    """Switch anomaly mode on or off, as a function or a context manager. It applies to all threads.

    Parameters
    ----------
    mode : bool
        Whether the mode is on.
    check_nan : bool
        Raise RuntimeError where backward computes a NaN. Default True.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = set_anomaly(2 if mode and check_nan else int(mode))

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: Any) -> None:
        set_anomaly(self._before)


class detect_anomaly:
    """A context manager for debugging backward: errors show where the operator was called, and a NaN raises an error.

    Parameters
    ----------
    check_nan : bool
        Raise RuntimeError where backward computes a NaN. Default True.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self._mode = 2 if check_nan else 1
        warnings.warn("detect_anomaly is slow, because it records where every operator is called; use it only for debugging", stacklevel=2)

    def __enter__(self) -> None:
        self._before = set_anomaly(self._mode)

    def __exit__(self, *_: Any) -> None:
        set_anomaly(self._before)
