"""TorchScript's functions.

There is no compiler: functions that would compile return their argument, and `load` raises.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any, Final

import metatensor as mt
from metatensor._core.lazy import attributes
from metatensor.torch_api.torch.jit.annotations import Attribute, Future, annotate, isinstance_

__all__ = [
    "Attribute", "Error", "Final", "Future", "RecursiveScriptModule", "ScriptFunction", "ScriptModule", "ScriptWarning",
    "TracerWarning", "annotate", "export", "fork", "freeze", "ignore", "interface", "is_scripting", "is_tracing",
    "isinstance", "load", "onednn_fusion_enabled", "optimize_for_inference", "optimized_execution", "save", "script",
    "script_if_tracing", "script_method", "set_fusion_strategy", "trace", "trace_module", "unused", "wait",
]  # fmt: skip

__getattr__, __dir__ = attributes(__name__, ("annotations", "_script", "_trace"))

isinstance = isinstance_


class Error(RuntimeError):
    """The exception class of TorchScript. It is never raised."""


class TracerWarning(Warning):
    """The warning class of PyTorch's tracer. It is never issued."""


class ScriptWarning(Warning):
    """The warning class of the script compiler. It is never issued."""


class ScriptModule(mt.nn.Module):
    """A module class for subclassing. Methods of subclasses run as Python code."""


class RecursiveScriptModule(ScriptModule):
    """The class of compiled modules. It has no instances."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError("torch.jit.RecursiveScriptModule: metatensor runs no TorchScript; use the module itself")


class ScriptFunction:
    """The class of compiled functions. It has no instances."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError("torch.jit.ScriptFunction: metatensor runs no TorchScript; use the function itself")


def is_scripting() -> bool:
    """Return False, because code always runs in Python."""
    return False


def is_tracing() -> bool:
    """Return False, because nothing is traced."""
    return False


def script(obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> Any:
    """Return `obj` unchanged."""
    return obj


def trace(func: Any, *args: Any, **options: Any) -> Any:
    """Return `func` unchanged."""
    return func


def trace_module(mod: Any, inputs: Any, **options: Any) -> Any:
    """Return `mod` unchanged."""
    return mod


def script_method(fn: Any) -> Any:
    """Return `fn` unchanged."""
    return fn


def script_if_tracing(fn: Any) -> Any:
    """Return `fn` unchanged."""
    return fn


_script_if_tracing = script_if_tracing


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """Return `mod` unchanged."""
    return mod


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    """Return `mod` unchanged."""
    return mod


def export(fn: Any) -> Any:
    """Return `fn` unchanged."""
    return fn


def interface(obj: Any) -> Any:
    """Return `obj` unchanged."""
    return obj


def ignore(drop: Any = False, **_: Any) -> Any:
    """Return the function unchanged. With arguments, return a decorator that does so."""
    return drop if callable(drop) else lambda fn: fn


def unused(fn: Any) -> Any:
    """Return `fn` unchanged."""
    return fn


def _overload(func: Any) -> Any:
    return func


def _overload_method(func: Any) -> Any:
    return func


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call `func` immediately. Return a future that holds its result."""
    future: Any = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Any) -> Any:
    """Return the result of a future returned by `fork`."""
    return future.wait()


def load(f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False) -> Any:
    """Raise NotImplementedError: TorchScript bytecode cannot run without PyTorch."""
    raise NotImplementedError("torch.jit.load: TorchScript bytecode cannot run without PyTorch; load the model's weights into its class")


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """Raise NotImplementedError: there is no TorchScript bytecode to save."""
    raise NotImplementedError("torch.jit.save: there is no TorchScript bytecode to save without PyTorch; save the state_dict")


@contextmanager
def optimized_execution(should_optimize: bool) -> Any:
    """Return a context manager that does nothing."""
    yield


def set_fusion_strategy(strategy: Any) -> list:
    """Do nothing and return an empty list."""
    return []


def onednn_fusion_enabled() -> bool:
    """Return False."""
    return False


def enable_onednn_fusion(enabled: bool) -> None:
    """Raise NotImplementedError if `enabled` is true."""
    if enabled:
        raise NotImplementedError("torch.jit.enable_onednn_fusion: there is no TorchScript compiler in metatensor")
