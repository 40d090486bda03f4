"""Whether transformer layers may take PyTorch's fast path: kept; there is none here."""

__all__ = ["get_fastpath_enabled", "set_fastpath_enabled"]

_fastpath = True


def get_fastpath_enabled() -> bool:
    """What `set_fastpath_enabled` set."""
    return _fastpath


def set_fastpath_enabled(value: bool) -> None:
    """Keep the choice."""
    global _fastpath
    _fastpath = value
