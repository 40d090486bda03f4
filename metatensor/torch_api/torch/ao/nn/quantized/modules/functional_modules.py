"""Arithmetic as modules."""

from metatensor.nn.quantized import FloatFunctional, FXFloatFunctional
from metatensor.torch_api.torch._absent import kind

__all__ = ["FXFloatFunctional", "FloatFunctional", "QFunctional"]

QFunctional = kind("ao.nn.quantized.QFunctional", "metatensor has no quantized tensors")
