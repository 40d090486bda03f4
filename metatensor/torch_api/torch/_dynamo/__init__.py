"""Hints for a compiler. They have no effect, because metatensor has no compiler."""

from __future__ import annotations

from typing import Any

from metatensor._core.lazy import attributes
from metatensor.torch_api.torch.compiler import (
    allow_in_graph,
    assume_constant_result,
    disable,
    is_compiling,
    reset,
    substitute_in_graph,
)  # fmt: skip

__all__ = ["allow_in_graph", "assume_constant_result", "disable", "disallow_in_graph", "explain", "graph_break",
           "is_compiling", "mark_dynamic", "mark_static", "mark_static_address", "maybe_mark_dynamic", "optimize", "reset",
           "substitute_in_graph"]  # fmt: skip

__getattr__, __dir__ = attributes(__name__, ("_trace_wrapped_higher_order_op", "config", "eval_frame", "external_utils", "utils"),
                                    {"OptimizedModule": f"{__name__}.eval_frame:OptimizedModule"})  # fmt: skip


def disallow_in_graph(fn: Any) -> Any:
    """Return `fn` unchanged."""
    return fn


def graph_break(msg: str = "") -> None:
    """Do nothing."""


def mark_dynamic(t: Any, index: Any, **_: Any) -> None:
    """Do nothing."""


maybe_mark_dynamic = mark_static = mark_dynamic


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Do nothing."""


def optimize(*_: Any, **__: Any) -> Any:
    """Return a decorator that returns its function unchanged."""
    return lambda fn: fn


def explain(f: Any, *_: Any, **__: Any) -> Any:
    """Raise NotImplementedError: nothing is compiled."""
    raise NotImplementedError("torch._dynamo.explain: nothing is compiled in metatensor")
