"""Watching a backward for anomalies. There is none to watch: the switches have no effect."""

from __future__ import annotations

from typing import Any

__all__ = ["detect_anomaly", "set_detect_anomaly"]


class set_detect_anomaly:
    """A function and a context manager without effect."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: Any) -> None:
        return None


class detect_anomaly(set_detect_anomaly):
    """A context manager without effect."""

    def __init__(self, check_nan: bool = True) -> None:
        super().__init__(True, check_nan)
