"""Tensors that are updated together, for ``foreach=True``: every operation runs on all of them before the next one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import metatensor as mt

__all__ = ["Many", "raise_to"]


class Many:
    """A list of tensors. Its methods call the method of the same name on each tensor.

    If an argument is also a `Many`, call i receives its member i. As in PyTorch, all results of an
    operation exist at the same time.
    """

    def __init__(self, tensors: Sequence[Any]) -> None:
        self.tensors = list(tensors)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)

        def on_each(*args: Any, **kwargs: Any) -> Many:
            made = [
                getattr(t, name)(*[arg.tensors[i] if isinstance(arg, Many) else arg for arg in args], **kwargs)
                for i, t in enumerate(self.tensors)
            ]
            # In-place operations return the tensors themselves.
            return self if all(a is b for a, b in zip(made, self.tensors, strict=True)) else Many(made)

        return on_each

    def __neg__(self) -> Many:
        return Many([-t for t in self.tensors])


def raise_to(target: Any, other: Any) -> Any:
    """Replace each element of `target` by the maximum of it and the corresponding element of `other`."""
    if isinstance(target, Many):
        for a, b in zip(target.tensors, other.tensors, strict=True):
            raise_to(a, b)
        return target
    if mt.is_grad_enabled() and (target.requires_grad or other.requires_grad):
        return target.copy_(mt.maximum(target, other))
    return mt.maximum(target, other, out=target)
