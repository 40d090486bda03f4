"""What libraries call of the internals of `FullyShardedDataParallel`."""

from __future__ import annotations

from typing import Any

__all__ = ["_lazy_init"]


def _lazy_init(state: Any, root_module: Any) -> Any:
    """Prepare the instances in a module for a forward pass. Return ``state``."""
    root_module._state().prepare()
    return state
