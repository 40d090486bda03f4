"""Registration of functions that flatten containers according to a tree spec."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["SUPPORTED_NODES", "pytree", "register_pytree_flatten_spec"]


def pytree() -> Any:
    """Return the pytree module, which is in a higher layer than this package."""
    return import_module("metatensor.utils._pytree")


SUPPORTED_NODES: dict[type, Callable[..., list[Any]]] = {}
SUPPORTED_NODES_EXACT_MATCH: dict[type, Callable[..., bool] | None] = {}


def register_pytree_flatten_spec(
    cls: type, flatten_fn_spec: Callable[..., list[Any]], flatten_fn_exact_match_spec: Callable[..., bool] | None = None
) -> None:
    """Register the function that flattens instances of `cls` according to a spec.

    `flatten_fn_exact_match_spec` tells whether an instance matches a spec exactly.
    """
    SUPPORTED_NODES[cls] = flatten_fn_spec
    SUPPORTED_NODES_EXACT_MATCH[cls] = flatten_fn_exact_match_spec
