"""XNNPACK, which metatensor does not use."""

__all__ = ["enabled"]

enabled = False
