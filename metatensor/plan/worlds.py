"""Simulated worlds of ranks, in which plans run parts of a model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from metatensor import distributed
from metatensor.distributed._world import World, use_world

__all__ = ["simulated"]


@contextmanager
def simulated(size: int) -> Iterator[None]:
    """Give this thread a simulated world of its own inside the ``with`` block, whatever process groups there are."""
    world = World()
    before = use_world(world)
    try:
        distributed.init_process_group("fake", world_size=size, rank=0)
        yield
    finally:
        world.clear()
        use_world(before)
