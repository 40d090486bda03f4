"""Functions and classes of PyTorch's top-level module that are not operators."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

import metatensor as mt
from metatensor._core.overrides import handle_torch_function, has_torch_function
from metatensor._core.thread import DisableTorchFunctionSubclass
from metatensor.deferred import has_values

__all__ = [
    "AcceleratorError", "DisableTorchFunctionSubclass", "SymBool", "SymFloat", "SymInt", "_assert", "_assert_async",
    "_check", "_check_index", "_check_is_size", "_check_not_implemented", "_check_tensor_all", "_check_tensor_all_with", "_check_type",
    "_check_value", "_check_with", "_is_all_true", "_shape_as_tensor", "compile", "from_file", "get_device_module", "is_anomaly_enabled",
    "is_distributed", "is_vulkan_available", "legacy_contiguous_format", "sym_float", "sym_int", "sym_ite", "sym_max", "sym_min",
    "sym_not", "sym_sqrt", "sym_sum", "typename",
]  # fmt: skip


def _torch() -> Any:
    return import_module("metatensor.torch_api.torch")



AcceleratorError = RuntimeError
legacy_contiguous_format = mt.contiguous_format


class SymInt:
    """A symbolic size. It has no instances, because sizes are numbers in metatensor."""

    def __init__(self, *_: Any) -> None:
        raise NotImplementedError(f"torch.{type(self).__name__}: sizes are numbers in metatensor, never symbolic")


class SymFloat(SymInt):
    """A symbolic number. It has no instances."""


class SymBool(SymInt):
    """A symbolic bool. It has no instances."""


def from_file(
    filename: str, shared: bool | None = None, size: int = 0, *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Any:
    """Return the first `size` elements of a file as a vector on cpu. With `shared`, writes change the file."""
    dtype = mt.get_default_dtype() if dtype is None else dtype
    if device is not None and mt.device(device).type != "cpu":
        raise RuntimeError(f"from_file: files can be mapped on cpu only, not on {device}")
    storage = mt.UntypedStorage.from_file(filename, bool(shared), size * dtype.itemsize)
    return mt.empty(0, dtype=dtype, device="cpu").set_(storage, 0, (size,)).requires_grad_(requires_grad)


def _overridable(function: Any) -> Any:
    """Let objects with ``__torch_function__`` among the positional arguments handle the calls of a function."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if all(type(a) in (bool, int, float, str) for a in args) or not has_torch_function(args):
            return function(*args, **kwargs)
        return handle_torch_function(called, args, *args, **kwargs)

    return called


@_overridable
def sym_int(a: Any) -> int:
    """Return `a` as an int, rounded towards zero."""
    return int(a)


@_overridable
def sym_float(a: Any) -> float:
    """Return `a` as a float."""
    return float(a)


@_overridable
def sym_not(a: Any) -> bool:
    """Return whether `a` is false."""
    return not a


@_overridable
def sym_max(a: Any, b: Any) -> Any:
    """Return the larger of two numbers."""
    return max(a, b)


@_overridable
def sym_min(a: Any, b: Any) -> Any:
    """Return the smaller of two numbers."""
    return min(a, b)


@_overridable
def sym_sqrt(a: Any) -> float:
    """Return the square root of a number."""
    return math.sqrt(a)


@_overridable
def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """Return `t` if `b` is true, else `f`."""
    return t if b else f


def sym_sum(args: Any) -> Any:
    """Return the sum of numbers."""
    return sum(args)


def _assert(condition: Any, message: str) -> None:
    """Raise AssertionError if `condition` is false. A tensor without data counts as true."""
    if type(condition) not in (bool, mt.Tensor) and has_torch_function((condition,)):
        handled: None = handle_torch_function(_assert, (condition,), condition, message)  # a proxy returns one
        return handled
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
    """Raise RuntimeError with the text ``message()`` if `cond` is False."""
    _check_with(RuntimeError, cond, message)


