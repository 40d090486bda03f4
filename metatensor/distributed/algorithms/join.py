"""Training with different numbers of inputs per rank. A single process has nothing to synchronize."""

from __future__ import annotations

from typing import Any

from metatensor.distributed._group import get_world_size, is_initialized

__all__ = ["Join", "Joinable"]


class Joinable:
    """Base class of the objects that a `Join` synchronizes."""


class Join:
    """A context manager that does nothing in a world of one process.

    Raise NotImplementedError in a world of several ranks, unless ``enable`` is false.
    """

    def __init__(self, joinables: list[Any], enable: bool = True, throw_on_early_termination: bool = False, **kwargs: Any) -> None:
        if not joinables:
            raise ValueError("Join: expected at least one Joinable")
        if enable and is_initialized() and get_world_size() > 1:
            raise NotImplementedError("Join: give all ranks the same number of inputs, or use DistributedSampler")

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: Any) -> None:
        return None
