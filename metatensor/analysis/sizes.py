"""Numbers with suffixes: ``8B`` parameters, ``10GB``, ``1.5GiB``, ``4.1 GFLOPs``, ``7e9``, ``200ms``, ``5%``."""

from __future__ import annotations

import re
from fractions import Fraction

__all__ = ["SizeError", "parse_bytes", "parse_count", "parse_seconds", "parse_share"]

COUNT = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9, "t": 10**12, "p": 10**15, "e": 10**18}
BYTES = {"": 1, **{letter: 1000 ** (power + 1) for power, letter in enumerate("kmgtpe")}}
BINARY = {f"{letter}i": 1024 ** (power + 1) for power, letter in enumerate("kmgtpe")}
SECONDS = {"": Fraction(1), "s": Fraction(1), "ms": Fraction(1, 1000), "us": Fraction(1, 10**6), "min": Fraction(60), "h": Fraction(3600)}

_FORM = re.compile(r"\s*(\d[\d_,]*(?:\.\d+)?|\.\d+)(?:[eE]([+-]?\d{1,3}))?\s*([A-Za-z]*)\s*")


class SizeError(ValueError):
    """Raised for a string that is not a valid size."""


def parse_count(text: str, unit: str = "") -> int:
    """Parse a count with an optional suffix (K, M, B or G, T, P, E: powers of 1000) and an optional ``unit`` ("flops")."""
    number, suffix = _split(text, "8B, 7e9 or 125M")
    if unit and suffix.endswith(unit):
        suffix = suffix.removesuffix(unit)
    elif unit and suffix.endswith(unit.removesuffix("s")):
        suffix = suffix.removesuffix(unit.removesuffix("s"))
    if suffix not in COUNT:
        raise SizeError(f"{text!r}: unknown suffix; expected a number such as 8B, 7e9 or 125M")
    return _whole(number * COUNT[suffix], text)


def parse_bytes(text: str) -> int:
    """Parse a number of bytes: 10GB is 10 * 1000**3, and 10GiB is 10 * 1024**3. The B is optional."""
    number, suffix = _split(text, "10GB, 512MiB or 8e9")
    unit = suffix.removesuffix("b") if suffix != "b" else ""
    scale = BYTES.get(unit) or BINARY.get(unit)
    if scale is None:
        raise SizeError(f"{text!r}: unknown suffix; expected a number of bytes such as 10GB, 512MiB or 8e9")
    return _whole(number * scale, text)


def parse_seconds(text: str) -> float:
    """Parse a time in s, ms, us, min or h and return seconds. A number without a unit is in seconds."""
    number, suffix = _split(text, "200ms or 1.5s")
    if suffix not in SECONDS:
        raise SizeError(f"{text!r}: unknown unit; expected a time such as 200ms or 1.5s")
    return float(number * SECONDS[suffix])


def parse_share(text: str) -> float:
    """Parse a share such as 5% or 0.05 and return the number, here 0.05."""
    percent = text.strip().endswith("%")
    number, suffix = _split(text.strip().removesuffix("%"), "5% or 0.05")
    if suffix:
        raise SizeError(f"{text!r}: expected a share such as 5% or 0.05")
    return float(number / 100 if percent else number)


def _split(text: str, examples: str) -> tuple[Fraction, str]:
    """Return the exact number at the start of a text, and its suffix in lower case."""
    match = _FORM.fullmatch(text)
    if match is None or len(text) > 100:
        raise SizeError(f"{text[:100]!r} is not a size; expected a number such as {examples}")
    digits, exponent, suffix = match.groups()
    number = Fraction(re.sub(r"[_,]", "", digits))
    if exponent:
        number *= Fraction(10) ** int(exponent)
    return number, suffix.lower()


def _whole(value: Fraction, text: str) -> int:
    if value.denominator != 1:
        raise SizeError(f"{text!r} is not a whole number")
    return value.numerator
