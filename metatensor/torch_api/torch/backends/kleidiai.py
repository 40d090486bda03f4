"""KleidiAI, which metatensor does not call."""

__all__ = ["is_available"]


def is_available() -> bool:
    """False."""
    return False
