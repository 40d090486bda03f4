"""Switches for how `Module.to` and `Module.load_state_dict` replace parameters. They are off and cannot be turned on.
"""

from __future__ import annotations

__all__ = [
    "get_overwrite_module_params_on_conversion", "get_swap_module_params_on_conversion",
    "set_overwrite_module_params_on_conversion", "set_swap_module_params_on_conversion",
]  # fmt: skip


def get_overwrite_module_params_on_conversion() -> bool:
    """Return False: converting a module keeps its parameter objects and changes their data."""
    return False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Accept False. Raise NotImplementedError for True."""
    _only_off("set_overwrite_module_params_on_conversion", value)


def get_swap_module_params_on_conversion() -> bool:
    """Return False: converting and loading keep the parameter objects and change their data."""
    return False


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Accept False. Raise NotImplementedError for True. To swap two tensors, use `torch.utils.swap_tensors`."""
    _only_off("set_swap_module_params_on_conversion", value)


def _only_off(name: str, value: bool) -> None:
    if value:
        raise NotImplementedError(f"torch.__future__.{name}: modules always keep their parameter objects and change their data")
