"""Hints for a compiler. They have no effect, because metatensor has no compiler."""

from __future__ import annotations

from typing import Any

import metatensor as mt
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


def _indices(what: str, t: Any, index: Any) -> list[int]:
    """Return dimensions as a list. Raise AssertionError if they are no ints, IndexError if the tensor lacks one."""
    found = list(index) if isinstance(index, (list, tuple)) else [index]
    for one in found:
        if not isinstance(one, int) or isinstance(one, bool):
            raise AssertionError(f"torch._dynamo.{what}: the index must be an int or a list of ints, got {type(one).__name__}")
        if not -t.dim() <= one < t.dim():
            raise IndexError(f"torch._dynamo.{what}: a tensor of shape {list(t.shape)} has no dimension {one}")
    return found


def mark_dynamic(
    t: Any, index: Any, *, hint_override: int | None = None, min: int | None = None, max: int | None = None, specialize_on: Any = None
) -> None:  # fmt: skip
    """Note in ``t._dynamo_dynamic_indices`` that dimensions vary. Graphs are captured for each shape, so any size is right.

    Parameters
    ----------
    t : Tensor
        An argument of a compiled function.
    index : int or sequence of int
        Its dimensions that vary.
    min, max : int, optional
        Bounds, which the size must satisfy.
    hint_override, specialize_on
        Not supported, because there is no graph for several sizes that they could tune.

    Raises
    ------
    AssertionError, IndexError
        If `index` is no dimension of the tensor.
    ValueError
        If a size is not within the bounds.
    NotImplementedError
        If `hint_override` or `specialize_on` is given.
    """
    if hint_override is not None or specialize_on:
        raise NotImplementedError("torch._dynamo.mark_dynamic: hint_override and specialize_on; each shape has a graph of its own")
    found = _indices("mark_dynamic", t, index)
    for one in found:
        if min is not None and t.shape[one] < min or max is not None and t.shape[one] > max:
            raise ValueError(f"torch._dynamo.mark_dynamic: dimension {one} of shape {list(t.shape)} is not within min={min} and max={max}")
    t._dynamo_dynamic_indices = {*getattr(t, "_dynamo_dynamic_indices", ()), *found}


def maybe_mark_dynamic(t: Any, index: Any) -> None:
    """Note in ``t._dynamo_weak_dynamic_indices`` that dimensions may vary."""
    found = _indices("maybe_mark_dynamic", t, index)
    t._dynamo_weak_dynamic_indices = {*getattr(t, "_dynamo_weak_dynamic_indices", ()), *found}


def mark_static(t: Any, index: Any = None) -> None:
    """Note in ``t._dynamo_static_indices`` that dimensions do not vary, which holds for all of them. Default: all."""
    if isinstance(t, type):  # a class of modules, whose attributes are fixed anyway
        return
    found = _indices("mark_static", t, list(range(t.dim())) if index is None else index)
    t._dynamo_static_indices = {*getattr(t, "_dynamo_static_indices", ()), *found}


def mark_static_address(t: Any, guard: bool = False) -> None:
    """Do nothing: no address is part of a graph."""
    if not isinstance(t, mt.Tensor):
        raise TypeError(f"torch._dynamo.mark_static_address: expected a Tensor, got {type(t).__name__}")


def optimize(*_: Any, **__: Any) -> Any:
    """Return a decorator that returns its function unchanged."""
    return lambda fn: fn


def explain(f: Any, *_: Any, **__: Any) -> Any:
    """Raise NotImplementedError: nothing is compiled."""
    raise NotImplementedError("torch._dynamo.explain: nothing is compiled in metatensor")
