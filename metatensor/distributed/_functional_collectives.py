"""Collectives that return new tensors. In a group of one process these are copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import metatensor as mt
from metatensor._core.absent import kind
from metatensor.distributed._buffers import collective
from metatensor.distributed._group import member, only_this_process

__all__ = ["AsyncCollectiveTensor", "all_gather_tensor", "all_reduce", "all_to_all_single", "all_to_all_single_autograd",
           "broadcast", "permute_tensor", "reduce_scatter_tensor", "wait_tensor"]  # fmt: skip

AsyncCollectiveTensor = kind(
    "distributed._functional_collectives.AsyncCollectiveTensor", "collectives are done when they return", mt.Tensor
)


def _alone(name: str, group: Any) -> None:
    """Raise unless the default group exists and `group`, if it is a list of ranks, has one process."""
    member(None)
    if isinstance(group, (list, tuple)) and group and all(isinstance(rank, int) for rank in group):
        only_this_process(name, len(group))


@collective
def all_reduce(self: Any, reduceOp: str, group: Any, tag: str = "") -> Any:
    """Return a copy of the tensor."""
    _alone("_functional_collectives.all_reduce", group)
    return self.clone()


@collective
def broadcast(self: Any, src: int, group: Any, tag: str = "") -> Any:
    """Return a copy of the tensor."""
    _alone("_functional_collectives.broadcast", group)
    return self.clone()


@collective
def all_gather_tensor(self: Any, gather_dim: int, group: Any, tag: str = "") -> Any:
    """Return a contiguous copy of the tensor."""
    _alone("_functional_collectives.all_gather_tensor", group)
    return self.clone(memory_format=mt.contiguous_format)


@collective
def reduce_scatter_tensor(self: Any, reduceOp: str, scatter_dim: int, group: Any, tag: str = "") -> Any:
    """Return a contiguous copy of the tensor."""
    _alone("_functional_collectives.reduce_scatter_tensor", group)
    return self.clone(memory_format=mt.contiguous_format)


@collective
def all_to_all_single(
    self: Any, output_split_sizes: Sequence[int] | None, input_split_sizes: Sequence[int] | None, group: Any, tag: str = ""
) -> Any:
    """Return a contiguous copy of the tensor."""
    _alone("_functional_collectives.all_to_all_single", group)
    return self.clone(memory_format=mt.contiguous_format)


all_to_all_single_autograd = all_to_all_single


@collective
def permute_tensor(self: Any, src_dst: Sequence[int], group: Any, tag: str = "") -> Any:
    """Return a contiguous copy of the tensor. ``src_dst`` must be ``[0]``."""
    _alone("_functional_collectives.permute_tensor", group)
    if list(src_dst) != [0]:
        raise ValueError(f"permute_tensor: the only rank in the group is 0, got {list(src_dst)}")
    return self.clone(memory_format=mt.contiguous_format)


def wait_tensor(tensor: Any) -> Any:
    """Return the tensor itself."""
    return tensor
