"""Intel's MKL, which metatensor does not use itself. NumPy may use it."""

from metatensor.torch_api.torch.backends.mkldnn import VERBOSE_OFF, VERBOSE_ON, verbose

__all__ = ["VERBOSE_OFF", "VERBOSE_ON", "is_available", "verbose"]


def is_available() -> bool:
    """Return False."""
    return False
