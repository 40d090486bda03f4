"""CUDA devices, where metatensor's cuda plugin is installed and finds some."""

from __future__ import annotations

from metatensor.torch_api.torch import _devices

__all__ = ["device_count", "is_available"]


def device_count() -> int:
    """How many CUDA devices can be used."""
    return _devices.device_count("cuda")


def is_available() -> bool:
    """Whether there is a CUDA device to use."""
    return device_count() > 0
