"""Layers of `torch.ao.nn.quantized`, which some libraries import from this module."""

from metatensor._core.lazy import attributes
from metatensor.torch_api.torch.ao.nn.quantized.modules.functional_modules import FloatFunctional, FXFloatFunctional, QFunctional

__all__ = ["FXFloatFunctional", "FloatFunctional", "QFunctional"]

__getattr__, __dir__ = attributes(__name__, ("functional_modules",))
