"""Availability of Triton, which is never available because its kernels only accept PyTorch's tensors."""

__all__ = ["has_triton", "has_triton_package"]


def has_triton_package() -> bool:
    """Return False."""
    return False


def has_triton() -> bool:
    """Return False."""
    return False
