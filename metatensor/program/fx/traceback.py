"""Annotation of nodes with their origin. metatensor accepts the calls and keeps no annotations."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

__all__ = ["annotate", "has_preserved_node_meta", "preserve_node_meta"]


@contextmanager
def preserve_node_meta(enable: bool = True) -> Any:
    """Return a context manager that does nothing."""
    yield


@contextmanager
def annotate(annotation_dict: dict[str, Any]) -> Any:
    """Return a context manager that does nothing."""
    yield


def has_preserved_node_meta() -> bool:
    """Return False."""
    return False
