"""The switch for PyTorch's fast path of transformer layers. It has no effect, because metatensor has no fast path."""

__all__ = ["get_fastpath_enabled", "set_fastpath_enabled"]

_fastpath = True


def get_fastpath_enabled() -> bool:
    """Return the value set by `set_fastpath_enabled`."""
    return _fastpath


def set_fastpath_enabled(value: bool) -> None:
    """Store the setting."""
    global _fastpath
    _fastpath = value
