"""A piece is a range of named sizes for which a program makes the same calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from metatensor.program.sizes.expressions import Expression, ExpressionError, evaluate
from metatensor.program.sizes.guards import Guard
from metatensor.program.sizes.numbers import Taken

__all__ = ["Piece", "Refused", "Sizes", "SizesError", "divisors", "is_stepwise", "sizes_text"]

Sizes = dict[str, int]
Expressions = dict[int, Any]
"""Position of a number in a program -> expression for it."""


class SizesError(RuntimeError):
    """Raised if no program with named sizes describes the callable."""


class Refused(NamedTuple):
    """Sizes at which the callable raises."""

    guards: tuple[Guard, ...]
    error: str


class Piece:
    """The sizes at which a callable makes the same calls, with one program for all of them.

    Numbers in it are expressions of the sizes.

    Attributes
    ----------
    taken : Taken
        The program at one of the sizes.
    expressions : dict
        Expressions of its numbers, by position. Other numbers are the same at all sizes.
    paths : list of tuple of Guard
        Lists of conditions, one for each path through the code. All conditions of at least one list must hold.
    bounds : list of Guard
        Conditions that separate the piece from others, found by trying sizes. All of them must hold.
    points : list of dict
        The sizes of captures.
    hidden : dict of str
        Expressions used where comparisons cannot be recorded, with a description of the use and its location.
    """

    def __init__(self, first: Taken, points: list[Sizes]) -> None:
        self.taken, self.points = first, list(points)
        self.layouts = sum(1 + 2 * row[2] for row in first.values)
        self.expressions: Expressions = {}
        self.paths: list[tuple[Guard, ...]] = []
        self.bounds: list[Guard] = []
        self.notes: dict[Any, None] = {}
        self.hidden: dict[Any, str] = {}
        self.followed = False
        self.doubts: list[tuple[Any, Any]] = []

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Return whether the piece applies at the given sizes."""
        return all(guard(sizes) for guard in self.bounds) and (not self.paths or any(all(g(sizes) for g in path) for path in self.paths))

    def numbers(self, sizes: Mapping[str, int]) -> list[Any]:
        """Return the numbers of the program at the given sizes."""
        found, known = list(self.taken.numbers), {}
        for at, expression in self.expressions.items():
            if expression not in known:
                known[expression] = evaluate(expression, sizes)
            found[at] = known[expression]
            if at < self.layouts and found[at] < 0:
                raise ExpressionError(f"a size, stride or offset of {expression} is {found[at]}")
        return found


def is_stepwise(expression: Expression) -> bool:
    """Return True if an expression contains operations other than sums and products.

    Such an expression may match some sizes by coincidence.
    """
    return any(not isinstance(atom, str) for product in expression.terms for atom in product)


def divisors(expression: Any) -> Iterator[int]:
    """Yield the divisors in an expression."""
    if isinstance(expression, Expression):
        for product in expression.terms:
            for atom in product:
                if not isinstance(atom, str):
                    if atom[0] in ("//", "%") and isinstance(atom[2], int):
                        yield abs(atom[2])
                    for a in atom[1:]:
                        yield from divisors(a)


def sizes_text(sizes: Mapping[str, int]) -> str:
    """Return sizes as text for messages."""
    return ", ".join(f"{one}={n}" for one, n in sizes.items())
