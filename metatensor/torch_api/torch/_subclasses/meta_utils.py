"""Faithful copies on meta."""

from metatensor.deferred.faithful import MetaConverter

__all__ = ["MetaConverter"]
