"""What passes over graphs return."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["PassResult"]


class PassResult(NamedTuple):
    """A module, and whether it was changed."""

    graph_module: Any
    modified: bool
