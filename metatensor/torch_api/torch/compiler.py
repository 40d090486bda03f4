"""Hints for a compiler, which metatensor does not have. Decorators return the function."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable", "is_compiling",
    "is_dynamo_compiling", "is_exporting", "list_backends", "reset", "set_stance", "substitute_in_graph",
    "wrap_numpy",
]  # fmt: skip


def compile(*args: Any, **kwargs: Any) -> Any:
    """Do the same as `torch.compile`."""
    from metatensor.torch_api import torch

    return torch.compile(*args, **kwargs)


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Return `fn` unchanged, or a decorator that does so."""
    return fn if fn is not None else lambda fn: fn


def allow_in_graph(fn: Any) -> Any:
    """Return `fn` unchanged."""
    return fn


def assume_constant_result(fn: Any) -> Any:
    """Return `fn` unchanged."""
    return fn


def wrap_numpy(fn: Any) -> Any:
    """Raise NotImplementedError: calls of NumPy are not converted into calls of tensor functions."""
    raise NotImplementedError("torch.compiler.wrap_numpy: metatensor does not convert calls of NumPy into calls of tensor functions")


def substitute_in_graph(original_fn: Any, **_: Any) -> Callable[[Any], Any]:
    """Return a decorator that returns its function unchanged."""
    return lambda fn: fn


_running = threading.local()


@contextmanager
def compiling(kind: str = "compile") -> Any:
    """Return a context manager inside which `is_compiling` returns True in this thread. `kind` is "compile" or "export"."""
    before = getattr(_running, "kind", None)
    _running.kind = kind
    try:
        yield
    finally:
        _running.kind = before


def is_compiling() -> bool:
    """Return whether a graph is captured in this thread by `torch.compile` or `torch.export`."""
    return getattr(_running, "kind", None) is not None


def is_dynamo_compiling() -> bool:
    """Return whether a graph is captured in this thread by `torch.compile`."""
    return getattr(_running, "kind", None) == "compile"


def is_exporting() -> bool:
    """Return whether a graph is captured in this thread by `torch.export`."""
    return getattr(_running, "kind", None) == "export"


def reset() -> None:
    """Do nothing."""


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """Return an empty list."""
    return []


def cudagraph_mark_step_begin() -> None:
    """Do nothing."""


@contextmanager
def _stance() -> Any:
    yield


def set_stance(stance: str = "default", **_: Any) -> Any:
    """Return a context manager and decorator that does nothing."""
    return _stance()
