"""XNNPACK, which metatensor does not call."""

__all__ = ["enabled"]

enabled = False
