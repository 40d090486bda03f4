"""TorchScript's functions. There is no compiler: what would compile returns what it got, and bytecode is refused."""

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
    """What TorchScript raises."""


class TracerWarning(Warning):
    """What a tracer warns with."""


class ScriptWarning(Warning):
    """What the script compiler warns with."""


class ScriptModule(mt.nn.Module):
    """A module to subclass; its methods run as they are written."""


class RecursiveScriptModule(ScriptModule):
    """The class of compiled modules. There are none: nothing is an instance."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError("torch.jit.RecursiveScriptModule: metatensor runs no TorchScript; use the module itself")


class ScriptFunction:
    """The class of compiled functions. There are none: nothing is an instance."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError("torch.jit.ScriptFunction: metatensor runs no TorchScript; use the function itself")


def is_scripting() -> bool:
    """False: code always runs in Python."""
    return False


def is_tracing() -> bool:
    """False: nothing is traced."""
    return False


def script(obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> Any:
    """``obj`` itself."""
    return obj


def trace(func: Any, *args: Any, **options: Any) -> Any:
    """``func`` itself."""
    return func


def trace_module(mod: Any, inputs: Any, **options: Any) -> Any:
    """``mod`` itself."""
    return mod


def script_method(fn: Any) -> Any:
    """``fn`` itself."""
    return fn


def script_if_tracing(fn: Any) -> Any:
    """``fn`` itself."""
    return fn


_script_if_tracing = script_if_tracing


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """``mod`` itself."""
    return mod


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    """``mod`` itself."""
    return mod


def export(fn: Any) -> Any:
    """``fn`` itself, as a decorator."""
    return fn


def interface(obj: Any) -> Any:
    """``obj`` itself, as a decorator."""
    return obj


def ignore(drop: Any = False, **_: Any) -> Any:
    """A decorator, with or without arguments, that leaves the function as it is."""
    return drop if callable(drop) else lambda fn: fn


def unused(fn: Any) -> Any:
    """``fn`` itself, as a decorator."""
    return fn


def _overload(func: Any) -> Any:
    return func


def _overload_method(func: Any) -> Any:
    return func


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run ``func`` now; `wait` gives what it returned."""
    future: Any = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Any) -> Any:
    """What a function given to `fork` returned."""
    return future.wait()


def load(f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False) -> Any:
    """NotImplementedError: TorchScript's bytecode needs PyTorch."""
    raise NotImplementedError("torch.jit.load: TorchScript bytecode cannot run without PyTorch; load the model's weights into its class")


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """NotImplementedError: TorchScript's bytecode needs PyTorch."""
    raise NotImplementedError("torch.jit.save: there is no TorchScript bytecode to save without PyTorch; save the state_dict")


@contextmanager
def optimized_execution(should_optimize: bool) -> Any:
    """Nothing to optimise."""
    yield


def set_fusion_strategy(strategy: Any) -> list:
    """No strategies: an empty list."""
    return []


def onednn_fusion_enabled() -> bool:
    """False."""
    return False


def enable_onednn_fusion(enabled: bool) -> None:
    """NotImplementedError where it is to be enabled."""
    if enabled:
        raise NotImplementedError("torch.jit.enable_onednn_fusion: there is no TorchScript compiler in metatensor")
