"""Checks of the arguments of collectives, in groups of any size and for tensors on any device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import metatensor as mt
from metatensor.distributed._group import ProcessGroup
from metatensor.distributed._reduce_op import ReduceOp, supports_complex

__all__ = ["check_list", "check_reducible", "check_sizes", "check_splits", "check_tensors", "root_in"]


def check_tensors(name: str, *values: Any) -> None:
    """Raise TypeError unless all values, and the elements of lists, are tensors."""
    for value in values:
        for one in value if isinstance(value, (list, tuple)) else (value,):
            if not isinstance(one, mt.Tensor):
                raise TypeError(f"torch.distributed.{name}: expected tensors, got {type(one).__name__}")


def check_reducible(name: str, op: Any, *tensors: Any) -> None:
    """Raise an error if ``op`` cannot reduce tensors of these dtypes. PyTorch does so in groups of any size."""
    for one in tensors:
        if not isinstance(one, mt.Tensor):
            raise TypeError(f"torch.distributed.{name}: expected a tensor, got {type(one).__name__}")
    if not isinstance(op, ReduceOp):
        raise TypeError(f"torch.distributed.{name}: op must be a ReduceOp, got {type(op).__name__}")
    for tensor in tensors:
        if tensor.is_complex() and not supports_complex(op):
            kind = ValueError if name.startswith("all_reduce") else RuntimeError
            raise kind(f"torch.distributed.{name}: complex tensors cannot be reduced with {op}")
        if op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR) and tensor.is_floating_point():
            raise RuntimeError(f"torch.distributed.{name}: {op} needs integers, got {tensor.dtype}")
        if op is ReduceOp.AVG and not (tensor.is_floating_point() or tensor.is_complex()):
            raise RuntimeError(f"torch.distributed.{name}: the mean cannot be stored in a tensor of {tensor.dtype}")


def root_in(name: str, group: ProcessGroup, rank: int | None, group_rank: int | None = None, default: int | None = 0) -> int:
    """Return the rank in the group of a root, given as a rank in the world or in the group.

    Raise RuntimeError for a rank that is not in the world, ValueError for one that is not in a smaller group, and
    ValueError if both or, without a default, none are given.
    """
    if rank is not None and group_rank is not None:
        raise ValueError(f"torch.distributed.{name}: give the rank in the world or in the group, not both")
    if rank is None and group_rank is None:
        if default is None:
            raise ValueError(f"torch.distributed.{name}: neither the rank in the world nor the one in the group is given")
        group_rank = default
    if group_rank is not None:
        if 0 <= group_rank < group.size():
            return int(group_rank)
    elif rank in group.ranks:
        return group.ranks.index(rank)
    got = rank if group_rank is None else group_rank
    if group.size() == 1:
        raise RuntimeError(f"torch.distributed.{name}: the only rank in the group is {group.ranks[0]}, got {got}")
    kind = RuntimeError if group.ranks == tuple(range(group.size())) else ValueError
    raise kind(f"torch.distributed.{name}: the group has the ranks {list(group.ranks)}, got {got}")


def check_list(name: str, values: Sequence[Any] | None, size: int) -> Sequence[Any]:
    """Return a list with one element per rank. Raise ValueError if it is missing or has another length."""
    if values is None or not isinstance(values, (list, tuple)) or len(values) != size:
        got = "None" if values is None else str(len(values)) if isinstance(values, (list, tuple)) else type(values).__name__
        elements = "exactly one element" if size == 1 else f"{size} elements"
        raise ValueError(f"torch.distributed.{name}: the list must have {elements} (one per process), got {got}")
    return values


def check_sizes(name: str, output: Any, input: Any, times: int = 1, of: str = "output") -> None:
    """Raise an error unless two tensors agree in dtype and device, and one has ``times`` as many elements as the other.

    ``of`` says which is the larger one.
    """
    check_tensors(name, output, input)
    larger, smaller = (output, input) if of == "output" else (input, output)
    if larger.numel() != smaller.numel() * times:
        group = "" if times == 1 else f"; in a group of {times} ranks the {of} is {times} times as large"
        raise ValueError(
            f"torch.distributed.{name}: the output has {output.numel()} elements, the input {input.numel()} "
            f"(shapes {list(output.shape)} and {list(input.shape)}){group}"
        )
    if output.dtype != input.dtype:
        raise TypeError(f"torch.distributed.{name}: the output is {output.dtype}, but the input is {input.dtype}")
    if output.device != input.device:
        raise RuntimeError(f"torch.distributed.{name}: the output is on {output.device}, but the input is on {input.device}")


def check_splits(name: str, sizes: Sequence[int] | None, tensor: Any, size: int, what: str) -> list[int]:
    """Return the rows for each rank: the given ones, or equal parts.

    Raise RuntimeError if they do not add up to the rows of the tensor or, without sizes, the rows cannot be divided.
    """
    rows = tensor.shape[0] if tensor.dim() else 1
    if not sizes:
        if rows % size:
            raise RuntimeError(f"torch.distributed.{name}: the {rows} rows of the {what} cannot be divided by {size} ranks")
        return [rows // size] * size
    if len(sizes) != size:
        check_list(name, list(sizes), size)
    if sum(sizes) != rows or min(sizes) < 0:
        raise RuntimeError(f"torch.distributed.{name}: split sizes {list(sizes)} do not fit {rows} rows of the {what}")
    return list(sizes)
