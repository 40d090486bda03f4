"""Conversion of tensors to meta tensors with the same metadata."""

from metatensor.deferred.meta_copies import MetaConverter

__all__ = ["MetaConverter"]
