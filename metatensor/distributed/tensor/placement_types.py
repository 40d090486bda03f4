"""How a tensor lies on one dimension of a mesh: cut along one of its own, whole on each process, or as terms of a sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["DTensorSpec", "Partial", "Placement", "Replicate", "Shard", "TensorMeta", "_StridedShard"]


class Placement:
    """The base of the ways to lie."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether it is `Shard`, of dimension ``dim`` if one is given."""
        return isinstance(self, Shard) and (dim is None or self.dim == dim)

    def is_replicate(self) -> bool:
        """Whether it is `Replicate`."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether it is `Partial`, of ``reduce_op`` if one is given."""
        return isinstance(self, Partial) and (reduce_op is None or self.reduce_op == reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Cut along dimension ``dim`` into consecutive parts, of which the last may be smaller or missing."""

    dim: int

    def __str__(self) -> str:
        return f"S({self.dim})"


@dataclass(frozen=True, repr=False)
class _StridedShard(Placement):
    """Cut first into ``split_factor`` pieces, each of which is cut as by `Shard`; a process has its part of every piece."""

    dim: int
    split_factor: int

    def __init__(self, dim: int, *, split_factor: int) -> None:
        object.__setattr__(self, "dim", dim)
        object.__setattr__(self, "split_factor", split_factor)

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


@dataclass(frozen=True)
class Replicate(Placement):
    """The whole tensor on each process."""

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True, repr=False)
class Partial(Placement):
    """A term on each process, to be combined by ``reduce_op``."""

    reduce_op: str = "sum"

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"


class TensorMeta(NamedTuple):
    """The shape, strides and dtype of a whole tensor."""

    shape: Any
    stride: tuple[int, ...]
    dtype: Any


@dataclass
class DTensorSpec:
    """A mesh, how a tensor lies on it, and what the whole tensor is."""

    mesh: Any
    placements: tuple[Placement, ...]
    tensor_meta: TensorMeta | None = None
