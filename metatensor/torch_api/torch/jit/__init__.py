"""TorchScript's functions, implemented with programs of operator calls (`metatensor.program`).

`trace` runs a function once and returns a function that repeats the calls of operators that it made. `script` returns a function or module
that runs as Python code; its program is traced in its first call. There is no compiler for TorchScript: `save` and `load` use
metatensor's program files.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any, Final

from metatensor._core.lazy import attributes
from metatensor.torch_api.torch.jit.annotations import Attribute, Future, annotate, isinstance_

__all__ = [
    "Attribute", "Error", "Final", "Future", "RecursiveScriptModule", "ScriptFunction", "ScriptModule", "ScriptWarning",
    "TracerWarning", "annotate", "export", "fork", "freeze", "ignore", "interface", "is_scripting", "is_tracing",
    "isinstance", "load", "onednn_fusion_enabled", "optimize_for_inference", "optimized_execution", "save", "script",
    "script_if_tracing", "script_method", "set_fusion_strategy", "trace", "trace_module", "unused", "wait",
]  # fmt: skip

# Loaded on first access: most importers need the decorators only.
__getattr__, __dir__ = attributes(
    __name__, ("annotations", "_programs", "_saving", "_script", "_trace"),
    {name: f"{__name__}._programs:{name}" for name in (
        "RecursiveScriptModule", "ScriptFunction", "ScriptModule", "TopLevelTracedModule", "TracedModule")}
    | {name: f"{__name__}._saving:{name}" for name in ("load", "save")}
    | {name: f"{__name__}._script:{name}" for name in ("freeze", "optimize_for_inference", "script")}
    | {name: f"{__name__}._trace:{name}" for name in ("TracerWarning", "is_tracing", "script_if_tracing", "trace", "trace_module")}
    | {"_script_if_tracing": f"{__name__}._trace:script_if_tracing"},
)  # fmt: skip

isinstance = isinstance_


class Error(RuntimeError):
    """The error of functions that cannot become programs."""


class ScriptWarning(Warning):
    """The warning class of the script compiler. It is never issued."""


def is_scripting() -> bool:
    """Return False, because code always runs in Python."""
    return False


def script_method(fn: Any) -> Any:
    """Return `fn` unchanged."""
    return fn


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
