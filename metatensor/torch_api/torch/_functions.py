"""Functions and classes at the top of PyTorch that are no operators."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

import metatensor as mt
from metatensor._core.thread import DisableTorchFunctionSubclass
from metatensor.deferred import has_values

__all__ = [
    "AcceleratorError", "DisableTorchFunctionSubclass", "SymBool", "SymFloat", "SymInt", "_assert", "_assert_async",
    "_check", "_check_index", "_check_is_size", "_check_not_implemented", "_check_tensor_all", "_check_tensor_all_with", "_check_type",
    "_check_value", "_check_with", "_is_all_true", "_shape_as_tensor", "compile", "get_device_module", "is_anomaly_enabled",
    "is_distributed", "is_vulkan_available", "legacy_contiguous_format", "sym_float", "sym_int", "sym_ite", "sym_max", "sym_min",
    "sym_not", "sym_sqrt", "sym_sum", "typename",
]  # fmt: skip


def _torch() -> Any:
    return import_module("metatensor.torch_api.torch")



AcceleratorError = RuntimeError
legacy_contiguous_format = mt.contiguous_format


class SymInt:
    """A size that is a symbol: there are none here, so nothing is an instance."""

    def __init__(self, *_: Any) -> None:
        raise NotImplementedError(f"torch.{type(self).__name__}: sizes are numbers in metatensor, never symbols")


class SymFloat(SymInt):
    """A number that is a symbol: there are none here."""


class SymBool(SymInt):
    """A truth value that is a symbol: there are none here."""


def sym_int(a: Any) -> int:
    """``a`` as an int, rounded towards zero."""
    return int(a)


def sym_float(a: Any) -> float:
    """``a`` as a float."""
    return float(a)


def sym_not(a: Any) -> bool:
    """Whether ``a`` is false."""
    return not a


def sym_max(a: Any, b: Any) -> Any:
    """The larger of two numbers."""
    return max(a, b)


def sym_min(a: Any, b: Any) -> Any:
    """The smaller of two numbers."""
    return min(a, b)


def sym_sqrt(a: Any) -> float:
    """The square root of a number."""
    return math.sqrt(a)


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """``t`` where ``b`` is true, else ``f``."""
    return t if b else f


def sym_sum(args: Any) -> Any:
    """The sum of numbers."""
    return sum(args)


def _assert(condition: Any, message: str) -> None:
    """AssertionError where ``condition`` is false; a condition that is a tensor without data is taken for true."""
    if isinstance(condition, mt.Tensor) and not has_values(condition):
        return
    if not condition:
        raise AssertionError(message)


def _check_with(kind: type[Exception], cond: Any, message: Callable[[], str] | None = None) -> None:
    if not isinstance(cond, bool):
        raise TypeError(f"_check: cond must be a bool, got {type(cond).__name__}")
    if not cond:
        raise kind("a check failed" if message is None else str(message()))


def _check(cond: Any, message: Callable[[], str] | None = None) -> None:
    """RuntimeError with what ``message()`` says where ``cond`` is False."""
    _check_with(RuntimeError, cond, message)


def _check_tensor_all_with(kind: type[Exception], cond: Any, message: Callable[[], str] | None = None) -> None:
    """An exception of this kind where an element of a bool tensor with data is False."""
    if not isinstance(cond, mt.Tensor) or cond.dtype is not mt.bool:
        raise TypeError("_check_tensor_all: cond must be a bool tensor")
    if cond.untyped_storage().data is not None:
        _check_with(kind, bool(cond.all()), message)


def _check_tensor_all(cond: Any, message: Callable[[], str] | None = None) -> None:
    """RuntimeError where an element of a bool tensor with data is False."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _check_is_size(i: int, message: Callable[[], str] | None = None, *, max: int | None = None) -> None:
    """RuntimeError where ``i`` is negative, or above ``max``."""
    _check_with(RuntimeError, i >= 0 and (max is None or i <= max), message)


def _check_index(cond: Any, message: Callable[[], str] | None = None) -> None:
    """IndexError where ``cond`` is False."""
    _check_with(IndexError, cond, message)


def _check_value(cond: Any, message: Callable[[], str] | None = None) -> None:
    """ValueError where ``cond`` is False."""
    _check_with(ValueError, cond, message)


def _check_type(cond: Any, message: Callable[[], str] | None = None) -> None:
    """TypeError where ``cond`` is False."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: Callable[[], str] | None = None) -> None:
    """NotImplementedError where ``cond`` is False."""
    _check_with(NotImplementedError, cond, message)


def _assert_async(cond: Any, message: str = "") -> None:
    """RuntimeError where a tensor of one element with data is zero."""
    if cond.untyped_storage().data is not None and not cond:
        raise RuntimeError(message or "_assert_async: the tensor is zero")


def typename(obj: Any, /) -> str:
    """The type of a tensor ("torch.FloatTensor"), or the dotted name of anything else's type."""
    if isinstance(obj, mt.Tensor):
        return str(obj.type())
    kind = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(kind, "__module__", None) or ""
    return kind.__qualname__ if module in ("", "builtins") else f"{module}.{kind.__qualname__}"


def compile(model: Any = None, **options: Any) -> Any:
    """Return ``model`` itself, which computes the same: there is no compiler. Without a model, return a decorator.

    Raises
    ------
    NotImplementedError
        For a ``backend`` that is a function: no graph is captured that it could be called with.
    """
    if callable(options.get("backend")):
        raise NotImplementedError(
            "torch.compile: metatensor captures no graph for torch.compile, so a backend that is a function would never be called"
        )
    if model is None:
        return lambda model: compile(model, **options)
    if not callable(model):
        raise RuntimeError(f"torch.compile: expected something to call, got {type(model).__name__}")
    return model


def get_device_module(device: Any = None) -> ModuleType:
    """The module of a device type, such as ``torch.cuda``; that of the accelerator, or of the cpu, for None."""
    if device is None:
        found = _torch().accelerator.current_accelerator()
        kind = "cpu" if found is None else found.type
    else:
        kind = mt.device(device).type
    try:
        return getattr(_torch(), kind)
    except AttributeError:
        raise RuntimeError(f"torch.get_device_module: there is no module torch.{kind}") from None


def is_anomaly_enabled() -> bool:
    """False: there is no backward to watch."""
    return False


def is_distributed(input: Any) -> bool:
    """False: no tensor is spread over processes."""
    return False


def is_vulkan_available() -> bool:
    """False."""
    return False


def _is_all_true(input: Any) -> Any:
    """Whether all elements of a bool tensor are true."""
    return mt.all(input)


def _shape_as_tensor(input: Any) -> Any:
    """The shape as an int64 tensor on the cpu."""
    return mt.tensor(input.shape, dtype=mt.int64, device="cpu")
