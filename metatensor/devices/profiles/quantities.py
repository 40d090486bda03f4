"""Quantities of profiles: a number, a space and a unit, such as ``"3.35 TB/s"``."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

__all__ = ["DIMENSIONS", "parse_quantity"]

_DECIMAL = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_BYTES = {prefix + "B": factor for prefix, factor in {**_DECIMAL, **_BINARY}.items()}
DIMENSIONS: dict[str, dict[str, Decimal]] = {
    "bytes": {unit: Decimal(factor) for unit, factor in _BYTES.items()},
    "bytes per second": {
        **{unit + "/s": Decimal(factor) for unit, factor in _BYTES.items()},
        **{prefix + "b/s": Decimal(factor) / 8 for prefix, factor in _DECIMAL.items()},
    },
    "operations per second": {f"{prefix}{what}/s": Decimal(factor) for what in ("FLOP", "OP") for prefix, factor in _DECIMAL.items()},
    "ratio": {"": Decimal(1), "%": Decimal("0.01")},
    "watts": {"W": Decimal(1), "kW": Decimal(1000)},
    "price per hour": {"/h": Decimal(1)},
    "seconds": {"s": Decimal(1), "ms": Decimal("1e-3"), "us": Decimal("1e-6"), "ns": Decimal("1e-9")},
}
"""Units of each dimension, with their values in its base unit."""


def parse_quantity(text: str, dimension: str) -> int | float:
    """Return a positive quantity in the base unit of its dimension: whole bytes as an int, anything else as a float."""
    number, _, unit = text.strip().partition(" ")
    units = DIMENSIONS[dimension]
    factor = units.get(unit.strip())
    if factor is None:
        raise ValueError(f"{text!r} has no unit of {dimension}: give one of {', '.join(units)}")
    try:
        value = Decimal(number) * factor
    except InvalidOperation:
        raise ValueError(f"{text!r} does not begin with a number") from None
    if not value.is_finite() or value <= 0:
        raise ValueError(f"{text!r} is not a positive quantity; leave out what is not known")
    if dimension == "bytes":
        if value != int(value):
            raise ValueError(f"{text!r} is not a whole number of bytes")
        return int(value)
    return float(value)
