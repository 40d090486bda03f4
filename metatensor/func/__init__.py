"""Functions made of functions: modules as functions of their parameters, and functions of one member over batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

import metatensor as mt
from metatensor.func._gradients import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp
from metatensor.func._vmap import vmap
from metatensor.nn.module import Module
from metatensor.nn.utils import stateless

__all__ = [
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "stack_module_state",
    "vjp",
    "vmap",
]

State = Mapping[str, mt.Tensor]


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: State | Sequence[State],
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """``module(*args, **kwargs)`` with tensors from one dict, or from several, in place of its own.

    See `metatensor.nn.utils.stateless.functional_call`. ValueError where a name is in two of the dicts, and for
    anything but dicts.
    """
    given = parameter_and_buffer_dicts
    if isinstance(given, Mapping):
        state = dict(given)
    elif isinstance(given, Sequence) and all(isinstance(part, Mapping) for part in given):
        state = {name: tensor for part in given for name, tensor in part.items()}
        if len(state) < sum(map(len, given)):
            names = [name for part in given for name in part]
            raise ValueError(f"functional_call: in more than one dict: {sorted({n for n in names if names.count(n) > 1})}")
    else:
        raise ValueError(f"functional_call: expected a dict or a sequence of dicts, got {type(given).__name__}")
    return stateless.functional_call(module, state, args, kwargs, tie_weights=tie_weights, strict=strict)


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """``func`` under another identity: what it computes is the same with its writes replaced by new tensors.

    RuntimeError for a ``remove`` that is neither "mutations" nor "mutations_and_views".
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(f"functionalize: remove must be 'mutations' or 'mutations_and_views', got {remove!r}")

    @wraps(func)
    def functional(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return functional


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, mt.Tensor], dict[str, mt.Tensor]]:
    """The parameters and the buffers of modules of one class, each stacked in a new first dimension, by name.

    RuntimeError for no modules, for several classes, and where some are in training mode or require gradients and
    others are or do not.
    """
    if not models:
        raise RuntimeError("stack_module_state: expected at least one module")
    if len({type(model) for model in models}) > 1 or len({model.training for model in models}) > 1:
        raise RuntimeError("stack_module_state: the modules must be of one class, and all in training mode or none")
    parameters = [dict(model.named_parameters()) for model in models]
    buffers = [dict(model.named_buffers()) for model in models]
    return _stacked(parameters), _stacked(buffers)


def _stacked(states: Sequence[Mapping[str, mt.Tensor]]) -> dict[str, mt.Tensor]:
    stacked: dict[str, mt.Tensor] = {}
    for name in states[0]:
        tensors = [state[name] for state in states]
        if len({tensor.requires_grad for tensor in tensors}) > 1:
            raise RuntimeError(f"stack_module_state: some of {name!r} require gradients and others do not")
        stacked[name] = mt.stack(tensors).detach().requires_grad_(tensors[0].requires_grad)
    return stacked
