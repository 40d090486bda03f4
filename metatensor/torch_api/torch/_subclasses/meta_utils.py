"""Faithful copies on meta."""

from metatensor.faithful import MetaConverter

__all__ = ["MetaConverter"]
