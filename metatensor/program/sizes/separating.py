"""Conditions that separate sizes with different calls, found by trying sizes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from metatensor.program.sizes.captures import PIECES, Captures
from metatensor.program.sizes.crossing import compared
from metatensor.program.sizes.expressions import Expression, evaluate, name
from metatensor.program.sizes.guards import Guard
from metatensor.program.sizes.numbers import first_difference
from metatensor.program.sizes.pieces import Piece, Sizes, SizesError, sizes_text

__all__ = ["Separating"]


class Separating(Captures):
    """Finds conditions that no comparison in the code shows, such as decisions inside operators."""

    def special(self, piece: Piece) -> Iterator[Guard]:
        """Yield conditions that hold at special sizes: where a name or an expression is 1, or at an end of a range."""
        yield from dict.fromkeys(guard for path in piece.paths for guard in path)
        for one in self.names:
            for end in (0, 1, self.ranges[one][0]):
                yield Guard(name(one), "==", end)
        tried = dict.fromkeys([*(e for p in self.pieces for e in p.expressions.values() if isinstance(e, Expression)),
                               *(e for e in piece.notes if isinstance(e, Expression))])  # fmt: skip
        for expression in list(tried)[:200]:
            for n in (1, 0):
                yield Guard(expression, "==", n)
        for one in self.names:
            values = sorted({sizes[one] for sizes in piece.points})
            for low, high in zip(values, values[1:]):
                yield Guard(name(one), "<=", low)
                yield Guard(name(one), ">=", high)

    def tell_apart(self) -> None:
        """Find conditions that separate pieces whose code takes the same path."""
        for i, one in enumerate(self.pieces):
            for other in self.pieces[i + 1 :]:
                if any(other.holds(sizes) for sizes in one.points) or any(one.holds(sizes) for sizes in other.points):
                    guard = self.between(one, other)
                    if guard is None and (self._divide(one, other) or self._divide(other, one)):
                        self.tell_apart()
                        return
                    if guard is None:
                        raise SizesError(
                            f"trace: no condition on the sizes was found that tells {sizes_text(one.points[0])} from "
                            f"{sizes_text(other.points[0])}, "
                            f"where the calls differ: {first_difference(one.taken, other.taken)}"
                        )
                    for part, own in ((one, guard), (other, guard.negated())):
                        if own not in part.bounds:
                            part.bounds.append(own)

        for piece in self.pieces:
            for failed in self._failures(piece):
                if not any(piece.holds(sizes) for sizes in failed):
                    continue  # a condition for other errors excludes these too
                guard = self.between(piece, Piece(piece.taken, failed))
                if guard is None and self._exclude(piece, failed):
                    continue
                if guard is None:
                    error = self.known[self.key(failed[0])]
                    raise SizesError(f"trace: no condition on the sizes was found that tells {sizes_text(piece.points[0])} from "
                                     f"{sizes_text(failed[0])}, where the callable raises {type(error).__name__}: {error}")  # fmt: skip
                piece.bounds.append(guard)

    def _exclude(self, piece: Piece, failed: list[Sizes]) -> bool:
        """Add conditions that together exclude sizes from a piece, such as that two names are multiples of 8. Return whether it worked."""
        wishes = []
        for n in self.names:
            values = [sizes[n] for sizes in piece.points]
            wishes.append(Guard(name(n), "==", values[0]))
            wishes += [Guard(name(n) % k, "==", 0) for k in (math.gcd(*values),) if k > 1]
            wishes += [Guard(name(n), "==", name(other)) for other in self.names if other > n]
        chosen: list[Guard] = []
        for guard in wishes:
            rest = [sizes for sizes in failed if not guard(sizes)]
            if rest and all(guard(sizes) for sizes in piece.points):
                chosen.append(guard)
                failed = [sizes for sizes in failed if guard(sizes)]
        if failed or len(piece.points) < 2:
            return False
        piece.bounds += chosen
        return True

    def _failures(self, piece: Piece) -> list[list[Sizes]]:
        """Return sizes of a piece at which the callable raises, those with the same kind of error together."""
        found: dict[str, list[Sizes]] = {}
        for sizes in self.failed:
            if piece.holds(sizes):
                error = self.known[self.key(sizes)]
                found.setdefault(type(error).__name__ + re.sub(r"\d+", "", str(error)), []).append(sizes)
        return list(found.values())

    def _divide(self, one: Piece, other: Piece) -> bool:
        """Divide a piece that holds in several cases, such as if either of two sizes is 1. Return whether that was possible."""
        for guard in self.special(one):
            inside = [sizes for sizes in one.points if guard(sizes)]
            rest = [sizes for sizes in one.points if not guard(sizes)]
            if guard.relation != "==" or not inside or not rest or len(self.pieces) >= PIECES:
                continue
            part = Piece(self.taken(inside[0]), inside)
            part.expressions, part.paths, part.bounds, part.notes = one.expressions, list(one.paths), [*one.bounds, guard], one.notes
            if self.between(part, other) is not None:
                one.points, one.bounds, one.taken = rest, [*one.bounds, guard.negated()], self.taken(rest[0])
                self.pieces.append(part)
                return True
        return False

    def between(self, one: Piece, other: Piece) -> Guard | None:
        """Return the simplest condition that holds at the sizes of one piece, and at none of the other's."""
        def separates(guard: Guard) -> bool:
            return all(guard(s) for s in one.points) and not any(guard(s) for s in other.points)

        for part, outcome in ((one, True), (other, False)):
            for seen in dict.fromkeys(guard for path in part.paths for guard in path):
                guard = seen if outcome else seen.negated()
                if separates(guard):
                    return guard
        for n in self.names:
            guard = Guard(name(n), "==", one.points[0][n])
            if len(one.points) > 1 and separates(guard):
                return guard
        for guard in self.special(one):
            if len(one.points) and guard.relation == "==":
                if separates(guard):
                    return guard
                if separates(guard.negated()):
                    return guard.negated()
        for n in self.names:
            for a, b, relation in ((one, other, "<="), (other, one, ">")):
                low, high = max(s[n] for s in a.points), min(s[n] for s in b.points)
                if low < high:
                    edge = self._edge(n, a, b)
                    if edge is not None:
                        return Guard(name(n), relation, edge)
        for guard in compared([*one.notes, *other.notes], [*one.expressions.values(), *other.expressions.values()], self.names):
            if separates(guard):
                return guard
        for n in self.names:
            common = [math.gcd(*(sizes[n] for sizes in part.points)) for part in (one, other)]
            for k in dict.fromkeys((*range(2, 65), *(k for k in common if k > 64))):
                guard = Guard(name(n) % k, "==", 0)
                if separates(guard):
                    return guard
                if separates(guard.negated()):
                    return guard.negated()
        expressions = dict.fromkeys([e for p in (one, other) for e in p.expressions.values() if isinstance(e, Expression)])
        for expression in list(expressions)[:100]:
            for k in (2, 4, 8, 16, 32, 7, 14, 3, 5):
                for guard in (Guard(expression % k if isinstance(expression % k, Expression) else expression, "==", 0),):
                    if separates(guard):
                        return guard
                    if separates(guard.negated()):
                        return guard.negated()
        for expression in list(expressions)[:100]:
            values = [[evaluate(expression, s) for s in p.points] for p in (one, other)]
            if max(values[0]) < min(values[1]) or max(values[1]) < min(values[0]):
                below = max(values[0]) < min(values[1])
                edge = self._edge_of(expression, *((one, other) if below else (other, one)))
                if edge is not None:
                    return Guard(expression, "<=" if below else ">", edge)
        for n in self.names:  # a single size at which the callable works
            for guard in (Guard(name(n), "==", one.points[0][n]), Guard(name(n), "!=", other.points[0][n])):
                if separates(guard):
                    return guard
        return None

    def _edge_of(self, expression: Expression, low: Piece, high: Piece) -> int | None:
        """Find, by trying sizes between two pieces, the greatest value of an expression at which the first piece's calls apply."""
        for _ in range(16):
            a, b = max(evaluate(expression, s) for s in low.points), min(evaluate(expression, s) for s in high.points)
            if a >= b:
                return None
            between = [s for s in (self.anywhere() for _ in range(200)) if a < evaluate(expression, s) < b]
            if not between:
                break
            middle = min(between, key=lambda s: abs(2 * evaluate(expression, s) - a - b))
            piece = self.sort(middle)
            if piece is None:
                (low if low not in self.pieces else high).points.append(middle)
            elif piece is not low and piece is not high:
                return None
        return a

    def _edge(self, n: str, low: Piece, high: Piece) -> int | None:
        """Find, by trying sizes between two pieces, the greatest size of a name at which the first piece's calls apply."""
        start = max(low.points, key=lambda sizes: sizes[n])
        a, b = start[n], min(s[n] for s in high.points)
        while b - a > self.ranges[n].step:
            middle = a + (b - a) // 2 // self.ranges[n].step * self.ranges[n].step
            if middle == a:
                break
            piece = self.sort({**start, n: middle})
            if piece is low:
                a = middle
            elif piece is high or piece is None and high not in self.pieces:
                b = middle
            elif piece is None and low not in self.pieces:
                a = middle
            else:
                return None
        return a
