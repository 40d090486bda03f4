"""Decompositions by family. Each module registers its own when it is imported."""

from __future__ import annotations

import importlib

__all__ = ["load"]

_FAMILIES = ("pointwise", "activation", "reduction", "shape", "products", "layers", "losses", "windows", "matrices", "backward")


def load() -> None:
    """Import every family."""
    for family in _FAMILIES:
        importlib.import_module(f"{__name__}.{family}")
