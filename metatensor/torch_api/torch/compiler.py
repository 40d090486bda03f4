"""Hints to a compiler that is not there: decorators that leave functions as they are, predicates that say no."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable", "is_compiling",
    "is_dynamo_compiling", "is_exporting", "list_backends", "reset", "set_stance", "substitute_in_graph",
    "wrap_numpy",
]  # fmt: skip


def compile(*args: Any, **kwargs: Any) -> Any:
    """What `torch.compile` does: nothing."""
    from metatensor.torch_api import torch

    return torch.compile(*args, **kwargs)


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """``fn`` itself, or a decorator that returns it."""
    return fn if fn is not None else lambda fn: fn


def allow_in_graph(fn: Any) -> Any:
    """``fn`` itself."""
    return fn


def assume_constant_result(fn: Any) -> Any:
    """``fn`` itself."""
    return fn


def wrap_numpy(fn: Any) -> Any:
    """NotImplementedError: NumPy calls are not turned into tensor calls."""
    raise NotImplementedError("torch.compiler.wrap_numpy: NumPy calls are not turned into tensor calls in metatensor")


def substitute_in_graph(original_fn: Any, **_: Any) -> Callable[[Any], Any]:
    """A decorator that returns its function: there is no graph to substitute in."""
    return lambda fn: fn


def is_compiling() -> bool:
    """False."""
    return False


def is_dynamo_compiling() -> bool:
    """False."""
    return False


def is_exporting() -> bool:
    """False."""
    return False


def reset() -> None:
    """Nothing was compiled."""


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """No backends."""
    return []


def cudagraph_mark_step_begin() -> None:
    """Nothing to mark."""


@contextmanager
def _stance() -> Any:
    yield


def set_stance(stance: str = "default", **_: Any) -> Any:
    """A context manager, or a decorator, without effect."""
    return _stance()
