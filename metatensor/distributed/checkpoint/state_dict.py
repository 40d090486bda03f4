"""State dicts of models and optimizers that do not depend on how the model is parallelized.

Their keys are the names of the parameters in the model before it was wrapped, and their tensors are those of the model:
distributed ones, or complete ones with ``full_state_dict``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import metatensor as mt
from metatensor.distributed import _group, _objects
from metatensor.distributed._collectives import broadcast
from metatensor.distributed.checkpoint._optimizer_state import flattened, initialize, unflattened
from metatensor.distributed.tensor import DTensor, distribute_tensor
from metatensor.nn._state_dict import _IncompatibleKeys
from metatensor.nn.parallel import DistributedDataParallel

__all__ = ["StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict", "set_model_state_dict",
           "set_optimizer_state_dict", "set_state_dict"]  # fmt: skip

_NAME = "torch.distributed.checkpoint.state_dict"
WRAPPERS = ("_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module")
"""Names of the modules inside of wrappers, which do not occur in names of parameters."""


@dataclass
class StateDictOptions:
    """Options for creating and loading a state dict.

    Parameters
    ----------
    full_state_dict : bool
        Complete tensors instead of distributed ones. All ranks take part in gathering them, one after the other.
    cpu_offload : bool
        Tensors on the cpu. With ``full_state_dict``, only rank 0 gets them, and the other ranks an empty dict.
    ignore_frozen_params : bool
        Omit parameters that do not require gradients.
    keep_submodule_prefixes : bool
        With ``submodules``: names from the root of the model.
    strict : bool
        When loading: missing and unexpected names are errors.
    broadcast_from_rank0 : bool
        When loading complete tensors (``full_state_dict``): take those of rank 0. Other ranks may pass an empty dict.
    flatten_optimizer_state_dict : bool
        The state of an optimizer as a flat dict, with keys such as ``state.layer.weight.exp_avg``.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


def _checked(options: StateDictOptions | None) -> StateDictOptions:
    options = options or StateDictOptions()
    if options.broadcast_from_rank0 and not options.full_state_dict:
        raise ValueError(f"{_NAME}: broadcast_from_rank0=True needs full_state_dict=True")
    return options


# Names ----------------------------------------------------------------------------


def _plain_name(model: Any, name: str) -> str:
    """Return the name of an entry of ``model.state_dict()`` without those of wrappers."""
    found, here = [], model
    for part in name.split("."):
        wrapped = part in WRAPPERS or (part == "module" and isinstance(here, DistributedDataParallel))
        here = getattr(here, "_modules", {}).get(part)
        if not wrapped:
            found.append(part)
    return ".".join(found)


def _names_of(model: Any) -> dict[int, list[str]]:
    """Return the names of each parameter, by its id."""
    found: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        found.setdefault(id(parameter), []).append(_plain_name(model, name))
    return found


# Models ---------------------------------------------------------------------------


def get_model_state_dict(model: Any, *, submodules: Any = None, options: StateDictOptions | None = None) -> dict[str, Any]:
    """Return the state dict of a model.

    Parameters
    ----------
    model : Module
        The model, with distributed parameters or not.
    submodules : set of Module, optional
        Return the state of these modules only. Deprecated in PyTorch.
    options : StateDictOptions, optional
        See `StateDictOptions`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributed.checkpoint.state_dict import get_model_state_dict
    >>> list(get_model_state_dict(mt.nn.Linear(2, 3)))
    ['weight', 'bias']
    """
    options = _checked(options)
    state = {_plain_name(model, name): value for name, value in model.state_dict().items()}
    if options.ignore_frozen_params:
        for name, parameter in model.named_parameters(remove_duplicate=False):
            if not parameter.requires_grad:
                state.pop(_plain_name(model, name), None)
    if submodules:
        prefixes = [f"{_plain_name(model, name)}." for name, module in model.named_modules() if module in set(submodules)]
        state = {
            name if options.keep_submodule_prefixes else name[len(prefix) :]: value
            for name, value in state.items() for prefix in prefixes if name.startswith(prefix)
        }  # fmt: skip
    return _as_asked(state, options)  # type: ignore[no-any-return]


def set_model_state_dict(model: Any, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None) -> _IncompatibleKeys:
    """Load a state dict into a model. Return the missing and unexpected keys.

    Parameters
    ----------
    model : Module
        The model. Parameters on meta are replaced by the tensors of the state dict.
    model_state_dict : dict
        A result of `get_model_state_dict`, of the same model with any parallelism if its tensors are complete.
    options : StateDictOptions, optional
        See `StateDictOptions`.

    Raises
    ------
    RuntimeError
        If names or shapes do not fit, and ``strict`` is true.
    """
    options = _checked(options)
    own = {name: (_plain_name(model, name), value) for name, value in model.state_dict(keep_vars=True).items()}
    given = _shared(model_state_dict, options)
    known = {plain: name for name, (plain, _) in own.items()}
    state: dict[str, Any] = {}
    for plain in list(given):
        name = known.get(plain, plain)
        like = own[name][1] if name in own else None
        state[name] = _placed(plain, given[plain], like, options)
    assign = any(isinstance(value, mt.Tensor) and value.is_meta for _, value in own.values())
    found: _IncompatibleKeys = model.load_state_dict(state, strict=options.strict, assign=assign)
    return found


