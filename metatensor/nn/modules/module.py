"""`Module` and the registration of global hooks, under PyTorch's module path."""

from typing import Any, NoReturn

from metatensor.nn._hooks import (
    RemovableHandle,
    _global_backward_hooks,  # noqa: F401
    _global_backward_pre_hooks,  # noqa: F401
    _global_buffer_registration_hooks,  # noqa: F401
    _global_forward_hooks,  # noqa: F401
    _global_forward_hooks_always_called,  # noqa: F401
    _global_forward_hooks_with_kwargs,  # noqa: F401
    _global_forward_pre_hooks,  # noqa: F401
    _global_module_registration_hooks,  # noqa: F401
    _global_parameter_registration_hooks,  # noqa: F401
    _WrappedHook,  # noqa: F401
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from metatensor.nn._state_dict import _EXTRA_STATE, _IncompatibleKeys  # noqa: F401
from metatensor.nn.module import Module

__all__ = [
    "Module",
    "RemovableHandle",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

_EXTRA_STATE_KEY_SUFFIX = _EXTRA_STATE


def _addindent(s_: str, numSpaces: int) -> str:
    """Indent all lines but the first."""
    return s_.replace("\n", "\n" + " " * numSpaces)


def _forward_unimplemented(self: Any, *input: Any) -> NoReturn:
    """Raise NotImplementedError: the class has no forward()."""
    raise NotImplementedError(f"{type(self).__name__} has no forward()")
