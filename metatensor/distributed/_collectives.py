"""Collectives in a group of one process. They copy data or leave it unchanged, and validate their arguments.

The arguments have PyTorch's names. With ``async_op`` a collective returns a `Work`, which is already complete.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import metatensor as mt
from metatensor.distributed._group import ReduceOp, Work, member, supports_complex

__all__ = [
    "P2POp", "all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_gather_object", "all_reduce",
    "all_reduce_coalesced", "all_to_all", "all_to_all_single", "barrier", "batch_isend_irecv", "broadcast",
    "broadcast_object_list", "gather", "gather_object", "irecv", "isend", "monitored_barrier", "recv", "recv_object_list",
    "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter", "scatter_object_list", "send", "send_object_list",
]  # fmt: skip


def _done(async_op: bool, *tensors: Any) -> Work | None:
    return Work(list(tensors)) if async_op else None


def _tensors(name: str, *values: Any) -> None:
    for value in values:
        for one in value if isinstance(value, (list, tuple)) else (value,):
            if not isinstance(one, mt.Tensor):
                raise TypeError(f"torch.distributed.{name}: expected tensors, got {type(one).__name__}")


def _reducible(name: str, op: Any, *tensors: Any) -> None:
    """Raise an error if ``op`` cannot reduce tensors of these dtypes. PyTorch does so in groups of any size."""
    _tensors(name, *tensors)
    for tensor in tensors:
        if tensor.is_complex() and not supports_complex(op):
            kind = ValueError if name.startswith("all_reduce") else RuntimeError
            raise kind(f"torch.distributed.{name}: complex tensors cannot be reduced with {op}")
        if op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR) and tensor.is_floating_point():
            raise RuntimeError(f"torch.distributed.{name}: {op} needs integers, got {tensor.dtype}")
        if op is ReduceOp.AVG and not (tensor.is_floating_point() or tensor.is_complex()):
            raise RuntimeError(f"torch.distributed.{name}: the mean cannot be stored in a tensor of {tensor.dtype}")


def _root(name: str, rank: int | None, group_rank: int | None = None) -> None:
    """Raise RuntimeError unless the root is rank 0."""
    if (rank or 0) != 0 or (group_rank or 0) != 0:
        raise RuntimeError(f"torch.distributed.{name}: the only rank in the group is 0, got {rank or group_rank}")


def _one(name: str, values: Sequence[Any] | None) -> Any:
    """Return the only element of a list with one element per process."""
    if values is None or len(values) != 1:
        got = "None" if values is None else str(len(values))
        raise ValueError(f"torch.distributed.{name}: the list must have exactly one element (one per process), got {got}")
    return values[0]


def _copy(name: str, target: Any, source: Any) -> None:
    """Copy ``source`` to ``target``, which must have the same dtype and number of elements."""
    _tensors(name, target, source)
    if target.numel() != source.numel():
        raise ValueError(f"torch.distributed.{name}: the output has {target.numel()} elements, the input {source.numel()}")
    if target.dtype != source.dtype:
        raise TypeError(f"torch.distributed.{name}: the output is {target.dtype}, but the input is {source.dtype}")
    if target is not source:
        with mt.no_grad():
            target.copy_(source.reshape(target.shape))


# Collectives on tensors -----------------------------------------------------------------------------------------------


def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Reduce ``tensor`` over the group. With one process, the tensor stays unchanged."""
    _reducible("all_reduce", op, tensor)
    member(group)
    return _done(async_op, tensor)