# Optimizers -----------------------------------------------------------------------


def get_optimizer_state_dict(
    model: Any, optimizers: Any, *, submodules: Any = None, options: StateDictOptions | None = None
) -> dict[str, Any]:  # fmt: skip
    """Return the state of one or several optimizers of a model, with names of parameters in the place of their positions.

    An optimizer that has not made a step yet gets its initial state.

    Parameters
    ----------
    model : Module
        The model.
    optimizers : Optimizer or iterable of Optimizer
        The optimizers.
    submodules : set of Module, optional
        Return the state of parameters of these modules only. Deprecated in PyTorch.
    options : StateDictOptions, optional
        See `StateDictOptions`.

    Raises
    ------
    ValueError
        If an optimizer has a parameter that the model does not have.
    """
    options = _checked(options)
    names = _names_of(model)
    result: dict[str, Any] = {"state": {}, "param_groups": []}
    prefixes = [f"{_plain_name(model, name)}." for name, module in model.named_modules() if module in set(submodules or ())]
    for optimizer in _several(optimizers):
        initialize(optimizer)
        order = _order(optimizer, names)
        state = optimizer.state_dict()
        kept = {position for position, name in enumerate(order) if not submodules or any(map(name.startswith, prefixes))}
        result["state"].update({
            order[key] if isinstance(key, int) else key: value for key, value in state["state"].items()
            if not isinstance(key, int) or key in kept
        })  # fmt: skip
        for group in state["param_groups"]:
            result["param_groups"].append({**group, "params": [order[position] for position in group["params"] if position in kept]})
    return _as_asked(flattened(result) if options.flatten_optimizer_state_dict else result, options)  # type: ignore[no-any-return]


def set_optimizer_state_dict(
    model: Any, optimizers: Any, optim_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> None:  # fmt: skip
    """Load the state of one or several optimizers.

    Parameters
    ----------
    model : Module
        The model.
    optimizers : Optimizer or iterable of Optimizer
        The optimizers.
    optim_state_dict : dict
        A result of `get_optimizer_state_dict`, flat or not.
    options : StateDictOptions, optional
        See `StateDictOptions`.

    Raises
    ------
    RuntimeError
        If the state of a parameter is missing, and ``strict`` is true.
    """
    options = _checked(options)
    names = _names_of(model)
    given = _shared(optim_state_dict, options)
    for optimizer in _several(optimizers):
        initialize(optimizer)
        order = _order(optimizer, names)
        nested = given if "state" in given else unflattened(given, optimizer, order)
        own, state = optimizer.state_dict(), {}
        groups = _groups_for(own["param_groups"], order, nested["param_groups"], options)
        for position, name in enumerate(order):
            stored = nested["state"].get(name)
            before = own["state"].get(position, {})
            if stored is None:
                if before and options.strict:
                    raise RuntimeError(f"{_NAME}.set_optimizer_state_dict: there is no state of {name!r}; strict=False allows that")
                state[position] = before
                continue
            state[position] = _like(f"state.{name}", stored, before, options)
        optimizer.load_state_dict({"state": {key: value for key, value in state.items() if value}, "param_groups": groups})


def _several(optimizers: Any) -> tuple[Any, ...]:
    return (optimizers,) if isinstance(optimizers, mt.optim.Optimizer) else tuple(optimizers)


def _order(optimizer: Any, names: Mapping[int, list[str]]) -> list[str]:
    """Return the names of an optimizer's parameters, in its order."""
    found: dict[int, str] = {}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if id(parameter) not in names:
                raise ValueError(f"{_NAME}: the optimizer has a parameter of shape {list(parameter.shape)} that the model does not have")
            found.setdefault(id(parameter), names[id(parameter)][0])
    return list(found.values())


def _groups_for(
    own: list[dict[str, Any]], order: list[str], given: list[dict[str, Any]], options: StateDictOptions
) -> list[dict[str, Any]]:  # fmt: skip
    """Return the groups of an optimizer. Each has the hyperparameters of the group in ``given`` with the same parameters."""
    found = []
    for place, group in enumerate(own):
        members = {order[position] for position in group["params"]}
        fitting = [one for one in given if members & set(one["params"])] if members else given[place : place + 1]
        if not fitting and options.strict and members:
            raise RuntimeError(f"{_NAME}.set_optimizer_state_dict: there is no group with {sorted(members)[0]!r}; strict=False allows that")
        values = {key: value for one in fitting[:1] for key, value in one.items() if key != "params"}
        found.append({**group, **values, "params": group["params"]})
    return found


# Both -----------------------------------------------------------------------------


def get_state_dict(
    model: Any, optimizers: Any, *, submodules: Any = None, options: StateDictOptions | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:  # fmt: skip
    """Return the results of `get_model_state_dict` and `get_optimizer_state_dict`."""
    return (
        get_model_state_dict(model, submodules=submodules, options=options),
        get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options),
    )


def set_state_dict(
    model: Any, optimizers: Any, *, model_state_dict: dict[str, Any], optim_state_dict: dict[str, Any],
    options: StateDictOptions | None = None,
) -> _IncompatibleKeys:  # fmt: skip
    """Load the state dicts of a model and its optimizers. Return the missing and unexpected keys of the model."""
    if optim_state_dict or _checked(options).broadcast_from_rank0:
        set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return set_model_state_dict(model, model_state_dict, options=options)


# Tensors --------------------------------------------------------------------------


def _as_asked(value: Any, options: StateDictOptions) -> Any:
    """Gather and move the tensors in a state dict."""
    alone = options.full_state_dict and options.cpu_offload and _group.is_initialized() and _group.get_rank() != 0
    done = _converted(value, options, alone)
    return {} if alone else done


def _converted(value: Any, options: StateDictOptions, dropped: bool) -> Any:
    if isinstance(value, mt.Tensor):
        if options.full_state_dict and isinstance(value, DTensor):
            with mt.no_grad():
                value = value.detach().full_tensor()
        if dropped:
            return None
        return value.cpu() if options.cpu_offload else value
    if isinstance(value, Mapping):
        return {key: _converted(one, options, dropped) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_converted(one, options, dropped) for one in value])
    return value


