"""Collectives that return new tensors. They are differentiable.

In a group of several ranks the result is an `AsyncCollectiveTensor`: the collective is running, and the first use of the
tensor waits for it. The argument ``group`` is a process group, its name, a list of ranks, a `DeviceMesh` of one dimension,
or a tuple of a mesh and a dimension. In a group of one process the results are copies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import metatensor as mt
from metatensor._core.nested import map_tensors
from metatensor._core.thread import DisableTorchFunctionSubclass
from metatensor.distributed import _collectives
from metatensor.distributed._buffers import collective
from metatensor.distributed._checks import check_reducible, check_splits, root_in
from metatensor.distributed._group import ProcessGroup
from metatensor.distributed._group_argument import group_named
from metatensor.distributed._point_to_point import P2POp, batch_isend_irecv, irecv, isend
from metatensor.distributed._reduce_op import ReduceOp, named_reduction
from metatensor.distributed.work import PendingWork, Work

__all__ = [
    "AsyncCollectiveTensor", "all_gather_into_tensor_coalesced", "all_gather_single", "all_gather_single_autograd",
    "all_gather_single_coalesced", "all_gather_tensor", "all_gather_tensor_autograd", "all_reduce",
    "all_reduce_coalesced", "all_to_all_single", "all_to_all_single_autograd", "broadcast", "permute_tensor",
    "reduce_scatter_single", "reduce_scatter_single_autograd", "reduce_scatter_single_coalesced",
    "reduce_scatter_tensor", "reduce_scatter_tensor_autograd", "reduce_scatter_tensor_coalesced", "wait_tensor",
]  # fmt: skip


class AsyncCollectiveTensor(mt.Tensor):
    """The result of a collective that may still be running. Using it in any operation waits for the collective."""

    elem: mt.Tensor
    """The tensor that the collective writes."""
    _work: Work | None

    def wait(self) -> Any:
        """Wait for the collective and return the tensor."""
        work, self._work = self._work, None
        if work is not None:
            work.wait()
        return self.elem

    trigger_wait = wait

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = map_tensors(_waited, (args, kwargs or {}))
        return func(*args, **kwargs)


def _waited(tensor: Any) -> Any:
    if not isinstance(tensor, AsyncCollectiveTensor):
        return tensor
    with DisableTorchFunctionSubclass():
        return tensor.wait()


def _running(tensor: Any, work: Work | None) -> Any:
    """Return the tensor, as one that waits for ``work`` when it is used."""
    if work is None:
        return tensor
    found: Any = tensor.as_subclass(AsyncCollectiveTensor)
    with DisableTorchFunctionSubclass():
        found.elem, found._work = tensor, work
    return found


class _Differentiable(mt.autograd.Function):
    """Applies a collective to a tensor, and another one to its gradient."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, start: Any, gradient: Any, works: list[Work | None]) -> Any:
        ctx.gradient = gradient
        found, work = start(tensor)
        works.append(work)
        return found

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return wait_tensor(ctx.gradient(grad)), None, None, None


def _apply(tensor: Any, start: Callable[[Any], tuple[Any, Work | None]], gradient: Callable[[Any], Any]) -> Any:
    """Return the result of ``start(tensor)``, a tensor and its handle.

    ``gradient`` maps the gradient of the result to that of the tensor.
    """
    tensor = _waited(tensor)
    if tensor.requires_grad and mt.is_grad_enabled():
        works: list[Work | None] = []
        found = _Differentiable.apply(tensor, start, gradient, works)
        return _running(found, works[0])
    found, work = start(tensor)
    return _running(found, work)


def _new(tensor: Any, shape: Sequence[int]) -> Any:
    return mt.empty(shape, dtype=tensor.dtype, device=tensor.device)


def _no_gradient(name: str) -> Callable[[Any], Any]:
    def refuse(grad: Any) -> Any:
        raise RuntimeError(f"torch.distributed.{name}: this reduction has no gradient")

    return refuse


