"""Placements of a tensor on a mesh dimension: sharded, replicated, or partial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import metatensor as mt
from metatensor._core.sharded import Placed

__all__ = ["DTensorSpec", "Partial", "Placement", "Replicate", "Shard", "TensorMeta", "_StridedShard"]


class Placement:
    """Base class of placements."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Return True for `Shard`. With ``dim``, return True only for that dimension."""
        return isinstance(self, Shard) and (dim is None or self.dim == dim)

    def is_replicate(self) -> bool:
        """Return True for `Replicate`."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Return True for `Partial`. With ``reduce_op``, return True only for that operation."""
        return isinstance(self, Partial) and (reduce_op is None or self.reduce_op == reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """The tensor is divided along ``dim`` into consecutive shards, of which the last may be smaller or empty."""

    dim: int

    def __str__(self) -> str:
        return f"S({self.dim})"

    @staticmethod
    def local_shard_size_and_offset(curr_local_size: int, num_chunks: int, rank: int) -> tuple[int, int]:
        """Return the size of shard ``rank`` of a dimension, and its offset. The offset of an empty shard is the whole size."""
        step = -(-curr_local_size // num_chunks)
        start = min(step * rank, curr_local_size)
        return min(step * (rank + 1), curr_local_size) - start, start


@dataclass(frozen=True, repr=False)
class _StridedShard(Placement):
    """The tensor is divided into ``split_factor`` pieces, each of which is sharded as by `Shard`.

    A process has one shard of every piece.
    """

    dim: int
    split_factor: int

    def __init__(self, dim: int, *, split_factor: int) -> None:
        object.__setattr__(self, "dim", dim)
        object.__setattr__(self, "split_factor", split_factor)

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"

    def __reduce__(self) -> Any:
        return _strided, (self.dim, self.split_factor)


def _strided(dim: int, split_factor: int) -> _StridedShard:
    return _StridedShard(dim, split_factor=split_factor)


@dataclass(frozen=True)
class Replicate(Placement):
    """Each process has the whole tensor."""

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True, repr=False)
class Partial(Placement):
    """Each process has a partial result. Reducing them with ``reduce_op`` gives the tensor.

    ``reduce_op`` is ``"sum"``, ``"avg"``, ``"max"``, ``"min"`` or ``"product"``.
    """

    reduce_op: str = "sum"

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"


class TensorMeta(NamedTuple):
    """Shape, strides and dtype of a whole tensor."""

    shape: Any
    stride: tuple[int, ...]
    dtype: Any


class DTensorSpec(Placed):
    """Mesh, placements and metadata of a distributed tensor.

    Parameters
    ----------
    mesh : DeviceMesh
        The mesh.
    placements : tuple of Placement
        One placement per mesh dimension.
    tensor_meta : TensorMeta
        Shape, strides and dtype of the whole tensor.
    """

    def __new__(cls, mesh: Any, placements: Sequence[Placement], tensor_meta: TensorMeta | None = None) -> DTensorSpec:
        meta = TensorMeta((), (), mt.float32) if tensor_meta is None else tensor_meta
        whole = mt.empty_strided(tuple(meta.shape), tuple(meta.stride), dtype=meta.dtype, device="meta")
        made: DTensorSpec = super().__new__(cls, mesh, tuple(placements), whole, mesh._plans)
        return made

    def __init__(self, *args: Any, **options: Any) -> None:
        """Do nothing: the metadata is set by ``__new__``."""

    @property
    def device_mesh(self) -> Any:
        """The mesh."""
        return self.mesh

    @property
    def tensor_meta(self) -> TensorMeta:
        """Shape, strides and dtype of the whole tensor."""
        return TensorMeta(self.shape, self.stride, self.dtype)

    @property
    def ndim(self) -> int:
        """The number of dimensions of the tensor."""
        return len(self.shape)

    @property
    def dim_map(self) -> list[int]:
        """For each dimension of the tensor, the first mesh dimension that shards it, or -1."""
        found = [-1] * self.ndim
        for mesh_dim, one in enumerate(self.placements):
            if isinstance(one, Shard) and found[one.dim] < 0:
                found[one.dim] = mesh_dim
        return found

    @property
    def sums(self) -> list[int]:
        """The mesh dimensions on which the tensor is partial."""
        return [mesh_dim for mesh_dim, one in enumerate(self.placements) if isinstance(one, Partial)]

    @property
    def num_shards(self) -> int:
        """The number of shards."""
        count = 1
        for mesh_dim, one in enumerate(self.placements):
            count *= self.mesh.size(mesh_dim) if isinstance(one, (Shard, _StridedShard)) else 1
        return count

    def is_replicated(self) -> bool:
        """Return True if every process has the whole tensor."""
        return all(isinstance(one, Replicate) for one in self.placements)

    def is_sharded(self) -> bool:
        """Return True if the tensor is sharded on any mesh dimension."""
        return any(isinstance(one, (Shard, _StridedShard)) for one in self.placements)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DTensorSpec):
            return NotImplemented
        return self is other or self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.mesh, self.placements, tuple(self.shape), self.stride, self.dtype

    def __reduce__(self) -> Any:
        return DTensorSpec, (self.mesh, self.placements, self.tensor_meta)

    def __repr__(self) -> str:
        return f"DTensorSpec({''.join(map(str, self.placements))} on {self.mesh}, shape={tuple(self.shape)}, dtype={self.dtype})"

    __str__ = __repr__


def interned(mesh: Any, placements: tuple[Placement, ...], shape: Sequence[int], stride: Sequence[int], dtype: Any) -> DTensorSpec:
    """Return the spec with these properties. Equal arguments give the same object."""
    key = placements, tuple(shape), tuple(stride), dtype
    found: DTensorSpec | None = mesh._specs.get(key)
    if found is None:
        found = mesh._specs[key] = DTensorSpec(mesh, placements, TensorMeta(mt.Size(shape), tuple(stride), dtype))
    return found
