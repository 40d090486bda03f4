"""Marks of where a model becomes quantized: they pass on what they get."""

from __future__ import annotations

from typing import Any

from metatensor.nn import Module

__all__ = ["DeQuantStub", "QuantStub", "QuantWrapper"]


class QuantStub(Module):
    """Where quantized tensors would begin: what it gets, it returns."""

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Any) -> Any:
        """``x`` itself."""
        return x


class DeQuantStub(QuantStub):
    """Where quantized tensors would end: what it gets, it returns."""


class QuantWrapper(Module):
    """A module between the two marks."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        if qconfig := getattr(module, "qconfig", None):
            self.qconfig = qconfig
        self.quant, self.dequant = QuantStub(), DeQuantStub()
        self.module = module
        self.train(module.training)

    def forward(self, X: Any) -> Any:
        """What the module makes of ``X``."""
        return self.dequant(self.module(self.quant(X)))
