"""Models that checkpoint their own blocks: a plan computes these blocks again in its own way instead.

A checkpoint is known by the code of the function that it calls. The first run of the model shows which of them contain a block.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from metatensor.nn.modules.module import Module
from metatensor.utils.checkpoint import watching

__all__ = ["Checkpoints", "unwatched", "without"]


class Checkpoints:
    """Notes the checkpoints of a model while it runs. The functions are called once, so gradients should be off."""

    def __init__(self) -> None:
        self._entered: list[Hashable] = []

    def __call__(self, function: Callable[..., Any]) -> Any:
        """Return a context for a call of a function that is checkpointed."""
        return self._calling(function)

    @contextmanager
    def _calling(self, function: Callable[..., Any]) -> Iterator[None]:
        self._entered.append(_code(function))
        try:
            yield
        finally:
            self._entered.pop()

    @property
    def entered(self) -> frozenset[Hashable]:
        """The checkpoints that contain what runs now."""
        return frozenset(self._entered)


def without(checkpoints: frozenset[Hashable], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function inside which these checkpoints of a model are left out."""
    if not checkpoints:
        return function

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        with watching(lambda inner: nullcontext() if _code(inner) in checkpoints else None):
            return function(*args, **kwargs)

    return called


def unwatched(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function inside which all checkpoints are made, as for a block that a plan checkpoints."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        with watching(None):
            return function(*args, **kwargs)

    return called


def _code(function: Any) -> Any:
    """Return what tells a checkpointed function from others: its code, and the class of the module that it belongs to."""
    if isinstance(function, functools.partial):
        return _code(function.func)
    owner = getattr(function, "__self__", None)
    if owner is not None and hasattr(function, "__func__"):
        return _code(owner), _code(function.__func__)
    if isinstance(function, Module):
        return type(vars(function).get("_stands_for", function))  # a `StandIn` is called in the place of its module
    return getattr(function, "__code__", None) or type(function)
