"""Running a module without lasting changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import metatensor as mt

__all__ = ["restoring"]


@contextmanager
def restoring(module: Any = None) -> Iterator[None]:
    """Return a context that restores random numbers on exit, and the buffers and gradients of a module if there is one."""
    parts = [] if module is None else list(module.modules())
    buffers = [(part, name, t, None if t.is_meta else t.detach().clone()) for part in parts for name, t in part._buffers.items()
               if t is not None]  # fmt: skip
    gradients = [(parameter, parameter.grad) for parameter in (() if module is None else module.parameters())]
    state = mt.get_rng_state()
    try:
        yield
    finally:
        mt.set_rng_state(state)
        for parameter, gradient in gradients:
            parameter.grad = gradient
        for part, name, tensor, saved in buffers:
            part._buffers[name] = tensor
            if saved is not None:
                tensor.data.copy_(saved)
