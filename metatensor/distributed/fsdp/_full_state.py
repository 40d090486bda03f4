"""State dicts and whole parameters of `FullyShardedDataParallel`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import metatensor as mt
from metatensor.distributed._group import get_rank
from metatensor.distributed.fsdp._state import ModuleState
from metatensor.distributed.fsdp.api import (
    FullOptimStateDictConfig,
    FullStateDictConfig,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    StateDictType,
)
from metatensor.distributed.tensor._dtensor import DTensor, distribute_tensor

__all__ = ["clean", "configs", "optimizer_saved", "optimizer_to_load", "saved", "to_load", "whole_parameters"]

INNER = "_fsdp_wrapped_module"


def clean(name: str) -> str:
    """Return the name that a parameter has in the module that was wrapped."""
    return name.replace(f"{INNER}.", "")


def configs(kind: StateDictType, config: Any, optimizer_config: Any) -> tuple[Any, Any]:
    """Return the settings for a kind of state dict, by default those of PyTorch."""
    full = kind is StateDictType.FULL_STATE_DICT
    return (
        config or (FullStateDictConfig() if full else ShardedStateDictConfig()),
        optimizer_config or (FullOptimStateDictConfig() if full else ShardedOptimStateDictConfig()),
    )


# Whole parameters -----------------------------------------------------------------------------------------------


@contextmanager
def whole_parameters(states: list[ModuleState], writeback: bool, rank0_only: bool, offload: bool) -> Iterator[None]:
    """Context manager in which modules have whole parameters, in the dtypes of the shards."""
    parameters = [one for state in states for group in state.groups for one in group.parameters]
    for state in states:
        state.give_shards()
    whole: list[Any] = []
    with mt.no_grad():
        for one in parameters:
            full = one.sharded.detach().full_tensor()
            if rank0_only and get_rank():
                whole.append(None)
                continue
            full = full.to("cpu") if offload and full.device.type != "meta" else full.clone()
            whole.append(mt.nn.Parameter(full, one.requires_grad))
            one.register(whole[-1])
    try:
        yield
    finally:
        for one, full in zip(parameters, whole):
            one.register(one.sharded)
            if full is None or not writeback:
                continue
            with mt.no_grad():
                spec = one.spec
                changed = distribute_tensor(full.detach().to(one.sharded.device), spec.mesh, spec.placements, src_data_rank=None)
                one.sharded._local_tensor.copy_(changed._local_tensor)


# Modules --------------------------------------------------------------------------------------------------------


def saved(module: Any, found: Any, prefix: str) -> Any:
    """Change the entries of a state dict that belong to a module. Return the state dict."""
    settings = module._settings
    config, inner = settings.state_dict_config, f"{prefix}{INNER}."
    names = [name for name in found if name.startswith(inner)]
    for name in names:
        value = found.pop(name)
        value = _converted(value, settings.state_dict_type, config.offload_to_cpu)
        if not (getattr(config, "rank0_only", False) and get_rank()):
            found[prefix + name[len(inner) :]] = value
    metadata = getattr(found, "_metadata", None)
    if metadata is not None:
        for name in [name for name in metadata if name.startswith(inner[:-1])]:
            metadata[clean(f"{name}.")[:-1]] = metadata.pop(name)
    return found


def _converted(value: Any, kind: StateDictType, offload: bool) -> Any:
    if isinstance(value, DTensor) and kind is StateDictType.FULL_STATE_DICT:
        value = value.detach().full_tensor()
    if offload and isinstance(value, mt.Tensor) and value.device.type != "meta":
        value = value.to("cpu")
    return value


def to_load(module: Any, state: Any) -> dict[str, Any]:
    """Convert a state dict with unwrapped names into one with the module's own names and distributed parameters."""
    module.apply(_give_shards)
    own = {clean(name): (name, one) for name, one in [*module.named_parameters(remove_duplicate=False), *module.named_buffers()]}
    found = {}
    for name, value in state.items():
        inner, target = own.get(name, (name, None))
        found[inner] = _shard_like(target, value)
    return found


def _give_shards(module: Any) -> None:
    state = module.__dict__.get("_fsdp_state")
    if state is not None:
        state.give_shards()


def _shard_like(target: Any, value: Any) -> Any:
    """Return this rank's part of a whole tensor, placed like ``target``."""
    if not isinstance(target, DTensor) or not isinstance(value, mt.Tensor) or isinstance(value, DTensor) or value.shape != target.shape:
        return value
    value = value.detach().to(target.device)
    return distribute_tensor(value, target.device_mesh, target.placements, src_data_rank=None)


# Optimizers -----------------------------------------------------------------------------------------------------


def _names(model: Any, optimizer: Any) -> list[str]:
    """Return the names of an optimizer's parameters, in its order."""
    known = {id(one): clean(name) for name, one in model.named_parameters()}
    found = [known.get(id(one)) for group in optimizer.param_groups for one in group["params"]]
    if None in found:
        raise ValueError(f"FullyShardedDataParallel: parameter {found.index(None)} of the optimizer does not belong to the model")
    return [name for name in found if name is not None]


def optimizer_saved(model: Any, optimizer: Any, state: dict[str, Any]) -> dict[str, Any]:
    """Return the state of an optimizer by names of parameters."""
    model.apply(_give_shards)
    names, settings = _names(model, optimizer), type(model).get_state_dict_type(model)
    config = settings.optim_state_dict_config
    made: dict[str, Any] = {"state": {}, "param_groups": []}
    for number, values in state["state"].items():
        made["state"][names[number]] = {
            key: _converted(value, settings.state_dict_type, config.offload_to_cpu) for key, value in values.items()
        }
    made["param_groups"] = [{**group, "params": [names[number] for number in group["params"]]} for group in state["param_groups"]]
    return {} if getattr(config, "rank0_only", False) and get_rank() else made


def optimizer_to_load(model: Any, optimizer: Any, state: dict[str, Any]) -> dict[str, Any]:
    """Return the state of an optimizer by numbers of parameters, from one by names."""
    model.apply(_give_shards)
    numbers = {name: number for number, name in enumerate(_names(model, optimizer))}
    parameters = [one for group in optimizer.param_groups for one in group["params"]]
    unknown = [name for name in state["state"] if name not in numbers]
    if unknown:
        raise ValueError(f"FullyShardedDataParallel.optim_state_dict_to_load: the optimizer has no parameters {unknown[:8]}")
    made = {
        numbers[name]: {key: _shard_like(parameters[numbers[name]], value) for key, value in values.items()}
        for name, values in state["state"].items()
    }
    groups = [{**group, "params": [numbers[name] for name in group["params"]]} for group in state["param_groups"]]
    return {"state": made, "param_groups": groups}
