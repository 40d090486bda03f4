"""Conditions on sizes, under which a program holds."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from itertools import product
from typing import Any, NamedTuple

from metatensor.program.sizes.expressions import Expression, ExpressionError, Real, bounds, evaluate, names_in, parse, python

__all__ = ["Guard", "always", "parse_guard"]

_RELATIONS = {"==": operator.eq, "!=": operator.ne, "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}
_NEGATED = {"==": "!=", "!=": "==", "<=": ">", ">": "<=", ">=": "<", "<": ">="}
_MOST_TRIED = 1024
"""Maximum number of sizes for which a condition is evaluated to find whether it always holds."""


class Guard(NamedTuple):
    """A comparison of expressions of sizes."""

    left: Any
    relation: str
    right: Any

    def __call__(self, sizes: Mapping[str, int]) -> bool:
        """Return whether the condition holds at the given sizes."""
        try:
            return bool(_RELATIONS[self.relation](evaluate(self.left, sizes), evaluate(self.right, sizes)))
        except ExpressionError:
            return False

    def negated(self) -> Guard:
        """Return the guard that holds where this one does not."""
        return Guard(self.left, _NEGATED[self.relation], self.right)

    def simple(self) -> Guard:
        """Return the same condition with common terms cancelled, and its constant on the right."""
        left, relation, right = self
        if isinstance(left, Real) or isinstance(right, (Real, float)) or isinstance(left, float):
            return self
        if isinstance(right, Expression) and not isinstance(left, Expression):
            left, right = right, left
            relation = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(relation, relation)
        if isinstance(left, Expression) and isinstance(right, int):
            constant = left.terms.get((), 0)
            left, right = left - constant, right - constant
            factors = list(left.terms.values())
            common = math.gcd(*factors) * (-1 if all(f < 0 for f in factors) else 1)
            if common != 1 and right % common == 0:
                left, right = Expression({p: f // common for p, f in left.terms.items()}), right // common
                if common < 0:
                    relation = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(relation, relation)
        if isinstance(right, int) and relation in ("<", ">"):
            right, relation = (right - 1, "<=") if relation == "<" else (right + 1, ">=")
        return Guard(left, relation, right)

    def python(self) -> str:
        """Return the condition as Python source."""
        return f"{python(self.left)} {self.relation} {python(self.right)}"

    def __str__(self) -> str:
        return f"{self.left} {self.relation} {self.right}"


def parse_guard(text: str) -> Guard:
    """Parse the text of a guard. Raise `ExpressionError` if it is invalid."""
    for relation in ("==", "!=", "<=", ">=", "<", ">"):
        left, found, right = text.partition(f" {relation} ")
        if found:
            return Guard(parse(left), relation, parse(right))
    raise ExpressionError(f"{text[:60]!r} is not a condition on sizes")


def always(guard: Guard, ranges: Mapping[str, range]) -> bool:
    """Return True if a condition is known to hold for all sizes in ranges."""
    names = sorted({*names_in(guard.left), *names_in(guard.right)})
    if not names:
        return guard({})
    ends = {name: (sizes[0], sizes[-1]) for name, sizes in ranges.items()}
    if not isinstance(guard.left, Real) and not isinstance(guard.right, (Real, float)):
        low, high = bounds(guard.left - guard.right, ends) if guard.left != guard.right else (0, 0)
        relation = guard.relation
        if (relation == "!=" and (low > 0 or high < 0) or relation == "==" and low == high == 0 or relation == "<=" and high <= 0
                or relation == "<" and high < 0 or relation == ">=" and low >= 0 or relation == ">" and low > 0):  # fmt: skip
            return True
    if math.prod(len(ranges[name]) for name in names) > _MOST_TRIED:
        return False
    return all(guard(dict(zip(names, sizes))) for sizes in product(*[ranges[name] for name in names]))