def _check_tensor_all_with(kind: type[Exception], cond: Any, message: Callable[[], str] | None = None) -> None:
    """Raise an exception of class `kind` if an element of a bool tensor is False. A tensor without data passes."""
    if not isinstance(cond, mt.Tensor) or cond.dtype is not mt.bool:
        raise TypeError("_check_tensor_all: cond must be a bool tensor")
    if cond.untyped_storage().data is not None:
        _check_with(kind, bool(cond.all()), message)


def _check_tensor_all(cond: Any, message: Callable[[], str] | None = None) -> None:
    """Raise RuntimeError if an element of a bool tensor is False. A tensor without data passes."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _check_is_size(i: int, message: Callable[[], str] | None = None, *, max: int | None = None) -> None:
    """Raise RuntimeError if `i` is negative or greater than `max`."""
    _check_with(RuntimeError, i >= 0 and (max is None or i <= max), message)


def _check_index(cond: Any, message: Callable[[], str] | None = None) -> None:
    """Raise IndexError if `cond` is False."""
    _check_with(IndexError, cond, message)


def _check_value(cond: Any, message: Callable[[], str] | None = None) -> None:
    """Raise ValueError if `cond` is False."""
    _check_with(ValueError, cond, message)


def _check_type(cond: Any, message: Callable[[], str] | None = None) -> None:
    """Raise TypeError if `cond` is False."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: Callable[[], str] | None = None) -> None:
    """Raise NotImplementedError if `cond` is False."""
    _check_with(NotImplementedError, cond, message)


def _assert_async(cond: Any, message: str = "") -> None:
    """Raise RuntimeError if a tensor with one element is zero. A tensor without data passes."""
    if cond.untyped_storage().data is not None and not cond:
        raise RuntimeError(message or "_assert_async: the tensor is zero")


def typename(obj: Any, /) -> str:
    """Return the type of a tensor, such as "torch.FloatTensor", or the dotted name of any other object's type."""
    if isinstance(obj, mt.Tensor):
        return str(obj.type())
    kind = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(kind, "__module__", None) or ""
    return kind.__qualname__ if module in ("", "builtins") else f"{module}.{kind.__qualname__}"


def compile(model: Any = None, **options: Any) -> Any:
    """Return a function or module that is run by a backend. Without a model, return a decorator.

    If `backend` is a function, it is called with a graph (a `torch.fx.GraphModule`) and a list of example arguments, and returns the
    function to run instead. The arguments of the graph are the parameters, buffers and constants, followed by the tensors among the
    arguments of the call; it returns a tuple of tensors. There is one graph for each set of shapes. A model whose operators depend on
    values of tensors is run without the backend; with ``fullgraph=True`` it raises.

    For any other backend `model` itself is returned, because there is no compiler.

    Parameters
    ----------
    model : callable, optional
        A function or a module.
    **options
        ``backend``, ``fullgraph``; ``mode`` and ``options`` are passed to the backend. Others are ignored.

    Raises
    ------
    RuntimeError
        If `model` is not callable.
    """
    if model is None:
        return lambda model: compile(model, **options)
    if not callable(model):
        raise RuntimeError(f"torch.compile: expected a callable, got {type(model).__name__}")
    if callable(options.get("backend")) and not options.get("disable"):
        from metatensor.torch_api.torch._dynamo.eval_frame import compiled

        return compiled(model, **options)
    return model


def get_device_module(device: Any = None) -> ModuleType:
    """Return the module of a device type, such as ``torch.cuda``.

    None means the accelerator, or cpu if there is none. Raise RuntimeError if there is no such module.
    """
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
    """Return False, because there is no backward pass to check."""
    return False


def is_distributed(input: Any) -> bool:
    """Return False, because no tensor is distributed."""
    return False


def is_vulkan_available() -> bool:
    """Return False."""
    return False


def _is_all_true(input: Any) -> Any:
    """Return whether all elements of a bool tensor are true, as a tensor."""
    return mt.all(input)


def _shape_as_tensor(input: Any) -> Any:
    """Return the shape of a tensor as an int64 tensor on cpu."""
    return mt.tensor(input.shape, dtype=mt.int64, device="cpu")
