"""Anomaly detection. The switches have no effect, because there is no backward pass yet."""

from __future__ import annotations

from typing import Any

__all__ = ["detect_anomaly", "set_detect_anomaly"]


class set_detect_anomaly:
    """A function and context manager that has no effect."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: Any) -> None:
        return None


class detect_anomaly(set_detect_anomaly):
    """A context manager that has no effect."""

    def __init__(self, check_nan: bool = True) -> None:
        super().__init__(True, check_nan)
