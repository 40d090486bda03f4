"""Function transforms: vectorization with `vmap`, and modules as functions of their parameters."""

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
    """Call a module with tensors in place of its own parameters and buffers.

    Parameters
    ----------
    module : Module
    parameter_and_buffer_dicts : dict, or sequence of dicts
        Tensors by dotted name. Parameters and buffers that are not named keep their own values.
    args : tuple or any, optional
        Positional arguments: a tuple, or a single argument. None means no arguments.
    kwargs : dict, optional
        Keyword arguments.
    tie_weights : bool
        If True, a tensor given for one name also replaces the parameters tied to it. Default: True.
    strict : bool
        If True, the given names must be exactly those of the module. Default: False.

    Returns
    -------
    Any
        What ``module(*args, **kwargs)`` returns.

    Raises
    ------
    ValueError
        If a name is in more than one dict, if the argument is neither a dict nor a sequence of dicts, or if tied names
        are given different tensors.
    RuntimeError
        If `strict` is True and names are missing or unknown.

    Examples
    --------
    >>> import metatensor as mt
    >>> layer = mt.nn.Linear(3, 2, device="meta")
    >>> weight = mt.empty(2, 3, device="meta")
    >>> mt.func.functional_call(layer, {"weight": weight}, mt.empty(5, 3, device="meta")).shape
    metatensor.Size([5, 2])
    """
    given = parameter_and_buffer_dicts
    if isinstance(given, Mapping):
        state = dict(given)
    elif isinstance(given, Sequence) and all(isinstance(part, Mapping) for part in given):
        state = {name: tensor for part in given for name, tensor in part.items()}
        if len(state) < sum(map(len, given)):
            names = [name for part in given for name in part]
            raise ValueError("functional_call: names in more than one dict: "
                             f"{sorted({n for n in names if names.count(n) > 1})}")
    else:
        raise ValueError(f"functional_call: expected a dict or a sequence of dicts, got {type(given).__name__}")
    return stateless.functional_call(module, state, args, kwargs, tie_weights=tie_weights, strict=strict)


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """Return `func` wrapped in another function.

    The wrapper only calls `func`. In-place operators and views are not replaced, and arguments that `func` writes
    to are changed. Raise RuntimeError if `remove` is neither "mutations" nor "mutations_and_views".
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(f"functionalize: remove must be 'mutations' or 'mutations_and_views', got {remove!r}")

    @wraps(func)
    def functional(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return functional


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, mt.Tensor], dict[str, mt.Tensor]]:
    """Stack the parameters and buffers of several modules of the same class along a new first dimension.

    Parameters
    ----------
    models : sequence of Module

    Returns
    -------
    parameters, buffers : dict of str to Tensor
        Tensors of shape (N, ...) by name, where N is the number of modules.

    Raises
    ------
    RuntimeError
        If there are no modules, or if they differ in class, in training mode, or in whether a parameter requires
        gradients.

    Examples
    --------
    >>> import metatensor as mt
    >>> layers = [mt.nn.Linear(3, 2, device="meta") for _ in range(4)]
    >>> parameters, buffers = mt.func.stack_module_state(layers)
    >>> parameters["weight"].shape
    metatensor.Size([4, 2, 3])
    """
    if not models:
        raise RuntimeError("stack_module_state: expected at least one module")
    if len({type(model) for model in models}) > 1 or len({model.training for model in models}) > 1:
        raise RuntimeError("stack_module_state: the modules must have the same class and the same training mode")
    parameters = [dict(model.named_parameters()) for model in models]
    buffers = [dict(model.named_buffers()) for model in models]
    return _stacked(parameters), _stacked(buffers)


def _stacked(states: Sequence[Mapping[str, mt.Tensor]]) -> dict[str, mt.Tensor]:
    stacked: dict[str, mt.Tensor] = {}
    for name in states[0]:
        tensors = [state[name] for state in states]
        if len({tensor.requires_grad for tensor in tensors}) > 1:
            raise RuntimeError(f"stack_module_state: {name!r} must require gradients in all modules or in none")
        stacked[name] = mt.stack(tensors).detach().requires_grad_(tensors[0].requires_grad)
    return stacked
