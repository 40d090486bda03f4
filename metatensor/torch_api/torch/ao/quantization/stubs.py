"""Modules that mark where quantization begins and ends. They return their input."""

from __future__ import annotations

from typing import Any

from metatensor.nn import Module

__all__ = ["DeQuantStub", "QuantStub", "QuantWrapper"]


class QuantStub(Module):
    """Marks where quantized tensors would begin."""

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Any) -> Any:
        """Return `x` unchanged."""
        return x


class DeQuantStub(QuantStub):
    """Marks where quantized tensors would end."""


class QuantWrapper(Module):
    """Puts a module between a `QuantStub` and a `DeQuantStub`."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        if qconfig := getattr(module, "qconfig", None):
            self.qconfig = qconfig
        self.quant, self.dequant = QuantStub(), DeQuantStub()
        self.module = module
        self.train(module.training)

    def forward(self, X: Any) -> Any:
        """Return the output of the module for `X`."""
        return self.dequant(self.module(self.quant(X)))
