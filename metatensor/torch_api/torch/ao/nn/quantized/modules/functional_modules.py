"""Arithmetic operations as modules, in which quantization can observe them."""

from metatensor._core.absent import kind
from metatensor.nn.quantized import FloatFunctional, FXFloatFunctional

__all__ = ["FXFloatFunctional", "FloatFunctional", "QFunctional"]

QFunctional = kind("ao.nn.quantized.QFunctional", "metatensor has no quantized tensors")
