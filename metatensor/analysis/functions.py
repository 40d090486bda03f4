"""Functions in place of modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor.nn._referenced import referenced_modules

__all__ = ["as_module"]


class _Function(mt.nn.Module):
    """Calls a function. Its children are the modules that the function refers to."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        super().__init__()
        self._function = fn
        for name, module in referenced_modules(fn):
            self.add_module(name or "module", module)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)


def as_module(model: Any) -> mt.nn.Module:
    """Return a module unchanged, and for any other callable, a module that calls it and is named after it.

    The parameters of such a module are those of the modules that the function refers to.
    """
    if isinstance(model, mt.nn.Module):
        return model
    if not callable(model):
        raise ValueError(f"the model must be a module or a function, got {type(model).__name__}")
    return type(getattr(model, "__name__", type(model).__name__), (_Function,), {})(model)
