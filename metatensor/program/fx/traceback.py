"""Annotation of nodes with their origin. metatensor accepts the calls and keeps no annotations."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

__all__ = ["annotate", "format_stack", "get_current_meta", "has_preserved_node_meta", "preserve_node_meta", "set_current_meta",
           "set_stack_trace"]  # fmt: skip


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


@contextmanager
def set_current_meta(node: Any, pass_name: str = "") -> Any:
    """Return a context manager that does nothing."""
    yield


def get_current_meta() -> dict[str, Any]:
    """Return an empty dict."""
    return {}


def set_stack_trace(stack: list[str]) -> None:
    """Do nothing."""


def format_stack() -> list[str]:
    """Return the lines of code that are running, as `traceback.format_stack` does."""
    import traceback

    return traceback.format_stack()[:-1]
