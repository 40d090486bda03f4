"""How the gradients of a group of parameters are reduced, scattered and stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import metatensor as mt
from metatensor._core.attribution import Collective
from metatensor._core.methods import hooks_after_accumulation
from metatensor.distributed import _collectives
from metatensor.distributed._reduce_op import ReduceOp
from metatensor.distributed._running import place_of
from metatensor.distributed._single import NoData
from metatensor.distributed.fsdp._parameter import ShardedParameter

if TYPE_CHECKING:
    from metatensor.distributed.fsdp._group import ParameterGroup

__all__ = ["Reduction", "reduce"]


class Reduction:
    """A reduction that is running.

    Parameters
    ----------
    group : ParameterGroup
        The group.
    parameters : list of ShardedParameter
        The parameters that have gradients.
    sent, received : Tensor
        The flat tensors.
    handle : Work or None
        What to wait for.
    divisor : float or None
        The number by which the result is divided.
    """

    def __init__(
        self, group: ParameterGroup, parameters: list[ShardedParameter], sent: Any, received: Any, handle: Any, divisor: float | None
    ) -> None:
        self._group, self._parameters, self._sent, self._received = group, parameters, sent, received
        self._handle, self._divisor = handle, divisor

    def finish(self) -> None:
        """Wait, store the gradients of the shards, and free the flat tensor that was sent."""
        if self._handle is not None:
            self._handle.wait()
        self.store()
        self._sent = None

    def store(self) -> None:
        """Store the gradients of the shards, which are parts of one flat tensor, once the reduction has completed."""
        self._handle = None
        if self._received is None:
            return
        with mt.no_grad():
            if self._group.hook is not None:
                self._group.hook(self._received)
            if self._divisor not in (None, 1):
                self._received.div_(self._divisor)
            flat, self._received = self._received, None
            flat = flat.to(self._parameters[0].dtype)
            start = 0
            for one in self._parameters:
                shape = one.sharded._local_tensor.shape
                size = shape.numel()
                self._store(one, flat[start : start + size].view(shape))
                start += one.padded_numel()

    def _store(self, one: ShardedParameter, part: Any) -> None:
        if one.offload and part.device.type != "meta":
            part = part.to("cpu")
        if one.sharded.grad is None:
            one.sharded.grad = one.gradient_of_shard(part)
        else:
            one.sharded.grad._local_tensor.add_(part)
        for hook in hooks_after_accumulation(one.sharded):
            hook(one.sharded)


def reduce(group: ParameterGroup, found: list[tuple[ShardedParameter, Any]]) -> Reduction | None:
    """Begin to reduce gradients. Empty ``found``, the parameters and their gradients.

    Return None if gradients of replicas are to be accumulated and not reduced.
    """
    parameters = [one for one, _ in found]
    kinds = {grad.dtype for _, grad in found}
    if len(kinds) > 1:
        raise AssertionError(
            f"fully_shard: the gradients of a group must have one dtype, got {', '.join(sorted(map(str, kinds)))} in the group of "
            f"{parameters[0].name}"
        )
    dtype = group.policy.reduce_dtype or kinds.pop()
    shards, replicas = group.meshes.shard_group, group.meshes.replica_group
    count = shards.size()
    before, after, op, op_of_replicas = _division(
        count, None if replicas is None else replicas.size(), dtype, group.divide_factor, group.only_sums
    )
    size = sum(one.padded_numel() for one in parameters)
    with mt.no_grad():
        with Collective():
            sent = mt.empty(count * size, dtype=dtype, device=group.device)
            _copy(sent.view(count, size) if size else sent, found)
            if before not in (None, 1):
                sent.div_(before)
        received = mt.empty(size, dtype=dtype, device=group.device)
        if count == 1:
            received.copy_(sent)
            handle = None
        else:
            handle = _collectives.reduce_scatter_tensor(received, sent, op, group.reduce_group or shards, True)
        if replicas is not None:
            if handle is not None:
                handle.wait()
            if group.partial is not None:
                received += group.partial
                group.partial = None
            if not group.reduces_replicas:
                group.partial = received
                return None
            handle = _collectives.all_reduce(received, op_of_replicas, replicas, True)
    made = Reduction(group, parameters, sent, received, handle, after)
    if handle is None or isinstance((replicas or shards).communicator(place_of(sent)), NoData):
        made.store()  # there is nothing to wait for
    return made


def _copy(rows: Any, found: list[tuple[ShardedParameter, Any]]) -> None:
    """Copy gradients, shard by shard, to the rows of a tensor, and free them."""
    count, start = rows.shape[0], 0
    while found:
        one, grad = found.pop(0)
        size = one.padded_numel()
        target = rows.narrow(1, start, size) if size else None
        start += size
        if target is None:
            continue
        if one.dim:
            for row, part in zip(target.unbind(0), grad.chunk(count, one.dim)):
                row.view(part.shape).copy_(part)
            continue
        flat = grad.reshape(-1)
        whole = flat.numel() // size
        target[:whole].copy_(flat[: whole * size].view(whole, size))
        if whole < count:
            rest = flat.numel() - whole * size
            target[whole, :rest].copy_(flat[whole * size :])
            target[whole, rest:].zero_()
            target[whole + 1 :].zero_()
        del grad, flat


def _division(
    shards: int, replicas: int | None, dtype: Any, factor: float | None, only_sums: bool
) -> tuple[float | None, float | None, ReduceOp, ReduceOp]:
    """Return the divisors to apply before and after the reduction, and the reductions over shards and over replicas.

    If values could overflow, a part of the division comes before the reduction.
    """
    total = shards * (replicas or 1)
    wide = dtype in (mt.float32, mt.bfloat16)
    if wide and not only_sums:
        if factor is None:
            op = ReduceOp.SUM if total == 1 else ReduceOp.AVG
            return None, None, op, op
        if factor == shards:
            return None, None, ReduceOp.AVG, ReduceOp.SUM
        return factor, None, ReduceOp.SUM, ReduceOp.SUM
    divisor = float(total) if factor is None else factor
    if wide:
        return None, divisor, ReduceOp.SUM, ReduceOp.SUM
    first = 1
    while divisor % first == 0 and divisor / first > first:
        first *= 2
    return first, divisor / first, ReduceOp.SUM, ReduceOp.SUM