def _only_sums(name: str, op: ReduceOp, gradient: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return gradient if op in (ReduceOp.SUM, ReduceOp.AVG) else _no_gradient(f"{name} with {op.name.lower()}")


# Reductions -----------------------------------------------------------------------------------------------------------


@collective
def all_reduce(self: Any, reduceOp: Any, group: Any, tag: str = "") -> Any:
    """Return the tensor, reduced over the ranks: ``"sum"``, ``"avg"``, ``"max"``, ``"min"``, ``"product"``, ``"band"``, ...

    The gradient is reduced in the same way; only sums and means have one.
    """
    found, op = group_named("_functional_collectives.all_reduce", group), named_reduction(reduceOp)
    check_reducible("all_reduce", op, self)
    if found.size() == 1:
        return self.clone()

    def start(tensor: Any) -> tuple[Any, Work | None]:
        result = tensor.detach().clone(memory_format=mt.contiguous_format)
        return result, _collectives.all_reduce(result, op, found, True)

    return _apply(self, start, _only_sums("all_reduce", op, lambda grad: all_reduce(grad, op, found)))


@collective
def broadcast(self: Any, src: int, group: Any, tag: str = "") -> Any:
    """Return a copy of the tensor of rank ``src`` (a rank in the world). Its gradient is the sum of those of all ranks."""
    found = group_named("_functional_collectives.broadcast", group)
    root = root_in("broadcast", found, src)
    if found.size() == 1:
        return self.clone()

    def start(tensor: Any) -> tuple[Any, Work | None]:
        result = tensor.detach().clone(memory_format=mt.contiguous_format)
        return result, _collectives.broadcast(result, group=found, group_src=root, async_op=True)

    def gradient(grad: Any) -> Any:
        total = grad.detach().clone(memory_format=mt.contiguous_format)
        _collectives.reduce(total, group=found, group_dst=root)
        return total if found._rank == root else mt.zeros_like(total)

    return _apply(self, start, gradient)


@collective
def reduce_scatter_tensor(self: Any, reduceOp: Any, scatter_dim: int, group: Any, tag: str = "") -> Any:
    """Return this rank's part of the tensor, cut along ``scatter_dim``, reduced over the ranks.

    Raise AssertionError if the size of the dimension is not a multiple of the size of the group.
    """
    found, op = group_named("_functional_collectives.reduce_scatter_tensor", group), named_reduction(reduceOp)
    check_reducible("reduce_scatter_tensor", op, self)
    size, dim = found.size(), range(self.dim())[scatter_dim]
    if self.shape[dim] % size:
        raise AssertionError(
            f"torch.distributed.reduce_scatter_tensor: dimension {dim} of a tensor of shape {list(self.shape)} cannot be divided by {size}"
        )
    if size == 1:
        return self.clone(memory_format=mt.contiguous_format)

    def start(tensor: Any) -> tuple[Any, Work | None]:
        given = tensor.detach()
        given = given if dim == 0 else mt.cat(given.chunk(size, dim))
        result = _new(tensor, [length // size if index == dim else length for index, length in enumerate(tensor.shape)])
        return result, _collectives.reduce_scatter_tensor(result, given, op, found, True)

    def gradient(grad: Any) -> Any:
        whole = all_gather_tensor(grad, dim, found)
        return whole / size if op is ReduceOp.AVG else whole

    return _apply(self, start, _only_sums("reduce_scatter_tensor", op, gradient))


# Gathering ------------------------------------------------------------------------------------------------------------


@collective
def all_gather_tensor(self: Any, gather_dim: int, group: Any, tag: str = "") -> Any:
    """Return the tensors of all ranks, concatenated along ``gather_dim``. All have the same shape.

    The gradient is that of this rank's part, summed over the ranks.
    """
    found = group_named("_functional_collectives.all_gather_tensor", group)
    if found.size() == 1:
        return self.clone(memory_format=mt.contiguous_format)
    size, dim = found.size(), range(self.dim())[gather_dim]

    def start(tensor: Any) -> tuple[Any, Work | None]:
        result = _new(tensor, [tensor.shape[0] * size, *tensor.shape[1:]])
        work = _collectives.all_gather_into_tensor(result, tensor.detach(), found, True)
        if dim == 0:
            return result, work
        assert work is not None
        work.wait()
        return mt.cat(result.chunk(size), dim), None

    return _apply(self, start, lambda grad: reduce_scatter_tensor(grad, ReduceOp.SUM, dim, found))


# All to all -----------------------------------------------------------------------------------------------------------


@collective
def all_to_all_single(
    self: Any, output_split_sizes: Sequence[int] | None, input_split_sizes: Sequence[int] | None, group: Any, tag: str = ""
) -> Any:
    """Send the r-th part of the rows to rank r, and return the rows that the ranks send to this one.

    The split sizes are numbers of rows for each rank. The default is equal parts.
    """
    found = group_named("_functional_collectives.all_to_all_single", group)
    if found.size() == 1:
        return self.clone(memory_format=mt.contiguous_format)
    sent = check_splits("all_to_all_single", input_split_sizes, self, found.size(), "input")
    received = list(output_split_sizes) if output_split_sizes else sent
    even = not output_split_sizes and not input_split_sizes

    def start(tensor: Any) -> tuple[Any, Work | None]:
        result = _new(tensor, [sum(received), *tensor.shape[1:]])
        out, into = (None, None) if even else (received, sent)
        return result, _collectives.all_to_all_single(result, tensor.detach(), out, into, found, True)

    def gradient(grad: Any) -> Any:
        return all_to_all_single(grad, None, None, found) if even else all_to_all_single(grad, sent, received, found)

    return _apply(self, start, gradient)


@collective
def permute_tensor(self: Any, src_dst: Sequence[int], group: Any, tag: str = "") -> Any:
    """Send the tensor to rank ``src_dst[rank]`` of the group, and return the one that is sent to this rank.

    Raise ValueError unless ``src_dst`` is a permutation of the ranks of the group.
    """
    found = group_named("_functional_collectives.permute_tensor", group)
    targets = [int(rank) for rank in src_dst]
    if sorted(targets) != list(range(found.size())):
        ranks = "the only rank in the group is 0" if found.size() == 1 else f"the ranks in the group are 0 to {found.size() - 1}"
        raise ValueError(f"permute_tensor: {ranks}, got {targets}")
    if found.size() == 1:
        return self.clone(memory_format=mt.contiguous_format)
    sources = [targets.index(rank) for rank in range(found.size())]
    return _apply(self, lambda tensor: _permuted(tensor, targets, sources, found), lambda grad: permute_tensor(grad, sources, found))


def _permuted(tensor: Any, targets: list[int], sources: list[int], group: ProcessGroup) -> tuple[Any, Work | None]:
    target, source = targets[group._rank], sources[group._rank]
    given, result = tensor.detach(), _new(tensor, tensor.shape)
    if target == group._rank:
        return result.copy_(given), None
    works = batch_isend_irecv([
        P2POp(irecv, result, group=group, group_peer=source), P2POp(isend, given, group=group, group_peer=target),
    ])  # fmt: skip
    return result, PendingWork(works)


def wait_tensor(tensor: Any) -> Any:
    """Wait for a collective and return its result. Other tensors are returned unchanged."""
    return _waited(tensor)


# Several tensors, and the names of the variants -----------------------------------------------------------------------


def all_reduce_coalesced(self: Sequence[Any], reduceOp: Any, group: Any, tag: str = "") -> list[Any]:
    """Return `all_reduce` of each tensor."""
    return [all_reduce(one, reduceOp, group, tag) for one in self]


def all_gather_into_tensor_coalesced(self: Sequence[Any], group: Any, tag: str = "") -> list[Any]:
    """Return `all_gather_tensor` along the first dimension of each tensor."""
    return [all_gather_tensor(one, 0, group, tag) for one in self]


def reduce_scatter_tensor_coalesced(
    inputs: Sequence[Any], reduceOp: Any, scatter_dim: Sequence[int], group: Any, tag: str = ""
) -> list[Any]:
    """Return `reduce_scatter_tensor` of each tensor, along the dimension with the same index in ``scatter_dim``."""
    return [reduce_scatter_tensor(one, reduceOp, dim, group, tag) for one, dim in zip(inputs, scatter_dim)]


all_to_all_single_autograd = all_to_all_single
all_gather_single = all_gather_single_autograd = all_gather_tensor_autograd = all_gather_tensor
all_gather_single_coalesced = all_gather_into_tensor_coalesced
reduce_scatter_single = reduce_scatter_single_autograd = reduce_scatter_tensor_autograd = reduce_scatter_tensor
reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced
