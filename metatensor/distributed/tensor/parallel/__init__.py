"""Tensor and expert parallelism: plans for how the layers of a model are distributed."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from typing import Any

from metatensor.distributed.device_mesh import DeviceMesh
from metatensor.distributed.tensor.parallel.experts import ExpertParallel, ExpertTensorParallel
from metatensor.distributed.tensor.parallel.styles import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
)

__all__ = [
    "ColwiseParallel", "ExpertParallel", "ExpertTensorParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput",
    "PrepareModuleOutput", "RowwiseParallel", "SequenceParallel", "loss_parallel", "parallelize_module",
]  # fmt: skip


def parallelize_module(
    module: Any, device_mesh: DeviceMesh | None = None, parallelize_plan: Any = None, *, src_data_rank: int | None = 0
) -> Any:
    """Distribute the layers of a module according to a plan. Return the module, which is changed.

    Parameters
    ----------
    module : Module
        The module.
    device_mesh : DeviceMesh, optional
        A mesh with the dimensions that the styles need, which is one for most. Default: all ranks.
    parallelize_plan : ParallelStyle or dict
        The style of the module, or styles by the name of the submodule. In a name, ``*`` stands for any part between dots.
        The empty name is the module itself.
    src_data_rank : int or None
        The rank whose parameters are used. None: each process uses its own, without communication.

    Raises
    ------
    ValueError
        If the mesh has another number of dimensions than a style needs.
    TypeError
        If the plan is neither a style nor a dict.

    Warns
    -----
    UserWarning
        If there is no plan, or if no submodule has a name of the plan.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    >>> mesh = mt.distributed.init_device_mesh("meta", (8,))
    >>> with mt.device("meta"):
    ...     model = mt.nn.Sequential(mt.nn.Linear(64, 256), mt.nn.ReLU(), mt.nn.Linear(256, 64))
    >>> _ = parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    >>> model[0].weight.to_local().shape
    metatensor.Size([32, 64])
    >>> model(mt.empty(16, 64, device="meta")).shape
    metatensor.Size([16, 64])
    >>> mt.distributed.destroy_process_group()
    """
    mesh = DeviceMesh("cpu") if device_mesh is None else device_mesh
    if parallelize_plan is None:
        warnings.warn("parallelize_module: there is no plan, so the module is not changed", stacklevel=2)
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, dict):
        raise TypeError(f"parallelize_module: expected a ParallelStyle or a dict of them, got {type(parallelize_plan).__name__}")
    for pattern, style in parallelize_plan.items():
        matching = _matching(module, pattern)
        if not matching:
            warnings.warn(f"parallelize_module: no submodule of {type(module).__name__} matches {pattern!r}", stacklevel=2)
        for found in matching:
            parallelize_module(found, mesh, style, src_data_rank=src_data_rank)
    return module


def _matching(module: Any, pattern: str) -> list[Any]:
    """Return the submodules whose names match, part by part."""
    if not pattern:
        return [module]
    found = [module]
    for part in pattern.split("."):
        found = [child for parent in found for name, child in parent.named_children() if fnmatch(name, part)]
    return found


@contextmanager
def loss_parallel() -> Iterator[None]:
    """Context manager for a cross entropy of logits that are sharded along the classes.

    The operators of a cross entropy run on sharded logits anyway, with the reductions that they need, so this changes nothing.
    """
    yield
