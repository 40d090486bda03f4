"""Handles that remove hooks."""

from metatensor.nn._hooks import RemovableHandle

__all__ = ["RemovableHandle"]
