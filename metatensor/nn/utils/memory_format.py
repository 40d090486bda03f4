"""Conversion of convolution weights to a memory format."""

from __future__ import annotations

from typing import Any

from metatensor.nn.module import Module
from metatensor.nn.modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def _convert(module: Module, classes: tuple, memory_format: Any) -> Module:
    for found in module.modules():
        if isinstance(found, classes):
            found.weight.data = found.weight.detach().clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: Module, memory_format: Any) -> Module:
    """Convert the weights of all `Conv2d` and `ConvTranspose2d` layers of a module to a memory format, in place.

    Return the module.
    """
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: Module, memory_format: Any) -> Module:
    """Convert the weights of all `Conv3d` and `ConvTranspose3d` layers of a module to a memory format, in place.

    Return the module.
    """
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)
