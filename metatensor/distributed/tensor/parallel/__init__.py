"""Plans for tensor parallelism. Because a mesh has only one process, modules stay unchanged."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

__all__ = ["ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput", "PrepareModuleOutput",
           "RowwiseParallel", "SequenceParallel", "loss_parallel", "parallelize_module"]  # fmt: skip


class ParallelStyle:
    """Base class of parallel styles. The arguments are stored as attributes and have no effect on one process."""

    src_data_rank: int | None = 0

    def __init__(self, **options: Any) -> None:
        vars(self).update(options)

    def _apply(self, module: Any, device_mesh: Any) -> Any:
        return module

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in vars(self).items())})"


class ColwiseParallel(ParallelStyle):
    """Style that shards a linear or embedding layer along its outputs (no effect on one process)."""


class RowwiseParallel(ParallelStyle):
    """Style that shards a linear or embedding layer along its inputs (no effect on one process)."""


class SequenceParallel(ParallelStyle):
    """Style that applies a layer to sharded sequences (no effect on one process)."""


class PrepareModuleInput(ParallelStyle):
    """Style that specifies the placements of a module's inputs (no effect on one process)."""


class PrepareModuleOutput(ParallelStyle):
    """Style that specifies the placements of a module's outputs (no effect on one process)."""


class PrepareModuleInputOutput(ParallelStyle):
    """Style that specifies the placements of a module's inputs and outputs (no effect on one process)."""


def parallelize_module(
    module: Any, device_mesh: Any = None, parallelize_plan: Any = None, *, src_data_rank: int | None = 0
) -> Any:
    """Return ``module`` unchanged, because a mesh has one process."""
    if parallelize_plan is not None and not isinstance(parallelize_plan, (ParallelStyle, dict)):
        raise TypeError(f"parallelize_module: expected a ParallelStyle or a dict of them, got {type(parallelize_plan).__name__}")
    return module


@contextmanager
def loss_parallel() -> Any:
    """Return a context manager that does nothing, because the loss is on one process."""
    yield
