"""Training with different numbers of inputs per process. A single process has nothing to synchronize."""

from __future__ import annotations

from typing import Any

__all__ = ["Join", "Joinable"]


class Joinable:
    """Base class of the objects that a `Join` synchronizes."""


class Join:
    """A context manager that does nothing, because there is one process."""

    def __init__(self, joinables: list[Any], enable: bool = True, throw_on_early_termination: bool = False, **kwargs: Any) -> None:
        if not joinables:
            raise ValueError("Join: expected at least one Joinable")

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: Any) -> None:
        return None
