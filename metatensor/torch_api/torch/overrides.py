"""Overriding what tensor functions do: `TorchFunctionMode`, and functions for those who write ``__torch_function__``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import metatensor as mt
from metatensor._core.modes import DispatchMode
from metatensor._core.op import registry
from metatensor._core.thread import DisableTorchFunctionSubclass

__all__ = [
    "BaseTorchFunctionMode", "TorchFunctionMode", "enable_reentrant_dispatch", "get_default_nowrap_functions",
    "get_ignored_functions", "get_overridable_functions", "get_testing_overrides", "handle_torch_function",
    "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic", "is_tensor_like",
    "is_tensor_method_or_property", "redispatch_torch_function", "resolve_name", "wrap_torch_function",
]  # fmt: skip


class TorchFunctionMode(DispatchMode):
    """A context manager inside which ``__torch_function__`` of the instance gets every call of a tensor function.

    Calls made within it go to the mode outside, or are carried out.
    """

    sees_composites = True

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__}: define __torch_function__(self, func, types, args, kwargs)")

    def dispatch(self, op: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """What the dispatcher calls."""
        types = tuple({type(a) for a in (*args, *kwargs.values()) if _overrides(a)})
        return self.__torch_function__(op, types, args, kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        return func(*args, **(kwargs or {}))


def _overrides(value: Any) -> bool:
    if isinstance(value, mt.Tensor):
        return bool(getattr(type(value), "_overrides_dispatch", False))
    return hasattr(type(value), "__torch_function__")


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether one of the arguments overrides tensor functions, and overriding is not switched off."""
    return any(map(_overrides, relevant_args))


def has_torch_function_unary(arg: Any) -> bool:
    """Whether the argument overrides tensor functions."""
    return _overrides(arg)


def has_torch_function_variadic(*args: Any) -> bool:
    """Whether one of the arguments overrides tensor functions."""
    return any(map(_overrides, args))


def handle_torch_function(public_api: Any, relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """Ask the overriding arguments, subclasses first, to carry out a call. TypeError where none does."""
    types: list[type] = []
    asked: list[Any] = []
    for value in relevant_args:
        if not _overrides(value) or type(value) in types:
            continue
        place = next((i for i, t in enumerate(types) if issubclass(type(value), t)), len(types))
        types.insert(place, type(value))
        asked.insert(place, value)
    for value in asked:
        result = value.__torch_function__(public_api, tuple(types), args, kwargs)
        if result is not NotImplemented:
            return result
    name = getattr(public_api, "__name__", public_api)
    raise TypeError(f"{name}: no __torch_function__ of {', '.join(t.__name__ for t in types)} carries it out")


def redispatch_torch_function(func: Any, types: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Carry out a call with overriding by subclasses switched off."""
    with DisableTorchFunctionSubclass():
        return func(*args, **kwargs)


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: let those of the arguments that ``dispatcher`` names override a function."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


def is_tensor_like(inp: Any) -> bool:
    """Whether it is a tensor, or has ``__torch_function__``."""
    return isinstance(inp, mt.Tensor) or hasattr(inp, "__torch_function__")


def resolve_name(f: Any) -> str | None:
    """The dotted name of an operator, "torch.Tensor.add" or "torch.nn.functional.relu"; None for anything else."""
    name = getattr(f, "name", None)
    if not isinstance(name, str) or name not in registry:
        return None
    if "::" in name:
        return "torch.ops." + name.replace("::", ".")
    if "." in name or hasattr(mt, name):
        return f"torch.{name}"
    return f"torch.Tensor.{name}"


def is_tensor_method_or_property(func: Any) -> bool:
    """Whether it is a method of Tensor."""
    return any(func is value for value in vars(mt.Tensor).values())


def get_overridable_functions() -> dict[Any, list[Any]]:
    """All operators, under what they belong to."""
    found: dict[Any, list[Any]] = {}
    for name, op in registry.items():
        found.setdefault(name.rpartition(".")[0] or "torch", []).append(op)
    return found


def get_ignored_functions() -> set[Any]:
    """Functions that cannot be overridden: those that take no tensors."""
    return {mt.is_tensor, mt.is_storage, mt.set_default_dtype, mt.get_default_dtype, mt.set_default_device, mt.broadcast_shapes}


def get_default_nowrap_functions() -> set[Any]:
    """What keeps its class when a subclass asks: the base of a view, and the gradient."""
    return {getattr(vars(mt.Tensor)[name], "__get__") for name in ("_base", "grad")}  # noqa: B009


def get_testing_overrides() -> dict[Any, Callable[..., Any]]:
    """For each operator a function that takes anything and returns -1."""
    return {op: lambda *args, **kwargs: -1 for op in registry.values()}


class enable_reentrant_dispatch:
    """A context manager without effect: an operator may always be called within a mode."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: Any) -> None:
        return None


def _get_current_function_mode_stack() -> list[Any]:
    from metatensor._core.modes import current_modes

    return [mode for mode in current_modes() if isinstance(mode, TorchFunctionMode)]


def _get_current_function_mode() -> Any:
    stack = _get_current_function_mode_stack()
    return stack[-1] if stack else None
