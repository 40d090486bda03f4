"""Conversion of tensors to meta tensors with the same metadata."""

from metatensor.deferred.faithful import MetaConverter

__all__ = ["MetaConverter"]
