"""Processes with inputs of different numbers: one process waits for nobody."""

from __future__ import annotations

from typing import Any

__all__ = ["Join", "Joinable"]


class Joinable:
    """What takes part in a `Join`; a base to subclass."""


class Join:
    """A context manager without effect."""

    def __init__(self, joinables: list[Any], enable: bool = True, throw_on_early_termination: bool = False, **kwargs: Any) -> None:
        if not joinables:
            raise ValueError("Join: expected at least one Joinable")

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: Any) -> None:
        return None