def all_reduce_coalesced(tensors: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Reduce ``tensors`` over the group. With one process, the tensors stay unchanged."""
    _reducible("all_reduce_coalesced", op, *tensors)
    member(group)
    return _done(async_op, *tensors)


def reduce(
    tensor: Any, dst: int | None = None, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Reduce ``tensor`` to rank ``dst``, which must be 0. The tensor is unchanged."""
    _reducible("reduce", op, tensor)
    member(group)
    _root("reduce", dst, group_dst)
    return _done(async_op, tensor)


def broadcast(
    tensor: Any, src: int | None = None, group: Any = None, async_op: bool = False, group_src: int | None = None
) -> Work | None:
    """Broadcast ``tensor`` from rank ``src``, which must be 0. The tensor is unchanged."""
    _tensors("broadcast", tensor)
    member(group)
    _root("broadcast", src, group_src)
    return _done(async_op, tensor)


def all_gather(tensor_list: list[Any], tensor: Any, group: Any = None, async_op: bool = False) -> Work | None:
    """Copy ``tensor`` to the only tensor of ``tensor_list``."""
    _tensors("all_gather", tensor_list, tensor)
    if member(group):
        _copy("all_gather", _one("all_gather", tensor_list), tensor)
    return _done(async_op, tensor_list)


def all_gather_coalesced(
    output_tensor_lists: list[list[Any]], input_tensor_list: list[Any], group: Any = None, async_op: bool = False
) -> Work | None:
    """Copy each input to the only tensor of the corresponding output list."""
    for outputs, given in zip(_for_each("all_gather_coalesced", output_tensor_lists, input_tensor_list), input_tensor_list):
        all_gather(outputs, given, group)
    return _done(async_op, output_tensor_lists)


def _for_each(name: str, lists: Sequence[Any], values: Sequence[Any]) -> Sequence[Any]:
    if len(lists) != len(values):
        raise ValueError(f"torch.distributed.{name}: {len(lists)} outputs for {len(values)} inputs")
    return lists


def all_gather_into_tensor(output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False) -> Work | None:
    """Copy ``input_tensor`` to ``output_tensor``."""
    if member(group):
        _copy("all_gather_into_tensor", output_tensor, input_tensor)
    return _done(async_op, output_tensor)


def gather(
    tensor: Any, gather_list: list[Any] | None = None, dst: int | None = None, group: Any = None, async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Copy ``tensor`` to the only tensor of ``gather_list``."""
    if member(group):
        _root("gather", dst, group_dst)
        _copy("gather", _one("gather", gather_list), tensor)
    return _done(async_op, gather_list)


def scatter(
    tensor: Any, scatter_list: list[Any] | None = None, src: int | None = None, group: Any = None, async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Copy the only tensor of ``scatter_list`` to ``tensor``."""
    if member(group):
        _root("scatter", src, group_src)
        _copy("scatter", tensor, _one("scatter", scatter_list))
    return _done(async_op, tensor)


def reduce_scatter(
    output: Any, input_list: list[Any], op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Copy the only tensor of ``input_list`` to ``output``."""
    if member(group):
        _reducible("reduce_scatter", op, output)
        _copy("reduce_scatter", output, _one("reduce_scatter", input_list))
    return _done(async_op, output)


def reduce_scatter_tensor(output: Any, input: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Copy ``input`` to ``output``."""
    if member(group):
        _reducible("reduce_scatter_tensor", op, output)
        _copy("reduce_scatter_tensor", output, input)
    return _done(async_op, output)


def all_to_all(output_tensor_list: list[Any], input_tensor_list: list[Any], group: Any = None, async_op: bool = False) -> Work | None:
    """Copy the only tensor of the input list to the only tensor of the output list."""
    if member(group):
        _copy("all_to_all", _one("all_to_all", output_tensor_list), _one("all_to_all", input_tensor_list))
    return _done(async_op, output_tensor_list)


def all_to_all_single(
    output: Any, input: Any, output_split_sizes: Sequence[int] | None = None, input_split_sizes: Sequence[int] | None = None,
    group: Any = None, async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Copy ``input`` to ``output``. If split sizes are given, their only element must be the size of dimension 0."""
    if member(group):
        for sizes, tensor in ((output_split_sizes, output), (input_split_sizes, input)):
            if sizes and _one("all_to_all_single", sizes) != tensor.shape[0]:
                raise RuntimeError(f"torch.distributed.all_to_all_single: split sizes {list(sizes)} do not fit {tensor.shape[0]} rows")
        _copy("all_to_all_single", output, input)
    return _done(async_op, output)


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Return immediately: there is no other process to wait for."""
    member(group)
    return _done(async_op)


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """Return immediately: there is no other process to wait for."""
    member(group)


# Collectives on objects -----------------------------------------------------------------------------------------------


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Store a deep copy of ``obj`` in ``object_list``, which must have one element."""
    if member(group):
        _one("all_gather_object", object_list)
        object_list[0] = copy.deepcopy(obj)


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None, group: Any = None, group_dst: int | None = None
) -> None:
    """Store a deep copy of ``obj`` in ``object_gather_list``, which must have one element."""
    if member(group):
        _root("gather_object", dst, group_dst)
        _one("gather_object", object_gather_list)
        assert object_gather_list is not None
        object_gather_list[0] = copy.deepcopy(obj)


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None, group_src: int | None = None
) -> None:
    """Broadcast a list of objects from rank ``src``, which must be 0. The list is unchanged."""
    member(group)
    _root("broadcast_object_list", src, group_src)


def scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: list[Any] | None = None, src: int | None = None,
    group: Any = None, group_src: int | None = None,
) -> None:  # fmt: skip
    """Store a deep copy of the only input object as the first element of the output list."""
    if member(group):
        _root("scatter_object_list", src, group_src)
        scatter_object_output_list[0] = copy.deepcopy(_one("scatter_object_list", scatter_object_input_list))


# Point-to-point communication -----------------------------------------------------------------------------------------


def _nobody(name: str) -> Callable[..., Any]:
    def refused(*_: Any, **__: Any) -> Any:
        member(None)
        raise ValueError(f"torch.distributed.{name}: this process is the only one in the world and cannot send to itself")

    refused.__name__ = refused.__qualname__ = name
    refused.__doc__ = "Raise ValueError: there is no other process."
    return refused


send, recv, isend, irecv = _nobody("send"), _nobody("recv"), _nobody("isend"), _nobody("irecv")
send_object_list, recv_object_list = _nobody("send_object_list"), _nobody("recv_object_list")


class P2POp:
    """One `isend` or `irecv` of a batch."""

    def __init__(
        self, op: Any, tensor: Any, peer: int | None = None, group: Any = None, tag: int = 0, group_peer: int | None = None
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError("torch.distributed.P2POp: op must be isend or irecv")
        self.op, self.tensor, self.peer, self.group, self.tag, self.group_peer = op, tensor, peer, group, tag, group_peer


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Start a batch of operations. Every operation raises ValueError, so only an empty batch succeeds."""
    return [one.op(one.tensor, one.peer, one.group, one.tag) for one in p2p_op_list]
