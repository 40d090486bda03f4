"""Capture of programs, which raises NotImplementedError."""

from metatensor._core.absent import function

__all__ = ["_export"]

_export = function("export._trace._export", "metatensor captures no programs; export with PyTorch")
