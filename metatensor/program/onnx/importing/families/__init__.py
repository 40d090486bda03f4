"""The operators of ONNX, by family. Each module registers its operators when it is imported."""

from __future__ import annotations

from importlib import import_module

__all__ = ["MODULES", "load"]

MODULES = (
    "attention", "classic", "control", "conversions", "convolutions", "creation", "elementwise", "indexing", "linear", "normalising",
    "pooling", "quantised", "recurrent", "reductions", "resizing", "sequences", "shaping", "signals", "sorting", "training", "vision",
)  # fmt: skip


def load() -> None:
    """Register all operators."""
    for name in MODULES:
        import_module(f"{__name__}.{name}")
