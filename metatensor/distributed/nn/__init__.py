"""Collectives that return new tensors."""

from __future__ import annotations

from metatensor._core.lazy import attributes

__getattr__, __dir__ = attributes(
    __name__, ("functional",),
    {name: f"{__name__}.functional:{name}" for name in (
        "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce", "reduce_scatter", "scatter",
    )},
)  # fmt: skip