def _shared(value: dict[str, Any], options: StateDictOptions) -> dict[str, Any]:
    """With ``broadcast_from_rank0``, return the state dict of rank 0, with a `_Sent` in place of each tensor."""
    if not options.broadcast_from_rank0 or not _group.is_initialized() or _group.get_world_size() == 1:
        return value
    form = [_form(value)]
    _objects.broadcast_object_list(form, 0)
    return _received(form[0], value if _group.get_rank() == 0 else None)  # type: ignore[no-any-return]


@dataclass
class _Sent:
    """A tensor of rank 0, of which other ranks know only the shape and dtype."""

    shape: tuple[int, ...]
    dtype: Any
    data: Any = None


def _form(value: Any) -> Any:
    if isinstance(value, mt.Tensor):
        return _Sent(tuple(value.shape), value.dtype)
    if isinstance(value, Mapping):
        return {key: _form(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_form(one) for one in value])
    return value


def _received(form: Any, own: Any) -> Any:
    if isinstance(form, _Sent):
        form.data = own
        return form
    if isinstance(form, Mapping):
        return {key: _received(one, None if own is None else own[key]) for key, one in form.items()}
    if isinstance(form, (list, tuple)):
        return type(form)([_received(one, None if own is None else own[place]) for place, one in enumerate(form)])
    return form


def _placed(name: str, value: Any, like: Any, options: StateDictOptions) -> Any:
    """Return a value of a state dict, distributed as the tensor ``like`` of the model if it is."""
    if isinstance(value, _Sent):
        value = _broadcast(value, like)
    if not isinstance(value, mt.Tensor) or not isinstance(like, DTensor):
        return value
    if tuple(value.shape) != tuple(like.shape):
        raise RuntimeError(f"{_NAME}: {name!r} has shape {list(value.shape)}, but the model's has {list(like.shape)}")
    with mt.no_grad():
        if isinstance(value, DTensor):
            return value if value.placements == like.placements else value.redistribute(placements=like.placements)
        if not options.full_state_dict:
            raise RuntimeError(f"{_NAME}: {name!r} is distributed in the model; a complete tensor for it needs full_state_dict=True")
        value = value.detach()
        device = like.device_mesh.device_type if like.is_meta else like.device
        part = distribute_tensor(value, like.device_mesh, like.placements, src_data_rank=None).to(device)
        return part.clone() if part._local_tensor.untyped_storage() == value.untyped_storage() else part


def _broadcast(sent: _Sent, like: Any) -> Any:
    kind = "cpu" if like is None else like.device_mesh.device_type if isinstance(like, DTensor) else like.device
    device = mt.get_default_device() if str(kind) == "meta" and not isinstance(like, DTensor) else kind
    if sent.data is None:
        whole = mt.empty(sent.shape, dtype=sent.dtype, device=device)
    else:
        whole = sent.data.detach().to(device, copy=True).contiguous()
    broadcast(whole, 0)
    return whole


def _like(name: str, value: Any, before: Any, options: StateDictOptions) -> Any:
    """Return the state of a parameter, its tensors distributed as in the state ``before``."""
    if isinstance(value, Mapping):
        known: Any = before if isinstance(before, Mapping) else {}
        return {key: _like(f"{name}.{key}", one, known.get(key), options) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_like(name, one, None, options) for one in value])
    return _placed(name, value, before, options)

