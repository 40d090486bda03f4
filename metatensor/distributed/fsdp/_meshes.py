"""The meshes over which the parameters of `fully_shard` are sharded and replicated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from metatensor.distributed.device_mesh import DeviceMesh
from metatensor.distributed.tensor.placement_types import Placement, Replicate, Shard

__all__ = ["DataParallel", "ShardPlacementResult", "data_parallel", "smaller"]


@dataclass(frozen=True)
class DataParallel:
    """A mesh of one dimension, over which parameters are sharded, or of two.

    In a mesh of two dimensions, parameters are replicated along the first and sharded along the second.
    """

    mesh: DeviceMesh

    @property
    def shard_group(self) -> Any:
        """The group whose ranks hold different shards."""
        return self.mesh.get_group(self.mesh.ndim - 1)

    @property
    def replica_group(self) -> Any:
        """The group whose ranks hold the same shard, or None."""
        return self.mesh.get_group(0) if self.mesh.ndim == 2 else None

    @property
    def shard_count(self) -> int:
        """The number of shards."""
        return self.mesh.size(self.mesh.ndim - 1)

    def placements(self, shard: Placement) -> tuple[Placement, ...]:
        """Return the placements of a parameter with the placement ``shard`` on the dimension of shards."""
        return (Replicate(), shard) if self.mesh.ndim == 2 else (shard,)


@dataclass(frozen=True)
class ShardPlacementResult:
    """What a ``shard_placement_fn`` may return: a placement, and a mesh for this parameter."""

    placement: Shard | None
    mesh_info: Any
    """An object with an attribute ``mesh``, a DeviceMesh."""


def data_parallel(mesh: DeviceMesh) -> DataParallel:
    """Return how `fully_shard` uses a mesh. Raise ValueError unless it has one or two dimensions."""
    if not isinstance(mesh, DeviceMesh):
        raise TypeError(f"fully_shard: mesh must be a DeviceMesh, not {type(mesh).__name__}")
    if mesh.ndim not in (1, 2):
        raise ValueError(f"fully_shard: the mesh must have one or two dimensions, got {mesh}")
    if mesh.ndim == 2 and mesh.mesh_dim_names is None:
        raise AssertionError(f"fully_shard: the dimensions of a mesh of two dimensions must have names, got {mesh}")
    return DataParallel(mesh)


def smaller(whole: DataParallel, size: int) -> DataParallel:
    """Return the mesh for parameters that are sharded over ``size`` consecutive ranks.

    Raise ValueError unless ``size`` divides the number of shards.
    """
    count = whole.shard_count
    if size < 1 or count % size:
        raise ValueError(f"fully_shard: reshard_after_forward must be a bool or a divisor of the {count} shards, got {size}")
    ranks = whole.mesh._ranks
    rows = [list(ranks[start : start + size]) for start in range(0, len(ranks), size)]
    return DataParallel(DeviceMesh(whole.mesh.device_type, rows, mesh_dim_names=("replicate", "shard")))
