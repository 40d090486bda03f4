"""Numbers as text: ``124 M``, ``1.56 GB``, ``3.2 ms``."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["bytes_text", "count_text", "seconds_text"]

UNITS = ("", "K", "M", "G", "T", "P", "E")


def _scaled(value: float, units: tuple[str, ...], plain: Callable[[float], str]) -> str:
    if abs(value) < 1000:
        return plain(value)
    power = 0
    while abs(value) >= 999.5 and power + 1 < len(units):
        value /= 1000
        power += 1
    digits = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:.{digits}f} {units[power]}"


def count_text(value: int) -> str:
    """Return a count with three significant digits: ``124 M``."""
    return _scaled(value, UNITS, lambda small: f"{small:.0f}")


def bytes_text(value: int) -> str:
    """Return a number of bytes with three significant digits, in powers of 1000: ``498 MB``."""
    return _scaled(value, tuple(f"{unit}B" for unit in UNITS), lambda small: f"{small:.0f} B")


def seconds_text(value: float) -> str:
    """Return a time with four significant digits: ``60.9 ms``."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if value * factor >= 1:
            return f"{value * factor:.4g} {unit}"
    return f"{value * 1e6:.3g} us"
