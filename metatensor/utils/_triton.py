"""Whether Triton can be used: it cannot, for it compiles for PyTorch's tensors."""

__all__ = ["has_triton", "has_triton_package"]


def has_triton_package() -> bool:
    """False."""
    return False


def has_triton() -> bool:
    """False."""
    return False
