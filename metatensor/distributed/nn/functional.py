"""Collectives that return new tensors. In a group of one process these are copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metatensor.distributed._buffers import collective
from metatensor.distributed._collectives import _one, _root
from metatensor.distributed._group import ReduceOp, member

__all__ = ["all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce", "reduce_scatter", "scatter"]


@collective
def broadcast(tensor: Any, src: int, group: Any = None) -> Any:
    """Return a copy of the tensor."""
    member(group)
    _root("nn.functional.broadcast", src)
    return tensor.clone()


@collective
def gather(tensor: Any, dst: int = 0, group: Any = None) -> tuple[Any, ...]:
    """Return a tuple with a copy of the tensor."""
    member(group)
    _root("nn.functional.gather", dst)
    return (tensor.clone(),)


@collective
def scatter(tensors: Sequence[Any], src: int = 0, group: Any = None) -> Any:
    """Return a copy of the only tensor in ``tensors``."""
    member(group)
    _root("nn.functional.scatter", src)
    return _one("nn.functional.scatter", tensors).clone()


@collective
def reduce(tensor: Any, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """Return a copy of the tensor."""
    member(group)
    _root("nn.functional.reduce", dst)
    return tensor.clone()


@collective
def reduce_scatter(output: Any, input_list: Sequence[Any], op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """Return a copy of the only tensor in ``input_list``."""
    member(group)
    return _one("nn.functional.reduce_scatter", input_list).clone()


@collective
def all_gather(tensor: Any, group: Any = None) -> tuple[Any, ...]:
    """Return a tuple with a copy of the tensor."""
    member(group)
    return (tensor.clone(),)


@collective
def all_to_all(output_tensor_list: Sequence[Any], input_tensor_list: Sequence[Any], group: Any = None) -> tuple[Any, ...]:
    """Return a tuple with a copy of the only tensor in ``input_tensor_list``."""
    member(group)
    return (_one("nn.functional.all_to_all", input_tensor_list).clone(),)


@collective
def all_to_all_single(
    output: Any, input: Any, output_split_sizes: Any = None, input_split_sizes: Any = None, group: Any = None
) -> Any:
    """Return a copy of ``input``."""
    member(group)
    return input.clone()


@collective
def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """Return a copy of the tensor."""
    member(group)
    return tensor.clone()
