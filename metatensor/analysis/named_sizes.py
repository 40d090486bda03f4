"""Named sizes: ``"batch in 1,8,32; h in 224..512 step 32"``."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence

from metatensor.analysis.sizes import SizeError

__all__ = ["MOST", "combinations", "parse_sizes"]

MOST = 100_000
"""Maximum number of values for one size, and maximum number of combinations."""
_CLAUSE = re.compile(r"\s*([A-Za-z_]\w*)\s+in\s+(.+?)\s*")
_RANGE = re.compile(r"(\d+)\s*\.\.\s*(\d+)(?:\s+step\s+(\d+))?")


def parse_sizes(text: str) -> dict[str, list[int]]:
    """Parse named sizes and return the values of each name, as ordered in the text.

    Clauses are separated by semicolons. A clause is a name, ``in``, and values separated by commas. A value is a number or a
    range ``224..512``, which includes both ends, optionally with ``step 32``. Raise `SizeError` if the text is invalid.

    Examples
    --------
    >>> from metatensor.analysis.named_sizes import parse_sizes
    >>> parse_sizes("batch in 1,8; h in 224..288 step 32, 512")
    {'batch': [1, 8], 'h': [224, 256, 288, 512]}
    """
    found: dict[str, list[int]] = {}
    for clause in text.split(";"):
        if not clause.strip():
            continue
        match = _CLAUSE.fullmatch(clause)
        if match is None:
            raise SizeError(f"{clause.strip()!r} is not of the form 'name in 1,8,32' or 'name in 224..512 step 32'")
        name, values = match.groups()
        if name in found:
            raise SizeError(f"the size {name!r} is given twice")
        found[name] = list(dict.fromkeys(value for part in values.split(",") for value in _values(part.strip(), clause.strip())))
    if not found:
        raise SizeError("no size is given; expected something like 'batch in 1,8,32'")
    return found


def _values(part: str, clause: str) -> Sequence[int]:
    if part.isdecimal():
        return (int(part),)
    match = _RANGE.fullmatch(part)
    if match is None:
        raise SizeError(f"{clause!r}: {part!r} is neither a number nor a range such as 224..512 step 32")
    first, last, step = int(match[1]), int(match[2]), int(match[3] or 1)
    if step < 1 or last < first:
        raise SizeError(f"{clause!r}: the range {part!r} has no values")
    values = range(first, last + 1, step)
    if len(values) > MOST:
        raise SizeError(f"{clause!r}: the range {part!r} has more than {MOST:,} values")
    return values


def combinations(sizes: Mapping[str, Sequence[int]]) -> Iterator[dict[str, int]]:
    """Yield a dict for each combination of values. The last name varies fastest. Without names, yield one empty dict."""
    total = 1
    for values in sizes.values():
        total *= len(values)
    if total > MOST:
        raise SizeError(f"there are {total:,} combinations of sizes, more than {MOST:,}")
    return (dict(zip(sizes, values, strict=True)) for values in itertools.product(*sizes.values()))
