"""Modes of dispatch in Python."""

from __future__ import annotations

import contextlib
from typing import Any

from metatensor._core.modes import DispatchMode, _disable_modes, _restore_modes, current_modes

__all__ = ["TorchDispatchMode", "is_traceable_wrapper_subclass"]


class TorchDispatchMode(DispatchMode):
    """A context manager inside which ``__torch_dispatch__`` of the instance gets every operator, composites in their parts."""

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__}: define __torch_dispatch__(self, func, types, args, kwargs)")

    def dispatch(self, op: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """What the dispatcher calls."""
        return self.__torch_dispatch__(op, (), args, kwargs)


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """Whether a tensor says what it is made of."""
    return hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


def _get_current_dispatch_mode() -> Any:
    modes = [mode for mode in current_modes() if isinstance(mode, TorchDispatchMode)]
    return modes[-1] if modes else None


@contextlib.contextmanager
def _disable_current_modes() -> Any:
    level = _disable_modes()
    try:
        yield []
    finally:
        _restore_modes(level)
