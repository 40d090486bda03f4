"""Overriding of functions: `TorchFunctionMode`, and helpers for classes with ``__torch_function__``."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

import metatensor as mt
from metatensor._core.modes import TorchFunctionMode as Mode
from metatensor._core.op import Op, OpMethod, OpProperty, registry
from metatensor._core.overrides import (
    handle_torch_function,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
    overridable_attributes,
)
from metatensor._core.thread import DisableTorchFunctionSubclass
from metatensor.overloads import OpOverload, OpOverloadPacket

__all__ = [
    "BaseTorchFunctionMode", "TorchFunctionMode", "enable_reentrant_dispatch", "get_default_nowrap_functions",
    "get_ignored_functions", "get_overridable_functions", "get_testing_overrides", "handle_torch_function",
    "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic", "is_tensor_like",
    "is_tensor_method_or_property", "redispatch_torch_function", "resolve_name", "wrap_torch_function",
]  # fmt: skip


class TorchFunctionMode(Mode):
    """Context manager whose ``__torch_function__`` receives every call of a function or a method of tensors.

    Subclasses define ``__torch_function__(self, func, types, args=(), kwargs=None)``. Calls made inside that method go
    to the next outer mode, or are executed if there is none.
    """

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__}: define __torch_function__(self, func, types, args, kwargs)")


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that executes every call unchanged."""

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        return func(*args, **(kwargs or {}))


def redispatch_torch_function(func: Any, types: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Execute a call while subclasses cannot override it."""
    with DisableTorchFunctionSubclass():
        return func(*args, **kwargs)


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that makes a function overridable.

    `dispatcher` receives the arguments and returns those whose classes may override the function.
    """

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
    """Return whether `inp` is a tensor, or its class has ``__torch_function__``."""
    return isinstance(inp, mt.Tensor) or hasattr(type(inp), "__torch_function__")


def _tensor_attributes() -> dict[str, Any]:
    """Return the overridable attributes of Tensor by name: methods, and ``__get__`` of properties."""
    found: dict[str, Any] = {}
    # An operator with several names is listed only under its main name, which is the one that ``__torch_function__``
    # receives.
    attributes = {
        name: value for name, value in vars(mt.Tensor).items() if isinstance(value, (OpMethod, OpProperty)) and value.op.__name__ == name
    }
    for name, value in {**attributes, **overridable_attributes()}.items():
        if isinstance(value, OpProperty) or hasattr(type(value), "__set__"):
            found[f"{name}.__get__"] = getattr(value, "__get__")  # noqa: B009
        else:
            found[name] = value
    return found


@functools.cache
def _methods() -> set[Any]:
    return set(_tensor_attributes().values())


def _takes_tensors(op: Any) -> bool:
    return any("Tensor" in schema.partition("->")[0] for schema in op.schemas)


@functools.cache
def _names() -> tuple[dict[Any, list[Any]], dict[Any, str]]:
    """Return the overridable functions by their module or class, and the name of each function."""
    torch = import_module("metatensor.torch_api.torch")
    torch_functional = import_module("metatensor.torch_api.torch.functional")
    places: list[tuple[str, Any, Iterable[tuple[str, Any]]]] = [
        ("torch.functional", torch_functional, [(name, getattr(torch_functional, name, None)) for name in torch_functional.__all__])
    ]
    for name in ("", "nn.functional", "linalg", "fft", "special"):
        module = functools.reduce(getattr, filter(None, name.split(".")), torch)
        shown = [n for n in dir(module) if not n.startswith("_") or n in ("_conj", "_neg_view")]
        there: list[tuple[str, Any]] = [(n, getattr(module, n, None)) for n in shown]
        places.append((f"torch.{name}".rstrip("."), module, there))
    functions: dict[Any, list[Any]] = {}
    names: dict[Any, str] = {}
    for prefix, module, public in places:
        for name, value in public:  # an operator with several names is listed once
            if isinstance(value, Op) and value not in names and _takes_tensors(value):
                functions.setdefault(module, []).append(value)
                names[value] = f"{prefix}.{name}" if prefix == "torch.functional" else f"torch.{value.name}"
    for name, value in _tensor_attributes().items():
        functions.setdefault(mt.Tensor, []).append(value)
        names.setdefault(value, f"torch.Tensor.{name}")
    return functions, names


def resolve_name(f: Any) -> str | None:
    """Return the dotted name of an overridable function, such as "torch.Tensor.add", or None for anything else."""
    if isinstance(f, (OpOverload, OpOverloadPacket)):
        return str(f)
    try:
        found = _names()[1].get(f)
    except TypeError:  # not hashable
        return None
    if found is None and isinstance(f, Op) and f.name in registry:
        return "torch.ops." + f.name.replace("::", ".") if "::" in f.name else f"torch.{f.name}"
    if found is None and getattr(f, "__name__", "") in ("__set__", "__delete__"):
        owner = getattr(getattr(f, "__self__", None), "__name__", None)
        return f"torch.Tensor.{owner}.{f.__name__}" if owner else None
    return found


def is_tensor_method_or_property(func: Any) -> bool:
    """Return whether `func` is a method of Tensor, or ``__get__`` of a property."""
    return getattr(func, "__name__", "") in ("__get__", "__set__", "__delete__") or func in _methods()


def get_overridable_functions() -> dict[Any, list[Any]]:
    """Return the functions that ``__torch_function__`` can receive, by their module or class."""
    return {owner: list(functions) for owner, functions in _names()[0].items()}


@functools.cache
def get_ignored_functions() -> set[Any]:
    """Return the public functions without tensor arguments, which nothing can override."""
    torch = import_module("metatensor.torch_api.torch")
    plain = (
        "broadcast_shapes compile get_default_dtype get_default_device is_storage is_tensor load manual_seed save seed set_default_dtype "
        "set_default_device set_printoptions typename get_rng_state set_rng_state initial_seed vmap"
    ).split()
    found = {getattr(torch, name) for name in plain if hasattr(torch, name)}
    found |= {op for op in registry.values() if not op.schemas or not _takes_tensors(op)}
    return found | {mt.Tensor.__new__, mt.Tensor.__init__, mt.Tensor.__hash__, mt.Tensor._make_subclass, mt.Tensor.as_subclass}


def get_default_nowrap_functions() -> set[Any]:
    """Return the functions whose results are not converted to a subclass: ``__get__`` of `_base` and `grad`."""
    return {getattr(vars(mt.Tensor)[name], "__get__") for name in ("_base", "grad")}  # noqa: B009


def _answer(function: Any) -> Callable[..., Any]:
    def answer(*_: Any, **__: Any) -> int:
        return -1

    try:
        answer.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        if getattr(function, "__name__", "") == "__get__":
            answer.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
                [inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)])  # fmt: skip
    return answer


@functools.cache
def get_testing_overrides() -> dict[Any, Callable[..., Any]]:
    """Return, for each overridable function, a function with the same signature that returns -1."""
    return {function: _answer(function) for function in _names()[1]}


class enable_reentrant_dispatch:
    """A context manager that does nothing.

    ``__torch_dispatch__`` may always call operators on tensors whose class defines it.
    """

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
