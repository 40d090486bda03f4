"""Plans of how modules are spread over processes. Over one, a module stays as it is."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

__all__ = ["ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput", "PrepareModuleOutput",
           "RowwiseParallel", "SequenceParallel", "loss_parallel", "parallelize_module"]  # fmt: skip


class ParallelStyle:
    """How one module is spread: the arguments are kept as attributes."""

    src_data_rank: int | None = 0

    def __init__(self, **options: Any) -> None:
        vars(self).update(options)

    def _apply(self, module: Any, device_mesh: Any) -> Any:
        return module

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in vars(self).items())})"


class ColwiseParallel(ParallelStyle):
    """A linear or embedding layer cut along its outputs."""


class RowwiseParallel(ParallelStyle):
    """A linear or embedding layer cut along its inputs."""


class SequenceParallel(ParallelStyle):
    """A layer on a cut sequence."""


class PrepareModuleInput(ParallelStyle):
    """Placements for what a module gets."""


class PrepareModuleOutput(ParallelStyle):
    """Placements for what a module returns."""


class PrepareModuleInputOutput(ParallelStyle):
    """Placements for both."""


def parallelize_module(
    module: Any, device_mesh: Any = None, parallelize_plan: Any = None, *, src_data_rank: int | None = 0
) -> Any:
    """``module`` itself: a mesh has one process."""
    if parallelize_plan is not None and not isinstance(parallelize_plan, (ParallelStyle, dict)):
        raise TypeError(f"parallelize_module: expected a ParallelStyle or a dict of them, got {type(parallelize_plan).__name__}")
    return module


@contextmanager
def loss_parallel() -> Any:
    """No effect: losses are on one process."""
    yield
