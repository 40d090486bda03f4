"""Averaging of gradients over the ranks of a group during the backward pass, in buckets. `DistributedDataParallel` uses it.

Buckets are those of PyTorch. In the first backward pass each dtype has one bucket. Later the parameters are divided in the
order in which their gradients became ready, into a bucket of 1 MiB and others of 25 MiB. With ``find_unused_parameters`` the
buckets are in the reverse order of the parameters, from the start. A bucket is reduced when all of its gradients and all
buckets before it are ready.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import metatensor as mt
from metatensor._core.attribution import Collective
from metatensor._core.nested import map_tensors
from metatensor.distributed import _collectives
from metatensor.distributed._group import ProcessGroup, the_group
from metatensor.distributed._reduce_op import ReduceOp
from metatensor.distributed._running import place_of
from metatensor.distributed._single import NoData

__all__ = ["GradBucket", "Reducer", "broadcast_coalesced", "buckets_of_size", "check_same_parameters"]

FIRST_BUCKET = 1 << 20
"""Size limit of the first bucket in bytes. It is small, so that communication begins early."""
BROADCAST_BUCKET = 250 << 20
"""Size limit of the flat tensors of `broadcast_coalesced` in bytes."""


def _nbytes(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())


def buckets_of_size(tensors: Sequence[Any], limits: Sequence[int], in_order: bool = False) -> list[list[int]]:
    """Divide tensors into buckets of one dtype and device. Return the indices of each bucket.

    A bucket is full as soon as it has reached its limit in bytes. The k-th bucket of a dtype and device has the k-th limit, or
    the last one. Buckets are ordered by their first index, or, with ``in_order``, in the order in which they become full.
    """
    full: list[list[int]] = []
    open_buckets: dict[Any, tuple[list[int], int]] = {}
    reached: dict[Any, int] = {}
    for index, tensor in enumerate(tensors):
        key = tensor.dtype, tensor.device
        indices, size = open_buckets.get(key, ([], 0))
        indices.append(index)
        size += _nbytes(tensor)
        number = reached.get(key, 0)
        if size >= limits[min(number, len(limits) - 1)]:
            full.append(indices)
            reached[key] = number + 1
            open_buckets.pop(key, None)
        else:
            open_buckets[key] = indices, size
    full += [indices for indices, _ in open_buckets.values()]
    return full if in_order else sorted(full, key=min)


def broadcast_coalesced(tensors: Iterable[Any], group: ProcessGroup, root: int = 0) -> None:
    """Copy tensors of rank ``root`` of the group to all ranks, several of them at a time."""
    given = list(tensors)
    if not given:
        return
    with Collective(), mt.no_grad():
        for indices in buckets_of_size(given, [BROADCAST_BUCKET]):
            chosen = [given[index] for index in indices]
            flat = mt.cat([one.detach().reshape(-1) for one in chosen])
            _collectives.broadcast(flat, group=group, group_src=root)
            if group._rank != root:
                for one, part in zip(chosen, flat.split([one.numel() for one in chosen])):
                    one.detach().copy_(part.view(one.shape))


def check_same_parameters(parameters: Sequence[Any], group: ProcessGroup) -> None:
    """Raise RuntimeError unless the parameters have the same shapes and dtypes on all ranks."""
    if group.size() == 1 or isinstance(group.communicator(place_of(parameters[0])), NoData):
        return
    from metatensor.distributed._objects import all_gather_object

    mine = [(tuple(one.shape), str(one.dtype)) for one in parameters]
    found: list[Any] = [None] * group.size()
    all_gather_object(found, mine, group)
    for rank, other in enumerate(found):
        if other != found[0]:
            different = next((i for i, (a, b) in enumerate(zip(found[0], other)) if a != b), min(len(found[0]), len(other)))
            here, there = (values[different] if different < len(values) else "missing" for values in (found[0], other))
            raise RuntimeError(
                f"DistributedDataParallel: the modules of ranks {group.ranks[0]} and {group.ranks[rank]} differ: parameter {different} "
                f"is {here} on the first, {there} on the second"
            )


class GradBucket:
    """A bucket, as communication hooks receive it."""

    def __init__(self, index: int, buffer: Any, parameters: list[Any], last: bool) -> None:
        self._index, self._buffer, self._parameters, self._last = index, buffer, parameters, last

    def index(self) -> int:
        """Return the number of the bucket. Bucket 0 is reduced first."""
        return self._index

    def buffer(self) -> Any:
        """Return the flat tensor with the gradients."""
        return self._buffer

    def set_buffer(self, buffer: Any) -> None:
        """Replace the flat tensor."""
        self._buffer = buffer

    def gradients(self) -> list[Any]:
        """Return the gradients as parts of the flat tensor."""
        parts = self._buffer.split([one.numel() for one in self._parameters])
        return [part.view(one.shape) for part, one in zip(parts, self._parameters)]

    def parameters(self) -> list[Any]:
        """Return the parameters."""
        return self._parameters

    def is_last(self) -> bool:
        """Return True if no bucket follows."""
        return self._last


class _Bucket:
    def __init__(self, indices: list[int]) -> None:
        self.indices = indices
        self.pending = len(indices)
        self.handle: Any = None
        self.flat: Any = None


class Reducer:
    """Averages the gradients of parameters over a group.

    Parameters
    ----------
    parameters : list of (str, Parameter)
        The parameters that require grad, in the order of the module.
    group : ProcessGroup
        The group.
    bucket_bytes : int
        Size limit of the buckets.
    first_bucket_bytes : int
        Size limit of the first bucket.
    find_unused : bool
        Whether some parameters may not take part in the loss.
    """

    def __init__(
        self, parameters: list[tuple[str, Any]], group: Any, bucket_bytes: int, first_bucket_bytes: int, find_unused: bool
    ) -> None:
        self.names = [name for name, _ in parameters]
        self.parameters = [parameter for _, parameter in parameters]
        self.group, self.find_unused = the_group(group), find_unused
        self.limits = [first_bucket_bytes, bucket_bytes] if first_bucket_bytes < bucket_bytes else [bucket_bytes]
        self.hook: Callable[[Any, GradBucket], Any] | None = None
        self.hook_state: Any = None
        limits = self.limits if find_unused else [2**62]
        self.bucket_indices = list(reversed(buckets_of_size(self.parameters, limits)))
        self._ready_order: list[int] | None = None if find_unused else []
        self._buckets: list[_Bucket] = []
        self._used = [False] * len(self.parameters)
        self._place: dict[int, _Bucket] = {}
        self._next = 0
        self._active = self._finished = False
        for index, parameter in enumerate(self.parameters):
            parameter.register_post_accumulate_grad_hook(lambda _, index=index: self._ready(index))

    def prepare(self, outputs: Any) -> None:
        """Expect a backward pass from ``outputs``, tensors in nested containers.

        Raise RuntimeError if the last one did not compute all gradients.
        """
        if self._active and not self._finished:
            lacking = [name for bucket in self._buckets for name in self._lacking(bucket)]
            raise RuntimeError(
                "DistributedDataParallel: the last backward pass did not compute the gradients of all parameters: "
                f"{', '.join(lacking[:8])}{', ...' if len(lacking) > 8 else ''} had none. Make sure that all outputs take part in the "
                "loss, or pass find_unused_parameters=True"
            )
        if self._ready_order and len(self._ready_order) == len(self.parameters):
            order, self._ready_order = self._ready_order, None
            found = buckets_of_size([self.parameters[index] for index in order], self.limits, in_order=True)
            self.bucket_indices = [[order[index] for index in indices] for indices in found]
        self._buckets = [_Bucket(indices) for indices in self.bucket_indices]
        self._place = {index: bucket for bucket in self._buckets for index in bucket.indices}
        self._got = [False] * len(self.parameters)
        self._used = [False] * len(self.parameters)
        self._next, self._active, self._finished = 0, True, False
        if self.find_unused:
            reached = _leaves_of(outputs)
            for index, parameter in enumerate(self.parameters):
                if id(parameter) not in reached:
                    self._mark(index)

    def cancel(self) -> None:
        """Do not reduce what backward passes compute until the next `prepare`."""
        self._active = False

    def _lacking(self, bucket: _Bucket) -> list[str]:
        return [self.names[index] for index in bucket.indices if not self._got[index]]

    def _ready(self, index: int) -> None:
        """A gradient has been accumulated."""
        if not self._active:
            return
        if self._finished or self._got[index]:
            raise RuntimeError(
                f"DistributedDataParallel: the gradient of {self.names[index]} was computed a second time after one call of the module; "
                "use no_sync() for backward passes whose gradients are reduced later"
            )
        if self._ready_order is not None:
            self._ready_order.append(index)
        self._used[index] = True
        self._mark(index)

    def _mark(self, index: int) -> None:
        self._got[index] = True
        self._place[index].pending -= 1
        while self._next < len(self._buckets) and self._buckets[self._next].pending == 0:
            self._reduce(self._next)
            self._next += 1
        if self._next == len(self._buckets):
            self._finish()

    def _reduce(self, number: int) -> None:
        """Begin to reduce a bucket."""
        bucket = self._buckets[number]
        chosen = [self.parameters[index] for index in bucket.indices]
        size = self.group.size()
        with Collective(), mt.no_grad():
            parts = []
            for one in chosen:
                grad = one.grad
                if grad is not None and grad.layout != mt.strided:
                    raise NotImplementedError("DistributedDataParallel: sparse gradients are not reduced")
                parts.append(one.new_zeros(one.numel()) if grad is None else grad.detach().reshape(-1).to(one.dtype))
            bucket.flat = mt.cat(parts) if len(parts) > 1 else parts[0].clone()
            if self.hook is None:
                bucket.flat.div_(size)
        if self.hook is None:
            bucket.handle = _collectives.all_reduce(bucket.flat, ReduceOp.SUM, self.group, True)
        else:
            bucket.handle = self.hook(self.hook_state, GradBucket(number, bucket.flat, chosen, number == len(self._buckets) - 1))

    def _finish(self) -> None:
        """Wait for all buckets and store the averaged gradients."""
        self._finished = True
        used = self._used_anywhere()
        for bucket in self._buckets:
            found = bucket.handle.wait()
            flat = bucket.flat if self.hook is None else found
            flat = flat[0] if isinstance(flat, (list, tuple)) else flat
            with mt.no_grad():
                start = 0
                for index in bucket.indices:
                    parameter = self.parameters[index]
                    part = flat[start : start + parameter.numel()].view(parameter.shape)
                    start += parameter.numel()
                    if parameter.grad is not None:
                        parameter.grad.copy_(part)
                    elif used[index]:
                        parameter.grad = part.clone()
            bucket.flat = bucket.handle = None

    def _used_anywhere(self) -> Sequence[Any]:
        """Return for each parameter whether any rank used it."""
        if not self.find_unused:
            return self._used
        place = self.parameters[0].device
        counts = mt.tensor([int(used) for used in self._used], dtype=mt.int32, device=place)
        _collectives.all_reduce(counts, ReduceOp.SUM, self.group)
        return self._used if place_of(counts) == "meta" else counts.tolist()


def _leaves_of(outputs: Any) -> set[int]:
    """Return the ids of the leaves that tensors in nested containers depend on."""
    pending: list[Any] = []
    found: set[int] = set()

    def note(tensor: Any) -> Any:
        if tensor.grad_fn is not None:
            pending.append(tensor.grad_fn)
        elif tensor.requires_grad:
            found.add(id(tensor))
        return tensor

    map_tensors(note, outputs)
    seen = set(pending)
    while pending:
        node = pending.pop()
        variable = getattr(node, "variable", None)
        if variable is not None:
            found.add(id(variable))
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                pending.append(following)
    return found
