"""Sizes at which numbers that the code computed pass each other. Operators may decide differently on the two sides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from metatensor.program.sizes.expressions import Expression, ExpressionError, evaluate, name
from metatensor.program.sizes.guards import Guard
from metatensor.program.sizes.pieces import Piece, Sizes

__all__ = ["compared", "crossings"]

_COMPUTED, _OTHERS = 48, 16
"""Expressions that are compared: of those that the code computed, and of those that sizes have."""


def crossings(piece: Piece, names: Iterable[str], tried: Iterable[Sizes], known: Iterable[Mapping[str, int]]) -> Iterator[Sizes]:
    """Yield sizes of `tried` at which two expressions compare differently than at all of `known`, as where a slice outgrows its tensor.

    The expressions are those that the code computed, compared with names, with sizes of values, and with 0 and 1.
    """
    computed = [e for e in piece.notes if isinstance(e, Expression)][:_COMPUTED]
    sizes_of = [e for e in piece.expressions.values() if isinstance(e, Expression)]
    others: list[Any] = [*map(name, names), *list(dict.fromkeys(sizes_of))[:_OTHERS], 0, 1]
    given = [*known]
    candidates = [*tried]
    every = dict.fromkeys([*computed, *others])
    values = {e: (_column(e, given), _column(e, candidates)) for e in every}
    for one in computed:
        for other in others:
            if one == other:
                continue
            seen = {_order(a, b) for a, b in zip(values[one][0], values[other][0])}
            for at, (a, b) in enumerate(zip(values[one][1], values[other][1])):
                order = _order(a, b)
                if order is not None and order not in seen:
                    seen.add(order)
                    yield candidates[at]


def compared(computed: Iterable[Any], sizes: Iterable[Any], names: Iterable[str]) -> Iterator[Guard]:
    """Yield comparisons of expressions that the code computed with sizes of values, and with names."""
    others = [*map(name, names), *list(dict.fromkeys(e for e in sizes if isinstance(e, Expression)))[:_OTHERS]]
    for one in list(dict.fromkeys(e for e in computed if isinstance(e, Expression)))[:_COMPUTED]:
        for other in others:
            if one != other:
                yield from (Guard(one, relation, other) for relation in (">=", "<", ">", "<=", "==", "!="))


def _column(expression: Any, points: list[Any]) -> list[Any]:
    found: list[Any] = []
    for sizes in points:
        try:
            found.append(evaluate(expression, sizes))
        except ExpressionError:
            found.append(None)
    return found


def _order(a: Any, b: Any) -> int | None:
    return None if a is None or b is None else (a > b) - (a < b)
