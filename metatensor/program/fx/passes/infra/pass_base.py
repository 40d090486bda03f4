"""The result type of passes."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["PassResult"]


class PassResult(NamedTuple):
    """A module, and whether a pass modified it."""

    graph_module: Any
    modified: bool
