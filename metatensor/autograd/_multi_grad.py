"""Hooks that are called when the gradients of several tensors are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from metatensor._core.engine import walk_number
from metatensor._core.tensor import Tensor

__all__ = ["register_multi_grad_hook"]


class _Handles:
    """The handle of a hook on several tensors."""

    def __init__(self, handles: list) -> None:
        self.handles = handles

    def remove(self) -> None:
        """Remove the hook from all tensors."""
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> _Handles:
        return self

    def __exit__(self, *_: Any) -> None:
        self.remove()


def register_multi_grad_hook(tensors: Sequence[Any], fn: Callable[..., Any], *, mode: str = "all") -> _Handles:
    """Call `fn` once in each backward pass, when the gradients of several tensors are known.

    Parameters
    ----------
    tensors : sequence of Tensor
        The tensors. They must require grad.
    fn : callable
        In mode "all" it is called with a list of gradients in the order of `tensors`, with None for a tensor without a
        gradient. In mode "any" it is called with the first gradient that is computed.
    mode : {"all", "any"}
        Whether `fn` waits for the gradients of all tensors, or is called after the first. Default "all".

    Returns
    -------
    handle
        An object whose `remove` removes the hook.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"register_multi_grad_hook: mode must be 'all' or 'any', got {mode!r}")
    for i, t in enumerate(tensors):
        if not isinstance(t, Tensor):
            raise TypeError(f"register_multi_grad_hook: tensor {i} is {type(t).__name__}, not a Tensor")
    seen: dict[int, list] = {}  # number of the backward pass -> gradients so far

    def hook_for(i: int) -> Callable[[Any], None]:
        def hook(gradient: Any) -> None:
            walk, reached = walk_number(tensors)
            found = seen.get(walk)
            if found is None:
                seen.clear()
                found = seen[walk] = [None] * len(tensors) + [0]
            found[-1] += 1
            if mode == "any":
                if found[-1] == 1:
                    fn(gradient)
                return
            found[i] = gradient
            if found[-1] == reached:
                del seen[walk]
                fn(found[:-1])

        return hook

    return _Handles([t.register_hook(hook_for(i)) for i, t in enumerate(tensors)])
