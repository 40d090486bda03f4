"""Differentiable collectives that return new tensors and have finished when they return.

Gradients flow back through the collective that undoes the first one: those of an `all_gather` are reduced and scattered, for
example. In a group of one process the results are copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import metatensor as mt
from metatensor.distributed import _collectives
from metatensor.distributed import _functional_collectives as functional
from metatensor.distributed._buffers import collective
from metatensor.distributed._checks import check_list, root_in
from metatensor.distributed._group import ProcessGroup, ReduceOp, the_group

__all__ = ["all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce", "reduce_scatter", "scatter"]


@collective
def broadcast(tensor: Any, src: int, group: Any = None) -> Any:
    """Return a copy of the tensor of rank ``src``."""
    found = the_group(group)
    root_in("nn.functional.broadcast", found, src)
    return functional.wait_tensor(functional.broadcast(tensor, src, found))


@collective
def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """Return the tensor, reduced over the ranks."""
    return functional.wait_tensor(functional.all_reduce(tensor, op, the_group(group)))


@collective
def all_gather(tensor: Any, group: Any = None) -> tuple[Any, ...]:
    """Return a tuple with the tensors of all ranks."""
    found = the_group(group)
    if found.size() == 1:
        return (tensor.clone(),)
    whole = functional.wait_tensor(functional.all_gather_tensor(tensor.unsqueeze(0), 0, found))
    return tuple(whole.unbind(0))


@collective
def reduce_scatter(output: Any, input_list: Sequence[Any], op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """Return this rank's element of ``input_list``, reduced over the ranks. ``output`` only gives shape and dtype."""
    found = the_group(group)
    check_list("nn.functional.reduce_scatter", list(input_list), found.size())
    if found.size() == 1:
        return input_list[0].clone()
    return functional.wait_tensor(functional.reduce_scatter_tensor(mt.stack(list(input_list)), op, 0, found)).squeeze(0)


@collective
def all_to_all(output_tensor_list: Sequence[Any], input_tensor_list: Sequence[Any], group: Any = None) -> tuple[Any, ...]:
    """Send the r-th input to rank r. Return a tuple of the tensors that the ranks send to this one.

    ``output_tensor_list`` only gives their shapes.
    """
    found = the_group(group)
    check_list("nn.functional.all_to_all", list(input_tensor_list), found.size())
    if found.size() == 1:
        return (input_tensor_list[0].clone(),)
    check_list("nn.functional.all_to_all", list(output_tensor_list), found.size())
    flat = mt.cat([one.reshape(-1) for one in input_tensor_list])
    received, sent = ([one.numel() for one in tensors] for tensors in (output_tensor_list, input_tensor_list))
    whole = functional.wait_tensor(functional.all_to_all_single(flat, received, sent, found))
    return tuple(part.view(one.shape) for part, one in zip(whole.split(received), output_tensor_list))


@collective
def all_to_all_single(
    output: Any, input: Any, output_split_sizes: Any = None, input_split_sizes: Any = None, group: Any = None
) -> Any:
    """Send the r-th part of the rows to rank r. Return the rows that the ranks send to this one."""
    found = the_group(group)
    return functional.wait_tensor(functional.all_to_all_single(input, output_split_sizes, input_split_sizes, found))


# To and from one rank -------------------------------------------------------------------------------------------------


class _Reduce(mt.autograd.Function):
    """The sum arrives at one rank, whose gradient goes to all."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, root: int, op: Any, group: ProcessGroup) -> Any:
        ctx.root, ctx.group = root, group
        result = tensor.detach().clone(memory_format=mt.contiguous_format)
        _collectives.reduce(result, op=op, group=group, group_dst=root)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        result = grad.detach().clone(memory_format=mt.contiguous_format)
        _collectives.broadcast(result, group=ctx.group, group_src=ctx.root)
        return result, None, None, None


class _Gather(mt.autograd.Function):
    """The tensors arrive at one rank, whose gradients go back to them."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, root: int, group: ProcessGroup) -> Any:
        ctx.root, ctx.group = root, group
        parts = [mt.zeros_like(tensor, memory_format=mt.contiguous_format) for _ in range(group.size())]
        _collectives.gather(tensor.detach(), parts if group._rank == root else None, group=group, group_dst=root)
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        result = mt.empty_like(grads[0], memory_format=mt.contiguous_format)
        here = ctx.group._rank == ctx.root
        _collectives.scatter(result, list(grads) if here else None, group=ctx.group, group_src=ctx.root)
        return result, None, None


class _Scatter(mt.autograd.Function):
    """The tensors of one rank go to all, and the gradients come back."""

    @staticmethod
    def forward(ctx: Any, root: int, group: ProcessGroup, *tensors: Any) -> Any:
        ctx.root, ctx.group = root, group
        result = mt.empty_like(tensors[0], memory_format=mt.contiguous_format)
        given = [one.detach() for one in tensors] if group._rank == root else None
        _collectives.scatter(result, given, group=group, group_src=root)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        parts = [mt.zeros_like(grad, memory_format=mt.contiguous_format) for _ in range(ctx.group.size())]
        _collectives.gather(grad, parts if ctx.group._rank == ctx.root else None, group=ctx.group, group_dst=ctx.root)
        return (None, None, *parts)


@collective
def reduce(tensor: Any, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """Return the reduced tensor on rank ``dst``, and a copy of the tensor on the others."""
    found = the_group(group)
    root = root_in("nn.functional.reduce", found, dst)
    return tensor.clone() if found.size() == 1 else _Reduce.apply(tensor, root, op, found)


@collective
def gather(tensor: Any, dst: int = 0, group: Any = None) -> tuple[Any, ...]:
    """Return a tuple with the tensors of all ranks on rank ``dst``, and tensors of zeros on the others."""
    found = the_group(group)
    root = root_in("nn.functional.gather", found, dst)
    return (tensor.clone(),) if found.size() == 1 else _Gather.apply(tensor, root, found)


@collective
def scatter(tensors: Sequence[Any], src: int = 0, group: Any = None) -> Any:
    """Return this rank's element of ``tensors`` of rank ``src``. On the other ranks they only give the shape."""
    found = the_group(group)
    root = root_in("nn.functional.scatter", found, src)
    check_list("nn.functional.scatter", list(tensors), found.size())
    return tensors[0].clone() if found.size() == 1 else _Scatter.apply(root, found, *tensors)
