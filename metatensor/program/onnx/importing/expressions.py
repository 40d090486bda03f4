"""Sizes as expressions of named sizes, found by fitting values at several sizes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations_with_replacement
from math import prod

__all__ = ["STEP", "expression", "points"]

STEP = 64
"""Divisor of the sizes in the second attempt, for models that accept only multiples."""
EXTRA = 3
"""Additional points that check an expression after it has been determined."""
MOST_NAMES = 8
"""Largest number of names in an expression."""

Point = dict[str, int]


def points(names: list[str], step: int = 1) -> list[Point]:
    """Return sizes at which to evaluate, multiples of `step`. The same ones each time."""
    rng = random.Random(0)
    count = len(_monomials(names)) + EXTRA
    values = rng.sample(range(48, 512), min(count * len(names), 464)) if step == 1 else [step * n for n in range(1, 5 * count * len(names))]
    rng.shuffle(values)
    return [{name: values[(i * len(names) + at) % len(values)] for at, name in enumerate(names)} for i in range(count)]


def _monomials(names: list[str]) -> list[tuple[str, ...]]:
    degrees = (1, 2) if len(names) <= 4 else (1,)
    return [(), *(one for degree in degrees for one in combinations_with_replacement(names, degree))]


def expression(at: list[Point], values: list[int]) -> int | str | None:
    """Return a number or an expression that has these values at these points, or None if none is found.

    Expressions are a number times a product, sums of products, and quotients that are rounded down.
    """
    if len(set(values)) == 1:
        return values[0]
    for attempt in (_product, _sum, _quotient):
        found = attempt(at, values)
        if found is not None:
            return found
    return None


def _product(at: list[Point], values: list[int]) -> str | None:
    names = list(at[0])
    for degree in (1, 2, 3):
        for one in combinations_with_replacement(names, degree):
            share = Fraction(values[0], prod(at[0][name] for name in one))
            if share and all(share * prod(point[name] for name in one) == v for point, v in zip(at, values, strict=True)):
                return _term(share, one)
    return None


def _term(share: Fraction, names: tuple[str, ...]) -> str:
    text = "*".join(([str(share.numerator)] if share.numerator != 1 or not names else []) + list(names))
    return text if share.denominator == 1 else f"{text}/{share.denominator}"


def _sum(at: list[Point], values: list[int]) -> str | None:
    names = list(at[0])
    for terms in (*([(), (name,)] for name in names), [(), *((name,) for name in names)], _monomials(names)):
        if len(terms) + 1 > len(at):
            continue
        rows = [[Fraction(prod(point[name] for name in one)) for one in terms] for point in at]
        shares = _solved(rows[: len(terms)], [Fraction(v) for v in values[: len(terms)]])
        if shares is None or any(share.denominator > STEP for share in shares):
            continue
        if all(sum(s * x for s, x in zip(shares, row, strict=True)) == v for row, v in zip(rows, values, strict=True)):
            parts = [_term(share, one) for share, one in [*zip(shares[1:], terms[1:], strict=True), (shares[0], ())] if share]
            return " + ".join(parts).replace("+ -", "- ")
    return None


def _solved(rows: list[list[Fraction]], values: list[Fraction]) -> list[Fraction] | None:
    """Return the solution of linear equations, or None if there is not exactly one."""
    table = [[*row, value] for row, value in zip(rows, values, strict=True)]
    n = len(table)
    for i in range(n):
        pivot = next((j for j in range(i, n) if table[j][i]), None)
        if pivot is None:
            return None
        table[i], table[pivot] = table[pivot], table[i]
        table[i] = [x / table[i][i] for x in table[i]]
        for j in range(n):
            if j != i and table[j][i]:
                share = table[j][i]
                table[j] = [x - share * y for x, y in zip(table[j], table[i], strict=True)]
    return [row[n] for row in table]


def _quotients(n: list[int], values: list[int]) -> Iterator[tuple[int, int]]:
    """Yield divisors and offsets so that (n + offset) // divisor has these values."""
    for divisor in (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 32, 64):
        low = max(v * divisor - x for x, v in zip(n, values, strict=True))
        high = min(v * divisor + divisor - 1 - x for x, v in zip(n, values, strict=True))
        if low <= high and abs(low) < 2 * divisor:
            yield divisor, min(range(low, high + 1), key=abs)


def _quotient(at: list[Point], values: list[int]) -> str | None:
    for name in at[0]:
        for divisor, offset in _quotients([point[name] for point in at], values):
            inner = name if not offset else f"({name} {'+' if offset > 0 else '-'} {abs(offset)})"
            return f"{inner}//{divisor}"
    return None
