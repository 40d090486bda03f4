"""Notes of where nodes came from, which are not kept."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

__all__ = ["annotate", "has_preserved_node_meta", "preserve_node_meta"]


@contextmanager
def preserve_node_meta(enable: bool = True) -> Any:
    """A context without effect."""
    yield


@contextmanager
def annotate(annotation_dict: dict[str, Any]) -> Any:
    """A context without effect."""
    yield


def has_preserved_node_meta() -> bool:
    """False."""
    return False
