"""`FullyShardedDataParallel`, for annotations and isinstance checks."""

from __future__ import annotations

from typing import Any, NoReturn

import metatensor as mt
from metatensor._core.absent import function

__all__ = ["FullyShardedDataParallel"]

_WHY = "metatensor has no communication between processes"


def _method(name: str) -> Any:
    return staticmethod(function(f"distributed.fsdp.FullyShardedDataParallel.{name}", _WHY))


class FullyShardedDataParallel(mt.nn.Module):
    """A module whose parameters are sharded over processes. Creating one raises NotImplementedError."""

    def __init__(self, module: Any, *args: Any, **options: Any) -> NoReturn:
        raise NotImplementedError(f"torch.distributed.fsdp.FullyShardedDataParallel: {_WHY}; use the module itself")

    @staticmethod
    def fsdp_modules(module: Any, root_only: bool = False) -> list[Any]:
        """Return the submodules of a module that are instances of this class."""
        return [one for one in module.modules() if isinstance(one, FullyShardedDataParallel)]

    state_dict_type = _method("state_dict_type")
    set_state_dict_type = _method("set_state_dict_type")
    get_state_dict_type = _method("get_state_dict_type")
    summon_full_params = _method("summon_full_params")
    optim_state_dict = _method("optim_state_dict")
    optim_state_dict_to_load = _method("optim_state_dict_to_load")
    full_optim_state_dict = _method("full_optim_state_dict")
    sharded_optim_state_dict = _method("sharded_optim_state_dict")
    shard_full_optim_state_dict = _method("shard_full_optim_state_dict")
    scatter_full_optim_state_dict = _method("scatter_full_optim_state_dict")
    rekey_optim_state_dict = _method("rekey_optim_state_dict")
