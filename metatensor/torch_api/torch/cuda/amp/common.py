"""Availability of mixed precision on CUDA devices."""

from metatensor.torch_api.torch import cuda

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available() -> bool:
    """Return True if there is no CUDA device."""
    return not cuda.is_available()
