"""Expressions of named sizes as nodes of a graph."""

from __future__ import annotations

import math
import operator
from typing import Any

from metatensor.program.fx.graph import Graph
from metatensor.program.fx.node import Node
from metatensor.program.sizes.expressions import Expression, Real, Size, linear

__all__ = ["Numbers", "sym_size"]


def sym_size(tensor: Any, dim: int) -> int:
    """Return a size of a tensor."""
    return int(tensor.shape[dim])


_FUNCTIONS: dict[str, Any] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod, "min": min, "max": max,
    "/": operator.truediv, "**": operator.pow, "sqrt": math.sqrt, "log": math.log, "float": float, "log2": math.log2,
    "log10": math.log10, "exp": math.exp, "sin": math.sin, "cos": math.cos, "tanh": math.tanh, "ceil": math.ceil, "floor": math.floor,
    "int": int, "round": round, "gcd": math.gcd, "isqrt": math.isqrt,
}  # fmt: skip


class Numbers:
    """Makes nodes that compute the numbers of a program with named sizes from the sizes of its arguments. Each node is created once."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.sources: dict[str, tuple[Any, int, int, int]] = {}
        self._made: dict[Any, Any] = {}

    def source(self, value: Any, node: Node) -> None:
        """Register a placeholder whose sizes determine names."""
        for dim, n in enumerate(value.shape):
            found = linear(n.expression) if isinstance(n, Size) else None
            if found is not None:
                name, factor, rest = found
                self.sources.setdefault(name, (node, dim, factor, rest))

    def node(self, value: Any) -> Any:
        """Return the node that computes an expression. Numbers are returned as they are."""
        if not isinstance(value, (Expression, Real)):
            return value
        if value not in self._made:
            self._made[value] = self._polynomial(value) if isinstance(value, Expression) else self._call(value.op, *value.args)
        return self._made[value]

    def _call(self, op: str, *args: Any) -> Any:
        return self.graph.call_function(_FUNCTIONS[op], tuple(map(self.node, args)))

    def _atom(self, atom: Any) -> Any:
        if not isinstance(atom, str):
            return self._call(atom[0], *atom[1:])
        if atom not in self.sources:
            raise NotImplementedError(f"a graph needs the size {atom!r} as a size of a tensor, or in a sum or product with numbers")
        node, dim, factor, rest = self.sources[atom]
        made: Any = self.graph.call_function(sym_size, (node, dim), name="sym_size_int")
        made = self.graph.call_function(operator.sub, (made, rest)) if rest else made
        return self.graph.call_function(operator.floordiv, (made, factor)) if factor != 1 else made

    def _polynomial(self, value: Expression) -> Any:
        total: Any = None
        for product, factor in value.terms.items():
            made: Any = None
            for atom in product:
                key = Expression({(atom,): 1})
                if key not in self._made:
                    self._made[key] = self._atom(atom)
                made = self._made[key] if made is None else self.graph.call_function(operator.mul, (made, self._made[key]))
            if made is None:
                made = factor
            elif factor != 1:
                made = self.graph.call_function(operator.mul, (made, factor))
            total = made if total is None else self.graph.call_function(operator.add, (total, made))
        return total
