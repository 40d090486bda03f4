"""``__torch_function__``: its default implementation, and the attributes of subclasses that call it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any

from metatensor._core.modes import function_mode_active, override, overriding
from metatensor._core.op import OpMethod, OpProperty
from metatensor._core.tensor import Tensor, _disabled_torch_function_impl
from metatensor._core.thread import DisableTorchFunctionSubclass

__all__ = [
    "declare", "default_torch_function", "handle_torch_function", "has_torch_function", "has_torch_function_unary",
    "has_torch_function_variadic", "overridable_attributes",
]  # fmt: skip

# Attributes of Tensor that can never be overridden.
_NEVER = frozenset((
    "__annotations__", "__array_priority__", "__class__", "__class_getitem__", "__delattr__", "__dict__", "__dir__", "__doc__",
    "__getattribute__", "__getstate__", "__hash__", "__init__", "__init_subclass__", "__module__", "__new__", "__pyx_vtable__",
    "__reduce__", "__reduce_cython__", "__setattr__", "__setstate__",
    "__setstate_cython__", "__sizeof__", "__subclasshook__", "__torch_dispatch__", "__torch_function__",
    "__weakref__", "_make_subclass", "_make_wrapper_subclass", "as_subclass",
))  # fmt: skip
# Special methods that call an operator. The dispatcher handles overrides of that operator.
_AS_METHODS = frozenset(
    f"__{name}__"
    for name in (
        "add radd iadd sub isub mul rmul imul truediv itruediv mod neg pos abs ne lt le gt ge matmul rand ror rxor"
    ).split()
)
_RETURNING_TENSORS = ("data", "new")


def _wrap(value: Any, cls: type) -> Any:
    if type(value) is Tensor:
        return value.as_subclass(cls)
    if isinstance(value, (list, tuple)):
        parts = [_wrap(v, cls) for v in value]
        if all(a is b for a, b in zip(parts, value, strict=True)):
            return value
        return type(value)(parts)
    return value


@cache
def _kept() -> tuple[Any, ...]:
    return tuple(getattr(vars(Tensor)[name], "__get__") for name in ("_base", "grad"))  # noqa: B009


def default_torch_function(cls: type, func: Any, types: Iterable[type], args: tuple, kwargs: dict[str, Any] | None) -> Any:
    """Call `func` with overrides disabled, then convert the results to instances of `cls`."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
    return result if func in _kept() else _wrap(result, cls)


# Attributes that are not operators --------------------------------------------------------------


class _Method:
    """Wraps a method of Tensor in a subclass, so that it calls ``__torch_function__``."""

    def __init__(self, original: Any) -> None:
        self.original = original

    def __get__(self, obj: Any, cls: type | None = None) -> Any:
        return self.original if obj is None else partial(self._call, obj)

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        found = override(self.original, args, args, kwargs)
        return found[0] if found else self.original(*args, **kwargs)


class _Property:
    """Wraps a property of Tensor in a subclass, so that it calls ``__torch_function__``."""

    def __init__(self, original: Any) -> None:
        self.original = original

    def __get__(self, obj: Any, cls: type | None = None) -> Any:
        if obj is None:
            return self.original
        found = override(self.original.__get__, (obj,), (obj,), {})
        return found[0] if found else self.original.__get__(obj, cls)

    def __set__(self, obj: Any, value: Any) -> None:
        if not override(self.original.__set__, (obj, value), (obj, value), {}):
            self.original.__set__(obj, value)

    def __delete__(self, obj: Any) -> None:
        if not override(self.original.__delete__, (obj,), (obj,), {}):
            self.original.__delete__(obj)


@cache
def overridable_attributes() -> dict[str, Any]:
    """Return the methods and properties of Tensor that can be overridden and are not operators, by name."""
    return {
        name: value
        for name, value in vars(Tensor).items()
        if name not in _NEVER
        and name not in _AS_METHODS
        and not isinstance(value, (OpMethod, OpProperty, staticmethod, classmethod))
        and hasattr(value, "__get__")
    }


def _function(method: Any) -> Any:
    return getattr(method, "__func__", method)


def declare(cls: Any) -> None:
    """Set attributes on a new subclass of Tensor that say what it overrides, and wrap its methods and properties."""
    function = _function(cls.__torch_function__)
    cls._overrides_function = function is not _disabled_torch_function_impl
    cls._overrides_torch_dispatch = _function(cls.__torch_dispatch__) is not _function(vars(Tensor)["__torch_dispatch__"])
    cls._overrides_dispatch = cls._overrides_function or cls._overrides_torch_dispatch
    if not cls._overrides_function or getattr(cls, "_overrides_operators_only", False):
        return
    names: Iterable[str] = overridable_attributes()
    if function is _function(Tensor.__torch_function__):
        names = _RETURNING_TENSORS
    for name in names:
        owner = next(base for base in cls.__mro__ if name in vars(base))
        if owner is Tensor:
            original = vars(Tensor)[name]
            setattr(cls, name, (_Property if hasattr(type(original), "__set__") else _Method)(original))


# For functions written in Python ------------------------------------------------------------------


def has_torch_function(relevant_args: Iterable[Any], /) -> bool:
    """Return True if any of the arguments, or a mode, overrides functions."""
    return function_mode_active() or bool(overriding([x for x in relevant_args if type(x) not in (list, tuple)]))


def has_torch_function_unary(obj: Any, /) -> bool:
    """Return True if the argument, or a mode, overrides functions."""
    return has_torch_function((obj,))


def has_torch_function_variadic(*args: Any) -> bool:
    """Return True if any of the arguments, or a mode, overrides functions."""
    return has_torch_function(args)


def handle_torch_function(public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """Let a function mode, or an argument that overrides functions, handle a call, and return the result.

    Parameters
    ----------
    public_api : callable
        The function that was called.
    relevant_args : iterable
        The arguments that may override it.
    *args, **kwargs
        The arguments of the call.

    Raises
    ------
    TypeError
        If nothing overrides the call, or if all overrides return NotImplemented.
    """
    found = override(public_api, tuple(relevant_args), args, kwargs)
    if not found:
        raise TypeError(f"{getattr(public_api, '__name__', public_api)}(): none of the arguments has a __torch_function__")
    return found[0]
