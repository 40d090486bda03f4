"""What plans run parts of a model in: simulated worlds of ranks, and modes of the model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from metatensor import distributed
from metatensor.distributed._world import World, use_world
from metatensor.nn.modules.module import Module

__all__ = ["mode", "simulated"]


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


@contextmanager
def mode(model: Module, training: bool) -> Iterator[None]:
    """Set the mode of a model, and restore that of each module after the ``with`` block."""
    before = [(module, module.training) for module in model.modules()]
    model.train(training)
    try:
        yield
    finally:
        for module, was in before:
            module.training = was
