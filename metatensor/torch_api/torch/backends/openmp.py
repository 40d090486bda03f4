"""OpenMP, which metatensor does not use."""

__all__ = ["is_available"]


def is_available() -> bool:
    """Return False."""
    return False
