"""Backward hooks of modules.

An identity is recorded before and after the call of a module. The gradients of its node are those of the module's
inputs, or of its outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor.autograd.function import Function

__all__ = ["Watch"]


class _Identity(Function):
    """Returns views of its arguments."""

    _title = "a module with backward hooks"

    @staticmethod
    def forward(ctx: Any, *tensors: Any) -> Any:
        ctx.set_materialize_grads(False)
        return tuple(t.view_as(t) for t in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads


class Watch:
    """Calls the backward hooks of one call of a module.

    Parameters
    ----------
    module : Module
        The module.
    hooks, pre_hooks : dict
        Hooks that receive the gradients of the inputs, and pre-hooks, which receive those of the outputs.
    older : bool
        Whether the hooks were registered by `register_backward_hook`. They are attached to the node of the output.
    """

    def __init__(self, module: Any, hooks: dict, pre_hooks: dict, older: bool) -> None:
        self.module, self.hooks, self.pre_hooks, self.older = module, hooks, pre_hooks, older
        self._n_inputs, self._n_outputs = 0, 0
        self._places: list[int] = []
        self._grad_output: Any = None
        self._waits = False  # whether an input requires grad, so that the hooks wait for the inputs' gradients

    def inputs(self, args: tuple) -> tuple:
        """Pass the arguments through an identity. The gradients of its outputs are those of the module's inputs."""
        self._n_inputs = len(args)
        if self.older or not self.hooks:
            return args
        args, self._places, node = self._through_identity(args)
        if node is None:
            return args
        self._waits = True
        node.register_hook(self._inputs_known)
        return args

    def _inputs_known(self, grads: tuple, _: tuple) -> Any:
        if self._grad_output is None:
            raise RuntimeError(f"{type(self.module).__name__}: a backward hook of the module ran before the gradients of its outputs "
                               "were known; the module's output must be used to compute the loss")  # fmt: skip
        found: list[Any] = [None] * self._n_inputs
        for place, g in zip(self._places, grads, strict=True):
            found[place] = g
        given = tuple(found)
        changed = self._call(self.hooks, given, lambda hook, now: hook(self.module, now, self._grad_output))
        self._grad_output = None
        return None if changed is given else tuple(changed[place] for place in self._places)

    def outputs(self, output: Any) -> Any:
        """Pass the output through an identity. The gradients that its node receives are those of the module's outputs."""
        if self.older:
            return self._older(output)
        parts = output if isinstance(output, tuple) else (output,)
        self._n_outputs = len(parts)
        made, places, node = self._through_identity(parts)
        if node is None:
            return output

        def known(grads: tuple) -> Any:
            found: list[Any] = [None] * self._n_outputs
            for place, g in zip(places, grads, strict=True):
                found[place] = g
            given = tuple(found)
            changed = self._call(self.pre_hooks, given, lambda hook, now: hook(self.module, now))
            self._grad_output = changed
            if not self._waits:
                self._call(self.hooks, (), lambda hook, now: hook(self.module, (), changed))
            return None if changed is given else tuple(changed[place] for place in places)

        node.register_prehook(known)
        return type(output)(made) if isinstance(output, tuple) and type(output) is tuple else made if isinstance(output, tuple) else made[0]

    def _older(self, output: Any) -> Any:
        part = output
        while not isinstance(part, mt.Tensor):
            if isinstance(part, dict):
                part = next((v for v in part.values() if isinstance(v, mt.Tensor)), None)
            elif isinstance(part, (tuple, list)) and part:
                part = part[0]
            else:
                return output
        if part is not None and part.grad_fn is not None:
            for hook in self.hooks.values():
                part.grad_fn.register_hook(lambda inputs, grads, hook=hook: hook(self.module, inputs, grads))
        return output

    def _through_identity(self, values: tuple) -> tuple[tuple, list[int], Any]:
        places = [i for i, v in enumerate(values) if isinstance(v, mt.Tensor)]
        tensors = [values[i] for i in places]
        if not mt.is_grad_enabled() or not any(t.requires_grad for t in tensors):
            return values, places, None
        made = _Identity.apply(*tensors)
        out = list(values)
        for place, t in zip(places, made, strict=True):
            out[place] = t
        node = next(t.grad_fn for t in made if t.requires_grad)
        return tuple(out), places, node

    def _call(self, hooks: dict, given: tuple, call: Callable[[Any, Any], Any]) -> Any:
        now: Any = given
        for hook in hooks.values():
            changed = call(hook, now)
            if changed is None:
                continue
            changed = changed if isinstance(changed, tuple) else (changed,)
            if len(changed) != len(now):
                raise RuntimeError(f"{type(self.module).__name__}: a backward hook returned {len(changed)} gradients, not {len(now)}")
            now = changed
        return now
