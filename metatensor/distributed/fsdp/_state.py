"""What `fully_shard` adds to calls of a module: parameters are gathered before them and freed afterwards."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import metatensor as mt
from metatensor._core.engine import current_walk, queue_callback
from metatensor._core.nested import map_tensors, tensors_in
from metatensor.distributed.fsdp._group import Communication, ParameterGroup, Phase

__all__ = ["ModuleState", "state_of"]


class _Iteration:
    """What the modules of a model share during a forward and a backward pass."""

    def __init__(self) -> None:
        self.states: list[ModuleState] = []
        """The states of the model, the root's first."""
        self.root: ModuleState | None = None
        """The state whose module was called first in the running forward pass."""
        self.is_last_backward = True
        self.queued = False
        """Whether the end of the backward pass will be noticed."""


class ModuleState:
    """The state of one or several modules that were passed to `fully_shard` together.

    Parameters
    ----------
    modules : tuple of Module
        The modules.
    groups : list of ParameterGroup
        Their parameters, in one group for each mesh.
    policy : MixedPrecisionPolicy
        The dtypes.
    automatic : bool
        Whether parameters are freed after the forward pass unless the modules are the root.
    """

    def __init__(self, modules: tuple[Any, ...], groups: list[ParameterGroup], policy: Any, automatic: bool) -> None:
        self.modules, self.groups, self.policy, self.automatic = modules, groups, policy, automatic
        self.iteration, self.communication = _Iteration(), Communication()
        self.phase = Phase.IDLE
        self.is_root: bool | None = None
        """None before the first forward pass, when the root is not known."""
        self.forward_prefetch: list[ModuleState] = []
        self.backward_prefetch: list[ModuleState] = []
        self._to_run: set[int] = set()
        """Of several modules, those that the forward pass has yet to call."""
        for module in modules:
            module.__dict__["_fsdp_state"] = self
            module.register_forward_pre_hook(self.before_forward, prepend=True, with_kwargs=True)
            module.register_forward_hook(self._after_forward)
        for module in {one[0] for group in groups for parameter in group.parameters for one in parameter.places}:
            module.register_state_dict_pre_hook(self.give_shards)
            module._register_load_state_dict_pre_hook(self.give_shards)

    def give_shards(self, *_: Any) -> None:
        """Let a module have its shards when its state is saved or loaded."""
        for group in self.groups:
            with group.in_phase(Phase.IDLE):
                group.reshard()

    # The first forward pass -------------------------------------------------------------

    def prepare(self) -> None:
        """Find out, before the first forward pass, which modules belong to the model of which this one is the root."""
        if self.is_root is not None:
            return
        if len(self.modules) > 1:
            raise RuntimeError(f"fully_shard: the root must be a single module, got {[type(one).__name__ for one in self.modules]}")
        self.is_root = True
        states: dict[int, ModuleState] = {}
        names: dict[int, str] = {}
        for name, module in self.modules[0].named_modules():
            state = state_of(module)
            if state is None:
                continue
            if state.is_root is not None and state is not self:
                raise RuntimeError(f"fully_shard: {name} was called before its root, the {type(self.modules[0]).__name__}")
            states.setdefault(id(state), state)
            names.setdefault(id(state), name)
        for state in states.values():
            if state is not self:
                state.is_root = False
        if self.automatic:
            for group in self.groups:
                group.set_reshard_after_forward(False)
        self.iteration.states = list(states.values())
        for name, parameter in self._parameters():
            if parameter.also is not None:
                raise ValueError(
                    f"fully_shard: the parameter {name} is also the parameter {parameter.also} of another group; pass the modules that "
                    "share it to fully_shard together, as a list"
                )
        for state in self.iteration.states:
            state.iteration = self.iteration
            state.share(self.communication)
            for index, group in enumerate(state.groups):
                group.index, group.siblings = index, len(state.groups)
        for state in self.iteration.states:
            for group in state.groups:
                group.prepare()

    def _parameters(self) -> Iterator[tuple[str, Any]]:
        for state in self.iteration.states:
            for group in state.groups:
                for parameter in group.parameters:
                    yield parameter.name, parameter

    def shards(self) -> list[Any]:
        """Return the shards of the modules' parameters, even while the modules have whole parameters."""
        return [one.sharded for group in self.groups for one in group.parameters]

    def share(self, communication: Communication) -> None:
        """Use the buffers of another state."""
        communication.buffers = max(communication.buffers, self.communication.buffers)
        self.communication = communication
        for group in self.groups:
            group.communication = communication

    # Forward ----------------------------------------------------------------------------

    def before_forward(self, module: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Gather the parameters, cast the inputs, and arrange for the end of the backward pass."""
        if self.phase is Phase.PRE_BACKWARD:  # the backward pass computes the forward pass again
            for group in self.groups:
                group.unshard()
                group.wait_for_unshard()
            return self._cast_inputs(args, kwargs)
        first = self.phase is not Phase.FORWARD
        self.phase = Phase.FORWARD
        if first:
            self.prepare()
            if self.iteration.root is None:
                self.iteration.root = self
            self._to_run = {id(one) for one in self.modules}
        args, kwargs = self._cast_inputs(args, kwargs)
        for group in self.groups:
            entering = group.phase is not Phase.FORWARD
            group.phase = Phase.FORWARD
            group.unshard()
            group.wait_for_unshard()
            if entering:
                args, kwargs = _with_end_of_backward(group, args, kwargs)
        if first:
            for state in self.forward_prefetch:
                for group in state.groups:
                    group.prefetch(Phase.FORWARD)
        return args, kwargs

    def _after_forward(self, module: Any, args: Any, output: Any) -> Any:
        return self.after_forward(module, output)

    def after_forward(self, module: Any, output: Any) -> Any:
        """Free the parameters, cast the outputs, and arrange for the beginning of the backward pass."""
        self._to_run.discard(id(module))
        if self.phase is Phase.PRE_BACKWARD or self._to_run:
            return self._cast_outputs(output)
        output = self._end_forward(output)
        if self.iteration.root is self:
            for state in reversed(self.iteration.states):
                if state._to_run and state is not self:  # not all of its modules were called
                    output = state._cast_outputs(state._end_forward(output))
            self.communication.gathered = None
            self.iteration.root = None
        return self._cast_outputs(output)

    def _end_forward(self, output: Any) -> Any:
        recomputes = current_walk() is not None
        for group in self.groups:
            group.end_forward(recomputes)
        if mt.is_grad_enabled():
            for tensor in list(tensors_in(output)):
                if tensor.requires_grad:
                    self._check_output(tensor)
                    tensor.register_hook(self._begin_backward)
        self._to_run = set()
        self.phase = Phase.IDLE
        return output

    def _check_output(self, tensor: Any) -> None:
        if tensor._base is not None:
            warnings.warn(
                f"fully_shard: a {type(self.modules[0]).__name__} returned a view of shape {list(tensor.shape)}. Do not change it in "
                "place: the backward pass would not notice that it has reached the module, and not gather its parameters. clone() it first",
                stacklevel=4,
            )

    def _cast_inputs(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        if self.policy.param_dtype is None or not self.policy.cast_forward_inputs:
            return args, kwargs
        return map_tensors(lambda tensor: _cast(tensor, self.policy.param_dtype), (args, kwargs))  # type: ignore[no-any-return]

    def _cast_outputs(self, output: Any) -> Any:
        dtype = self.policy.output_dtype
        return output if dtype is None else map_tensors(lambda tensor: _cast(tensor, dtype), output)

    # Backward ---------------------------------------------------------------------------

    def _begin_backward(self, grad: Any) -> None:
        """Gather the parameters when the gradient of an output of the module arrives."""
        self.phase = Phase.PRE_BACKWARD
        if not self.iteration.queued:
            self.iteration.queued = True
            queue_callback(self._end_backward)
        for group in self.groups:
            group.begin_backward(not self.backward_prefetch)
        for state in self.backward_prefetch:
            for group in reversed(state.groups):
                group.prefetch(Phase.PRE_BACKWARD)

    def _end_backward(self) -> None:
        """End the backward pass of groups whose inputs have no gradients, and store what is still being reduced."""
        iteration = self.iteration
        iteration.root, iteration.queued = None, False
        for state in iteration.states:
            state._to_run = set()
            for group in reversed(state.groups):
                if group.phase is not Phase.POST_BACKWARD:
                    group.end_backward()
                group.phase = Phase.IDLE
            state.phase = Phase.IDLE
        self.communication.finish_reductions()
        if iteration.is_last_backward:
            for state in iteration.states:
                for group in state.groups:
                    group.finish()
            self.communication.order.clear()

    def reset(self) -> None:
        """Forget the running passes, after an error."""
        if self.is_root is False:
            raise RuntimeError("reset_iter_state: call it on the root, the module that is called first")
        self.communication.reductions.clear()
        for state in self.iteration.states or [self]:
            for group in state.groups:
                group.reset()
            state.phase, state._to_run = Phase.IDLE, set()
        self.communication.order.clear()
        self.communication.gathered = self.iteration.root = None
        self.iteration.queued = False


def state_of(module: Any) -> ModuleState | None:
    """Return the state of a module to which `fully_shard` was applied, or None."""
    return module.__dict__.get("_fsdp_state")  # type: ignore[no-any-return]


def _cast(tensor: Any, dtype: Any) -> Any:
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


class _EndOfBackward(mt.autograd.Function):
    """Return the tensors unchanged. When their gradients arrive, the backward pass of the module is complete."""

    @staticmethod
    def forward(ctx: Any, group: ParameterGroup, *tensors: Any) -> Any:
        ctx.group = group
        ctx.set_materialize_grads(False)
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        ctx.group.end_backward()
        return None, *grads


def _with_end_of_backward(group: ParameterGroup, args: Any, kwargs: Any) -> tuple[Any, Any]:
    if not mt.is_grad_enabled():
        return args, kwargs
    tensors = [one for one in tensors_in((args, kwargs)) if one.requires_grad]
    if not tensors:
        return args, kwargs
    made = {id(old): new for old, new in zip(tensors, _EndOfBackward.apply(group, *tensors))}
    return map_tensors(lambda tensor: made.get(id(tensor), tensor), (args, kwargs))  # type: ignore[no-any-return]
