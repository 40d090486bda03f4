"""Dispatch modes written in Python."""

from __future__ import annotations

import contextlib
from typing import Any

from metatensor._core.modes import TorchDispatchMode as Mode
from metatensor._core.modes import _disable_modes, _restore_modes, current_modes
from metatensor._core.storage_views import tensor_from_storage
from metatensor._core.tensor import Tensor
from metatensor._core.thread import DisableTorchFunctionSubclass, _DisableTorchDispatch

__all__ = ["TorchDispatchMode", "is_traceable_wrapper_subclass", "return_and_correct_aliasing"]


class TorchDispatchMode(Mode):
    """Context manager whose `__torch_dispatch__` receives every operator. Composite operators arrive as their parts.

    Subclasses define ``__torch_dispatch__(self, func, types, args=(), kwargs=None)``.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__}: define __torch_dispatch__(self, func, types, args, kwargs)")


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """Return whether `t` has the methods that take a wrapper subclass apart and rebuild it."""
    return hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


def return_and_correct_aliasing(func: Any, args: tuple, kwargs: dict[str, Any], out: Any) -> Any:
    """Return the result that ``__torch_dispatch__`` of a wrapper subclass must return.

    If the operator writes to arguments, these are returned. If it is a view, the results in `out` share the storage of
    the argument that they view.

    Parameters
    ----------
    func, args, kwargs
        The arguments of ``__torch_dispatch__``.
    out : Tensor, or list or tuple of Tensor
        The wrappers created for the results.
    """
    schema = func._schema
    places = [argument for argument in schema.arguments if not argument.kwarg_only]
    given = {argument.name: value for argument, value in zip(places, args, strict=False)} | dict(kwargs)
    written = [given[a.name] for a in schema.arguments if a.is_write and a.name in given]
    if written:
        return written[0] if len(schema.returns) == 1 else tuple(written)
    if func.is_view:
        source = next((given[a.name] for a in schema.arguments if a.alias_info is not None and isinstance(given.get(a.name), Tensor)), None)
        if source is not None:
            for one in out if isinstance(out, (list, tuple)) else (out,):
                _put_on(one, source.untyped_storage())
    return out


def _put_on(view: Any, storage: Any) -> None:
    """Make a wrapper share a storage if the storage is large enough for its layout."""
    steps = sum((size - 1) * step for size, step in zip(view.shape, view.stride(), strict=True))
    need = (view.storage_offset() + steps + 1) * view.dtype.itemsize if view.numel() else 0
    if need <= storage.nbytes():
        with _DisableTorchDispatch(), DisableTorchFunctionSubclass():
            view.data = tensor_from_storage(storage, view.dtype, tuple(view.shape), view.stride(), view.storage_offset())


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
