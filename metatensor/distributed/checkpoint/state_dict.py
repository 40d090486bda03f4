"""Complete state dicts of models. With one process they equal the module's own state dict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import metatensor as mt
from metatensor._core.absent import functions

__all__ = ["StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict", "set_model_state_dict",
           "set_optimizer_state_dict", "set_state_dict"]  # fmt: skip


@dataclass
class StateDictOptions:
    """Options for creating and loading a state dict."""

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


def get_model_state_dict(model: Any, *, submodules: Any = None, options: StateDictOptions | None = None) -> dict[str, Any]:
    """Return the state dict of a module.

    With ``options``, tensors are moved to the cpu or frozen parameters omitted.
    """
    if submodules is not None:
        raise NotImplementedError("get_model_state_dict: submodules is deprecated in PyTorch and not supported")
    options = options or StateDictOptions()
    frozen = {name for name, one in model.named_parameters() if not one.requires_grad} if options.ignore_frozen_params else set()
    found = {name: value for name, value in model.state_dict().items() if name not in frozen}
    if options.cpu_offload:
        found = {name: value.cpu() if isinstance(value, mt.Tensor) else value for name, value in found.items()}
    return found


def set_model_state_dict(model: Any, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None) -> Any:
    """Load a state dict into a module. Return the missing and unexpected keys."""
    return model.load_state_dict(model_state_dict, strict=(options or StateDictOptions()).strict)


_made = functions(
    "distributed.checkpoint.state_dict", "get_optimizer_state_dict get_state_dict set_optimizer_state_dict set_state_dict",
    "metatensor does not write sharded checkpoints; use the optimizer's own state_dict",
)  # fmt: skip
get_optimizer_state_dict, get_state_dict = _made["get_optimizer_state_dict"], _made["get_state_dict"]
set_optimizer_state_dict, set_state_dict = _made["set_optimizer_state_dict"], _made["set_state_dict"]
