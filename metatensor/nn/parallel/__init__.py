"""Data parallelism: `DistributedDataParallel`. Batches are not split over the devices of one process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from metatensor.nn.parallel.data_parallel import DataParallel, data_parallel
from metatensor.nn.parallel.distributed import DistributedDataParallel

__all__ = [
    "DataParallel",
    "DistributedDataParallel",
    "data_parallel",
    "gather",
    "parallel_apply",
    "replicate",
    "scatter",
]

DistributedDataParallelCPU = DistributedDataParallel


def _one_device(name: str) -> NoReturn:
    raise NotImplementedError(f"nn.parallel.{name}: batches are not split over devices in metatensor")


def gather(outputs: Any, target_device: Any, dim: int = 0) -> Any:
    """Raise NotImplementedError: batches are not split over devices."""
    _one_device("gather")


def parallel_apply(modules: Sequence[Any], inputs: Any, kwargs_tup: Any = None, devices: Any = None) -> Any:
    """Raise NotImplementedError: batches are not split over devices."""
    _one_device("parallel_apply")


def replicate(network: Any, devices: Any, detach: bool = False) -> Any:
    """Raise NotImplementedError: batches are not split over devices."""
    _one_device("replicate")


def scatter(inputs: Any, target_gpus: Any, dim: int = 0) -> Any:
    """Raise NotImplementedError: batches are not split over devices."""
    _one_device("scatter")
