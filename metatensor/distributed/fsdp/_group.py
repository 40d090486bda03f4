"""A group of parameters that `fully_shard` gathers in one collective, and whose gradients it reduces in one."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import metatensor as mt
from metatensor._core.attribution import Collective
from metatensor.distributed import _collectives
from metatensor.distributed.communication_log import ahead_of_operators
from metatensor.distributed.fsdp._meshes import DataParallel, smaller
from metatensor.distributed.fsdp._parameter import ShardedParameter
from metatensor.distributed.fsdp._reduction import Reduction, reduce
from metatensor.distributed.work import Work

__all__ = ["Communication", "ParameterGroup", "Phase"]


class Phase(enum.Enum):
    """What a group or a module is doing."""

    IDLE = enum.auto()
    FORWARD = enum.auto()
    PRE_BACKWARD = enum.auto()
    POST_BACKWARD = enum.auto()


class Communication:
    """What the groups of a model share: the buffers of the last collectives, and the order of the forward pass."""

    def __init__(self) -> None:
        self.gathered: Any = None
        """The flat tensor of the last group that was gathered in the forward pass. It is kept until the next group has been gathered,
        because PyTorch may still be copying from it then."""
        self.reductions: list[Reduction] = []
        """The reductions that are running."""
        self.buffers = 1
        """How many of them may be running when another begins to copy its gradients."""
        self.order: list[ParameterGroup] = []
        """The groups in the order in which their forward passes ended."""

    def finish_reductions(self, keep: int = 0) -> None:
        """Wait for all reductions but the last ``keep``, and store the gradients."""
        while len(self.reductions) > keep:
            self.reductions.pop(0).finish()


class _Gathering:
    """An all-gather that is running: its flat tensor, its handle, and the number of ranks."""

    def __init__(self, flat: Any, work: Work | None, count: int) -> None:
        self.flat, self.work, self.count = flat, work, count


class ParameterGroup:
    """Parameters that are gathered and freed together.

    Parameters
    ----------
    parameters : list of ShardedParameter
        The parameters.
    modules : tuple of Module
        The modules that run with them.
    meshes : DataParallel
        The mesh over which they are sharded.
    device : device
        Where the modules run.
    policy : MixedPrecisionPolicy
        The dtypes.
    reshard_after_forward : bool or int
        Whether they are freed after the forward pass. A number N shards them over N ranks instead until the backward pass.
    """

    def __init__(
        self, parameters: list[ShardedParameter], modules: tuple[Any, ...], meshes: DataParallel, device: Any, policy: Any,
        reshard_after_forward: bool | int,
    ) -> None:  # fmt: skip
        self.parameters, self.modules, self.meshes, self.device, self.policy = parameters, modules, meshes, device, policy
        self.set_reshard_after_forward(reshard_after_forward)
        self.communication = Communication()
        self.phase = Phase.IDLE
        self.unsharded = False
        self.index, self.siblings = 0, 1
        """The number of the group among those of its modules, and how many there are."""
        self.reduces = self.reduces_replicas = self.reshards_after_backward = self.unshards_in_backward = True
        self.reduces_unused = self.only_sums = False
        self.divide_factor: float | None = None
        self.hook: Any = None
        """Called with the reduced flat tensor, or None."""
        self.reduce_group: Any = None
        """The group for reducing, if not the one for gathering."""
        self.partial: Any = None
        """Gradients that were reduced over shards, but not over replicas, or None."""
        self.positions: list[int] = []
        """The places of the group in `Communication.order`."""
        self._gathering: _Gathering | None = None
        self._found = False

    def set_reshard_after_forward(self, value: bool | int) -> None:
        """Set whether the parameters are freed after the forward pass."""
        if not isinstance(value, (bool, int)):
            raise ValueError(f"fully_shard: reshard_after_forward must be a bool or an int, got {value!r}")
        self.reshards_after_forward = bool(value) if isinstance(value, bool) else True
        self.after_forward: DataParallel | None = None
        if not isinstance(value, bool):
            made = smaller(self.meshes, value)
            if value == 1:
                self.reshards_after_forward = False
            elif value != self.meshes.shard_count:
                self.after_forward = made

    def prepare(self) -> None:
        """Check the parameters before the first forward pass. They may have been replaced since `fully_shard`."""
        if not self._found:
            self.find_parameters()
            self._found = True
        deferred = [one.sharded._local_tensor for one in self.parameters if mt.is_deferred(one.sharded._local_tensor)]
        if deferred:
            mt.materialize(deferred)
        lacking = [one.name for one in self.parameters if one.sharded.is_meta] if self.device.type != "meta" else []
        if lacking:
            raise RuntimeError(
                f"fully_shard: these parameters are on meta: {', '.join(lacking)}. Give them memory and values before training: "
                "model.to_empty(device=...) and an initialization, or metatensor.load_into"
            )
        away = [f"{one.name} on {one.sharded._local_tensor.device}" for one in self.parameters
                if one.offload and one.sharded._local_tensor.device.type not in ("cpu", "meta")]  # fmt: skip
        if away:
            raise RuntimeError(f"fully_shard: with CPUOffloadPolicy parameters must be on the cpu, but these are not: {', '.join(away)}")
        trained = {one.dtype for one in self.parameters if one.requires_grad}
        if len(trained) > 1:
            raise AssertionError(
                f"fully_shard: the parameters of a group that require grad must have one dtype, got {', '.join(sorted(map(str, trained)))} "
                f"in the group of {self.parameters[0].name}"
            )

    def find_parameters(self) -> None:
        """Take the parameters that the modules have now."""
        for one in self.parameters:
            one.find()

    # Gathering ----------------------------------------------------------------------

    def unshard(self) -> None:
        """Begin to gather the parameters, unless they are there or on their way."""
        if self.unsharded or self._gathering is not None:
            return
        if self.phase is Phase.PRE_BACKWARD and not self.unshards_in_backward:
            return
        smaller_shards = self.parameters[0].post_forward is not None
        meshes = self.after_forward if smaller_shards and self.after_forward is not None else self.meshes
        group, count = meshes.shard_group, meshes.shard_count
        kinds = {one.whole_dtype for one in self.parameters}
        dtype = kinds.pop() if len(kinds) == 1 else mt.uint8
        sizes = self._sizes(dtype, count)
        with Collective(), mt.no_grad():
            flat = mt.empty(count * sum(sizes), dtype=dtype, device=self.device)
            mine = flat.narrow(0, group._rank * sum(sizes), sum(sizes))
            start = 0
            for one, size in zip(self.parameters, sizes):
                local = one.local.reshape(-1)
                if dtype == mt.uint8:
                    local = local.to(one.whole_dtype).view(mt.uint8)
                mine.narrow(0, start, local.numel()).copy_(local)
                start += size
        work = None
        if count > 1:
            with ahead_of_operators():
                work = _collectives.all_gather_into_tensor(flat, mine, group, True)
        self._gathering = _Gathering(flat, work, count)

    def _sizes(self, dtype: Any, count: int) -> list[int]:
        """Return the number of elements of ``dtype`` that each rank sends for each parameter."""
        return [one.padded_numel(count) * one.whole_dtype.itemsize // dtype.itemsize for one in self.parameters]

    def wait_for_unshard(self) -> None:
        """Wait for the parameters that `unshard` began to gather, and give them to the modules."""
        gathering, self._gathering = self._gathering, None
        if gathering is None:
            return
        if gathering.work is not None:
            gathering.work.wait()
        with mt.no_grad():
            rows = gathering.flat.view(gathering.count, -1) if gathering.flat.numel() else gathering.flat.new_empty(gathering.count, 0)
            start = 0
            for one, size in zip(self.parameters, self._sizes(rows.dtype, gathering.count)):
                one.fill(rows.narrow(1, start, size), gathering.count)
                start += size
        for one in self.parameters:
            one.post_forward = None
            one.register(one.whole)
        self.unsharded = True
        if self.phase is Phase.FORWARD:  # only now is the flat tensor of the group before freed, as in PyTorch
            self.communication.gathered = gathering.flat if gathering.count > 1 else None

    def reshard(self) -> None:
        """Free the whole parameters and give their shards to the modules."""
        if not self.unsharded:
            if self.phase is not Phase.FORWARD:
                self._drop_smaller()
            return
        if self.phase is Phase.FORWARD:
            if not self.reshards_after_forward:
                return
            if self.after_forward is not None:
                with mt.no_grad():
                    for one in self.parameters:
                        one.keep_part(self.after_forward)
        for one in self.parameters:
            one.free()
            one.register(one.sharded if one.post_forward is None else one.post_forward)
        self.unsharded = False

    def _drop_smaller(self) -> None:
        for one in self.parameters:
            if one.post_forward is not None:
                one.post_forward = None
                one.register(one.sharded)

    # Passes -----------------------------------------------------------------------------

    @contextmanager
    def in_phase(self, phase: Phase) -> Iterator[None]:
        """Context manager in which the group is in another phase."""
        before, self.phase = self.phase, phase
        try:
            yield
        finally:
            self.phase = before

    def prefetch(self, phase: Phase) -> None:
        """Begin to gather the parameters for the forward or the backward pass."""
        with self.in_phase(phase):
            self.unshard()

    def end_forward(self, recomputes: bool) -> None:
        """Free the parameters after a forward pass, unless the backward pass computes it again."""
        if not recomputes:
            self.reshard()
            self.positions.append(len(self.communication.order))
            self.communication.order.append(self)
        self.phase = Phase.IDLE

    def begin_backward(self, prefetch: bool) -> None:
        """Gather the parameters for a backward pass, and begin to gather those that are needed next."""
        if self.phase is Phase.PRE_BACKWARD:
            return
        self.phase = Phase.PRE_BACKWARD
        self.unshard()
        self.wait_for_unshard()
        if prefetch:
            self._prefetch_next()

    def _prefetch_next(self) -> None:
        """Gather what ran before this group in the forward pass."""
        if not self.positions:
            return
        place = self.positions.pop()
        order = self.communication.order
        if self.siblings == 1:
            if place > 0:
                order[place - 1].prefetch(Phase.PRE_BACKWARD)
        elif self.index == 1:  # of the groups of a module, this one is the last but one in the backward pass
            before = [one for one in reversed(order[:place]) if one.modules is not self.modules]
            for one in before:
                if one.modules is not before[0].modules:
                    break
                one.prefetch(Phase.PRE_BACKWARD)

    def end_backward(self) -> None:
        """Free the parameters after a backward pass, and begin to reduce their gradients."""
        self.phase = Phase.POST_BACKWARD
        for one in self.parameters:
            one.add_accumulated()
        if not self.reduces:
            if self.reshards_after_backward:
                self.reshard()
            for one in self.parameters:
                one.accumulate(self.policy.reduce_dtype)
            return
        found: list[tuple[ShardedParameter, Any]] = []
        for one in self.parameters:
            grad = one.take_gradient()
            if grad is None and self.reduces_unused and one.requires_grad and one.whole is not None:
                grad = mt.zeros(one.shape, dtype=one.whole_dtype, device=self.device)
            if grad is not None:
                found.append((one, grad))
            del grad
        if self.reshards_after_backward:
            self.reshard()
        if self.index == self.siblings - 1:
            self.communication.finish_reductions(self.communication.buffers - 1)
        if found:
            reduction = reduce(self, found)
            if reduction is not None:
                self.communication.reductions.append(reduction)

    def finish(self) -> None:
        """Forget what was prefetched for the backward pass and not used."""
        gathering, self._gathering = self._gathering, None
        if gathering is not None and gathering.work is not None:
            gathering.work.wait()
        self.positions.clear()

    def reset(self) -> None:
        """Forget the current pass, after an error."""
        self.finish()
        self.partial = None
        self.phase = Phase.IDLE
        for one in self.parameters:
            one.take_gradient()
        self.reshard()
