"""`FSDPModule`: the methods of a module to which `fully_shard` was applied."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from metatensor.distributed._group import new_group
from metatensor.distributed.fsdp._group import ParameterGroup, Phase
from metatensor.distributed.fsdp._state import ModuleState, state_of

__all__ = ["FSDPModule", "UnshardHandle"]


class UnshardHandle:
    """The handle of parameters that are being gathered."""

    def __init__(self, groups: Iterable[ParameterGroup]) -> None:
        self._groups = list(groups)

    def wait(self) -> None:
        """Wait until the module has its whole parameters."""
        for group in self._groups:
            group.wait_for_unshard()
        self._groups = []


class FSDPModule:
    """Base of the classes of modules to which `fully_shard` was applied."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Create a module of the class that the module had before, as containers do when they are sliced."""
        plain: Any = cls.__mro__[2]
        made = plain.__new__(plain)
        made.__init__(*args, **kwargs)
        return made

    def _get_fsdp_state(self) -> ModuleState:
        state = state_of(self)
        assert state is not None
        return state

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        state = self._get_fsdp_state()
        self.reshard()
        result = super()._apply(*args, **kwargs)  # type: ignore[misc]
        for group in state.groups:
            group.find_parameters()
        return result

    # Gathering ----------------------------------------------------------------------

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Gather the parameters of the module's group, without those of submodules that form groups.

        With ``async_op``, return a handle; the next forward pass waits for it too.
        """
        groups = self._get_fsdp_state().groups
        for group in groups:
            group.prepare()
            group.unshard()
        handle = UnshardHandle(groups)
        if async_op:
            return handle
        handle.wait()
        return None

    def reshard(self) -> None:
        """Free the whole parameters of the module's group. The module has its shards again."""
        for group in self._get_fsdp_state().groups:
            with group.in_phase(Phase.IDLE):
                group.reshard()

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Set whether whole parameters are freed after forward passes. Raise ValueError unless it is a bool."""
        if not isinstance(reshard_after_forward, bool):
            raise ValueError(f"set_reshard_after_forward: expected a bool, got {reshard_after_forward!r}")
        for state in self._states(recurse):
            state.automatic = False
            for group in state.groups:
                group.set_reshard_after_forward(reshard_after_forward)

    def set_reshard_after_backward(self, reshard_after_backward: bool, *, recurse: bool = True) -> None:
        """Set whether whole parameters are freed after backward passes.

        If they are not freed, the next forward pass does not gather them. This is useful when gradients are accumulated.
        """
        for group in self._groups(recurse):
            group.reshards_after_backward = reshard_after_backward

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Set whether backward passes gather the parameters. Embeddings do not need this."""
        for group in self._groups(False):
            group.unshards_in_backward = unshard_in_backward

    def set_modules_to_forward_prefetch(self, modules: list[FSDPModule]) -> None:
        """Set the modules whose parameters are gathered as soon as those of this module have arrived, in forward passes."""
        self._get_fsdp_state().forward_prefetch = _states_of("set_modules_to_forward_prefetch", modules)

    def set_modules_to_backward_prefetch(self, modules: list[FSDPModule]) -> None:
        """Set the modules whose parameters are gathered as soon as those of this module have arrived, in backward passes.

        The default is the module that ran before this one in the forward pass.
        """
        self._get_fsdp_state().backward_prefetch = _states_of("set_modules_to_backward_prefetch", modules)

    # Reducing -----------------------------------------------------------------------

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Set whether backward passes reduce gradients. If not, each rank accumulates those of whole parameters."""
        for group in self._groups(recurse):
            group.reduces = group.reduces_replicas = requires_gradient_sync

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Set whether gradients are reduced over replicas. If not, those of shards are accumulated."""
        for group in self._groups(recurse):
            group.reduces_replicas = requires_all_reduce

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Set whether the next backward pass is the last one for the forward passes that have run. If not, more may follow."""
        self._get_fsdp_state().iteration.is_last_backward = is_last_backward

    def set_gradient_divide_factor(self, factor: float) -> None:
        """Set the number by which sums of gradients are divided, in place of the number of ranks."""
        for group in self._groups(False):
            group.divide_factor = factor

    def set_reduce_scatter_divide_factor(self, factor: float) -> None:
        """Call `set_gradient_divide_factor`, its newer name."""
        self.set_gradient_divide_factor(factor)

    def set_force_sum_reduction_for_comms(self, enable: bool) -> None:
        """Set whether gradients are reduced by sums only, and divided by operators."""
        for group in self._groups(False):
            group.only_sums = enable

    def set_reduce_scatter_unused_params(self, reduce_scatter_unused_params: bool, *, recurse: bool = True) -> None:
        """Set whether parameters without a gradient are reduced too, as zeros, because other ranks may have used them."""
        for group in self._groups(recurse):
            group.reduces_unused = reduce_scatter_unused_params

    def set_reduce_scatter_max_input_buffers(self, max_input_buffers: int, *, recurse: bool = True) -> None:
        """Set how many groups may be reducing gradients while another one copies its gradients. Default 1.

        Raise TypeError unless it is an int, and ValueError unless it is positive.
        """
        if not isinstance(max_input_buffers, int):
            raise TypeError(f"set_reduce_scatter_max_input_buffers: expected an int, got {type(max_input_buffers).__name__}")
        if max_input_buffers < 1:
            raise ValueError(f"set_reduce_scatter_max_input_buffers: expected a positive number, got {max_input_buffers}")
        for state in self._states(recurse):
            state.communication.buffers = max_input_buffers

    def set_separate_reduce_scatter_group(self, enable: bool = True, *, recurse: bool = True) -> None:
        """Set whether reductions have a process group of their own, so that they and gathering do not wait for each other."""
        made: dict[tuple[int, ...], Any] = {}
        for group in self._groups(recurse):
            ranks = group.meshes.shard_group.ranks
            if enable and ranks not in made:
                made[ranks] = group.reduce_group or new_group(list(ranks), use_local_synchronization=True, group_desc="fsdp_reduce_scatter")
            group.reduce_group = made[ranks] if enable else None

    def set_all_reduce_hook(self, hook: Callable[[Any], None], *, stream: Any = None) -> None:
        """Call ``hook(tensor)`` with each reduced flat tensor of gradients, before it is divided into parts.

        Raise ValueError if the module has several groups, or replicas and a stream.
        """
        groups = self._get_fsdp_state().groups
        if len(groups) > 1:
            raise ValueError(f"set_all_reduce_hook: the module has {len(groups)} groups of parameters, on different meshes")
        for group in groups:
            if stream is not None and group.meshes.replica_group is not None:
                raise ValueError("set_all_reduce_hook: stream cannot be given for a mesh of two dimensions")
            group.hook = hook

    def set_custom_all_gather(self, comm: Any) -> None:
        """Raise NotImplementedError: communicators are plugins."""
        raise NotImplementedError("set_custom_all_gather: write a communicator instead (docs/writing-a-communicator.md)")

    def set_custom_reduce_scatter(self, comm: Any) -> None:
        """Raise NotImplementedError: communicators are plugins."""
        raise NotImplementedError("set_custom_reduce_scatter: write a communicator instead (docs/writing-a-communicator.md)")

    def set_allocate_memory_from_process_group_for_comm(self, enable: bool) -> None:
        """Do nothing: communicators do not allocate memory."""

    def set_symm_mem_for_comm(self, backend: str = "NCCL") -> None:
        """Do nothing: communicators do not allocate memory."""

    def set_post_optim_event(self, event: Any) -> None:
        """Do nothing: gathering waits for the optimizer."""

    def _set_unshard_async_op(self, async_op: bool) -> None:
        """Do nothing: gathering is always asynchronous."""

    def reset_iter_state(self) -> None:
        """Free whole parameters and forget gradients after a pass that raised an error, so that another one can run.

        Raise RuntimeError unless the module is the root.
        """
        self._get_fsdp_state().reset()

    # ------------------------------------------------------------------------------------

    def _states(self, recurse: bool) -> Iterator[ModuleState]:
        seen: set[int] = set()  # modules and states
        pending: list[Any] = [self]
        while pending:  # as `modules` does, but without names, for a pipeline calls this for each microbatch
            module = pending.pop()
            if id(module) in seen:
                continue
            state = state_of(module)
            if state is not None and id(state) not in seen:
                yield state
            seen.update((id(module), id(state)))
            if recurse:
                pending += [child for child in reversed(module._modules.values()) if child is not None]

    def _groups(self, recurse: bool) -> Iterator[ParameterGroup]:
        for state in self._states(recurse):
            yield from state.groups


def _states_of(name: str, modules: Iterable[Any]) -> list[ModuleState]:
    given = list(modules)
    for one in given:
        if not isinstance(one, FSDPModule):
            raise ValueError(f"{name}: expected modules to which fully_shard was applied, got a {type(one).__name__}")
    return [one._get_fsdp_state() for one in given]
