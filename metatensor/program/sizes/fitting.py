"""Find expressions in the names of sizes for numbers that are known at several sizes."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from metatensor.program.sizes.expressions import Expression, Real, evaluate, greatest, least, name, names_in, quotient

__all__ = ["Fitter"]

Column = tuple[Any, ...]
_DEPTH = 5
"""Maximum number of factors that are divided out of a number."""
_POOL, _OFFERED = 96, 32
"""Maximum number of expressions tried as parts of others, and how many of them may come from the code."""
_RECENT = 6
"""Number of preceding expressions that are tried as the dividend of a quotient."""
_WIDEST = 4096
"""Greatest divisor that is tried for a quotient."""


class Fitter:
    """Finds expressions for numbers. A column holds one number at all sizes, in the order of `points`.

    Parameters
    ----------
    points : sequence of dict
        The named sizes of each capture.
    candidates : iterable of Expression or Real
        Expressions that the code computed. They are tried first.
    """

    def __init__(self, points: Sequence[dict[str, int]], candidates: Iterable[Any] = ()) -> None:
        self.points = list(points)
        self.names = list(points[0])
        self.known: dict[Column, Any] = {}
        self.pool: list[tuple[Column, Any]] = []
        self.recent: list[tuple[Column, Any]] = []
        self.reals: dict[Column, Any] = {}
        self.doubts: list[tuple[Any, Any]] = []
        """Pairs of expressions that are equal at all points, but may differ elsewhere."""
        self._failed: set[Column] = set()
        for one in self.names:
            self._add(tuple(point[one] for point in points), name(one))
        for candidate in candidates:
            self.offer(candidate)

    def offer(self, candidate: Any) -> None:
        """Add an expression that the code computed."""
        try:
            column = tuple(evaluate(candidate, point) for point in self.points)
        except (ArithmeticError, ValueError, TypeError):
            return
        other = (self.reals if isinstance(candidate, Real) else self.known).get(column)
        if other is not None and other != candidate:
            self.doubts.append((other, candidate))
        if isinstance(candidate, Real):
            self.reals.setdefault(column, candidate)
        elif any(n != column[0] for n in column):
            self._add(column, candidate, _OFFERED)

    def _add(self, column: Column, expression: Any, most: int = _POOL) -> None:
        if column not in self.known:
            self.known[column] = expression
            if len(self.pool) < most:
                self.pool.append((column, expression))

    def fit(self, column: Column) -> Any:
        """Return an expression that has the numbers of a column, or None if none is found."""
        first = column[0]
        if isinstance(first, bytes):
            return first if all(data == first for data in column) else None
        if all(n == first and type(n) is type(first) for n in column) and len({*map(repr, column)}) == 1:  # -0.0 is not 0.0
            return first
        if isinstance(first, float) or not all(isinstance(n, int) for n in column):
            return self._real(column)
        found = self.known.get(column)
        if found is None and column not in self._failed:
            found = self._whole(column)
            if found is None:
                self._failed.add(column)
            elif isinstance(found, Expression):
                self._add(column, found)
                if len({*names_in(found)}) == 1:
                    self.recent.append((column, found))
        return found

    # Ints --------------------------------------------------------------------------------------------------

    def _whole(self, column: Column) -> Any:
        for depth in (0, 1, 2, 3, _DEPTH):
            found = self._product(column, depth, 0, {})
            if found is not None:
                return found
        return (self._sum_of_two(column) or self._quadratic(column) or self._extreme(column) or self._quotient(column, (1, -1))
                or self._with_remainder(column))  # fmt: skip

    def _product(self, column: Column, depth: int, start: int, seen: dict[Any, Any]) -> Any:
        """Return a product of up to `depth` known expressions and a simple one."""
        found = self._simple(column)
        if found is not None or not depth:
            return found
        for i, (factor, expression) in enumerate(self.pool[start:], start):
            if len(expression.terms) > 1 and expression.terms.get(()) is None and len(self.pool) > 24:
                continue
            rest = _divided(column, factor)
            if rest is None or (rest, depth) in seen:
                continue
            seen[rest, depth] = None
            found = self._product(rest, depth - 1, i, seen)
            if found is not None:
                return found * expression if isinstance(found, int) else expression * found
        return None

    def _simple(self, column: Column) -> Any:
        """Return a number, a known expression, a linear function of one, or a quotient."""
        if all(n == column[0] for n in column):
            return column[0]
        found = self.known.get(column)
        if found is not None:
            return found
        for values, expression in self.pool:
            line = _linear(values, column)
            if line is not None:
                return expression * line[0] + line[1]
        return self._quotient(column)

    def _quotient(self, column: Column, signs: tuple[int, ...] = (0,)) -> Any:
        """Return ``k*((p*x + a)//b) + c`` of a name or a known expression x, with x added or subtracted if `signs` contains 1 or -1.

        Sizes are often quotients of preceding sizes with small divisors. A few numbers are enough to determine such a quotient.
        """
        best: tuple[Any, Any, Any] | None = None
        alone = [(tuple(point[one] for point in self.points), name(one)) for one in self.names]
        for values, x in [*alone, *reversed(self.recent[-_RECENT:])]:
            pairs = _pairs(values, column)
            if pairs is None:
                continue
            for sign in signs:
                found = _stairs(pairs if not sign else [(n, v - sign * n) for n, v in pairs], x, best[0] if best else None)
                if found is not None:
                    cost, made, others = found
                    best = cost, made + sign * x if sign else made, others
        if best is None:
            return None
        if best[2] is not None:
            self.doubts.append(best[2])
        return best[1]

    def _sum_of_two(self, column: Column) -> Any:
        """Return ``a*x + b*y + c`` or ``a*x*y + c`` of known expressions."""
        pool = self.pool[:48]
        for i, (x, one) in enumerate(pool):
            for y, other in pool[i:]:
                line = _linear(tuple(m * n for m, n in zip(x, y)), column)
                if line is not None:
                    return one * other * line[0] + line[1]
        for i, (x, one) in enumerate(pool):
            for y, other in pool[i + 1 :]:
                plane = _plane(x, y, column)
                if plane is not None:
                    return one * plane[0] + other * plane[1] + plane[2]
        for i, (x, one) in enumerate(pool[:24]):  # a*x*y + b*z + c
            for y, other in pool[i:24]:
                both = tuple(m * n for m, n in zip(x, y))
                for z, third in pool[:24]:
                    plane = _plane(both, z, column)
                    if plane is not None:
                        return one * other * plane[0] + third * plane[1] + plane[2]
        return None

    def _quadratic(self, column: Column) -> Any:
        """Return ``(a*name**2 + b*name + c) // d``."""
        for one in self.names:
            pairs = _pairs(tuple(point[one] for point in self.points), column)
            if pairs is None or len(pairs) < 5:
                continue
            (x0, y0), (x1, y1), (x2, y2) = pairs[0], pairs[len(pairs) // 2], pairs[-1]
            a = (Fraction(y2 - y0, x2 - x0) - Fraction(y1 - y0, x1 - x0)) / (x2 - x1)
            b = Fraction(y1 - y0, x1 - x0) - a * (x0 + x1)
            c = y0 - a * x0 * x0 - b * x0
            if a and all(a * x * x + b * x + c == y for x, y in pairs):
                d = math.lcm(a.denominator, b.denominator, c.denominator)
                if d < 1 << 16:
                    n = name(one)
                    made = n * n * int(a * d) + n * int(b * d) + int(c * d)
                    return quotient(made, d) if d > 1 else made
        return None

    def _extreme(self, column: Column) -> Any:
        """Return the minimum or maximum of two expressions, one of which may be a number."""
        low, high = min(column), max(column)
        for extreme, bound, relation in ((least, high, int.__lt__), (greatest, low, int.__gt__)):
            inside = [i for i, n in enumerate(column) if relation(n, bound)]
            if 2 <= len(inside) < len(column) - 1:
                part = Fitter([self.points[i] for i in inside])
                found = part.fit(tuple(column[i] for i in inside))
                if isinstance(found, Expression) and self._is(extreme(found, bound), column):
                    return extreme(found, bound)
        for x, one in self.pool[:32]:
            for extreme, order in ((least, int.__le__), (greatest, int.__ge__)):
                if all(order(v, n) for v, n in zip(column, x)) and 1 < sum(v == n for v, n in zip(column, x)) < len(x):
                    rest = [i for i, (v, n) in enumerate(zip(column, x)) if v != n]
                    if len(rest) >= 2:
                        found = Fitter([self.points[i] for i in rest]).fit(tuple(column[i] for i in rest))
                        if found is not None and self._is(extreme(one, found), column):
                            return extreme(one, found)
        return None

    def _with_remainder(self, column: Column) -> Any:
        """Return ``k*((a +- x) % b) + c`` of a known expression."""
        spread = max(column) - min(column)
        for values, expression in self.pool[:24]:
            for b in range(spread + 1, min(2 * spread + 2, 300)):
                for sign in (-1, 1):
                    offsets = {(v - sign * n) % b for v, n in zip(column, values)}
                    if len(offsets) == 1:
                        found = (expression * sign + offsets.pop()) % b
                        if self._is(found, column):
                            return found
        return None

    def _is(self, expression: Any, column: Column) -> bool:
        return all(evaluate(expression, point) == n for point, n in zip(self.points, column))

    # Floats ------------------------------------------------------------------------------------------------

    def _real(self, column: Column) -> Any:
        found = self.reals.get(column)
        if found is None:
            found = next((made for made in self._reals(column) if self._same(made, column)), None)
            if found is not None:
                self.reals[column] = found
        return found

    def _same(self, made: Any, column: Column) -> bool:
        try:
            return all(_exact(evaluate(made, point)) == _exact(n) for point, n in zip(self.points, column))
        except (ArithmeticError, ValueError, TypeError):
            return False

    def _reals(self, column: Column) -> Iterator[Any]:
        """Yield expressions that may have the floats of a column: quotients, products, roots and logarithms."""
        if all(float(n).is_integer() for n in column):
            whole = self.fit(tuple(int(n) for n in column))
            if whole is not None:
                yield Real("float", whole)
        for d in (2, 4, 8, 10, 16, 32, 64, 100):
            if all(float(n * d).is_integer() for n in column):
                whole = self.fit(tuple(int(n * d) for n in column))
                if whole is not None:
                    yield Real("/", whole, d)
                break
        first = column[0]
        for values, x in self.pool:
            n = values[0]
            yield from (Real("/", 1, x), Real("**", x, -0.5), Real("**", x, 0.5), Real("sqrt", x), Real("/", 1, Real("sqrt", x)),
                        Real("log", x))  # fmt: skip
            if n and math.isfinite(first):
                yield Real("/", round(first * n, 9), x)
                yield Real("*", x, first / n)
                if first:
                    yield Real("/", x, round(n / first, 9))
                    yield Real("/", x, round(n / first))
        for _, x in self.pool[:40]:
            for _, y in self.pool[:40]:
                if x is not y:
                    yield Real("/", x, y)


def _exact(value: Any) -> Any:
    return struct.pack("<d", value) if isinstance(value, float) else value


def _divided(column: Column, factor: Column) -> Column | None:
    """Return the quotients of two columns, or None if one of them is not an int."""
    rest = []
    for n, by in zip(column, factor):
        if not by or n % by:
            return None
        rest.append(n // by)
    return tuple(rest)


def _linear(x: Column, y: Column) -> tuple[int, int] | None:
    """Return the ints a and c for which ``y == a*x + c`` everywhere."""
    x0, y0 = x[0], y[0]
    for xi, yi in zip(x, y):
        if xi != x0:
            a, rest = divmod(yi - y0, xi - x0)
            if rest or not a:
                return None
            c = y0 - a * x0
            return (a, c) if all(m == a * n + c for n, m in zip(x, y)) else None
        if yi != y0:
            return None
    return None


def _plane(x: Column, y: Column, z: Column) -> tuple[int, int, int] | None:
    """Return the ints a, b and c for which ``z == a*x + b*y + c`` everywhere."""
    x0, y0, z0 = x[0], y[0], z[0]
    rows = [(xi - x0, yi - y0, zi - z0) for xi, yi, zi in zip(x, y, z)]
    first = next((row for row in rows if row[0] or row[1]), None)
    if first is None:
        return None
    for row in rows:
        d = first[0] * row[1] - first[1] * row[0]
        if d:
            a, rest = divmod(first[2] * row[1] - first[1] * row[2], d)
            b, more = divmod(first[0] * row[2] - first[2] * row[0], d)
            if rest or more or not a or not b:
                return None
            return (a, b, z0 - a * x0 - b * y0) if all(r[2] == a * r[0] + b * r[1] for r in rows) else None
    return None


def _pairs(values: Column, column: Column) -> list[tuple[int, int]] | None:
    """Return pairs of corresponding numbers of two columns, or None if the first does not determine the second."""
    found: dict[int, int] = {}
    for n, value in zip(values, column):
        if found.setdefault(n, value) != value:
            return None
    return sorted(found.items())


def _stairs(pairs: list[tuple[int, int]], x: Expression, best: Any) -> tuple[Any, Any, Any] | None:
    """Return ``k*((p*x + a)//b) + c`` fitted to pairs of `x` and a number, if it costs less than `best`.

    The result is the cost, the expression, and, if the numbers fit more than one expression, a pair of these, else None.
    """
    steps = [v - pairs[0][1] for _, v in pairs]
    k = math.gcd(*steps)
    if not k or len(pairs) < 2:
        return None
    if len(pairs) < 3:  # too few for anything but a constant ratio
        share = Fraction(pairs[0][1], pairs[0][0] or 1)
        if not share or any(share * n != v for n, v in pairs) or share.denominator > 64:
            return None
        cost = (share.numerator, False, 0, 9, share.denominator)
        return (cost, quotient(x * share.numerator, share.denominator), None) if best is None or cost < best else None
    k = k if steps[-1] > 0 else -k
    units = [(size, step // k) for (size, _), step in zip(pairs, steps)]
    rise, run = units[-1][1], units[-1][0] - units[0][0]
    if rise <= 0:
        return None
    if len({u for _, u in units}) < 3:  # a single step needs a condition, not a quotient
        return None
    found: tuple[Any, int, int, int, int, int] | None = None
    last: tuple[int, int, int] | None = None
    for p in range(1, 9):
        lowest, highest = p * run // (rise + 1), p * run // max(rise - 1, 1) + 1
        for b in range(max(lowest, 2), min(highest, _WIDEST) + 1):
            if math.gcd(p, b) != 1 or len(pairs) < 4 and (p > 1 or _roundness(b) > 1):
                continue
            low = max(b * u - p * size for size, u in units)
            high = min(b * u + b - 1 - p * size for size, u in units)
            if low > high:
                continue
            a, rank = _nicest(low, high, b)
            last = p, b, a
            cost = (p, _roundness(b) > 1, (high - low + 1).bit_length(), rank + _roundness(b), b)
            if (found is None or cost < found[0]) and (best is None or cost < best):
                found = cost, p, b, a, low, high
        if found is not None:
            break
    if found is None:
        return None
    cost, p, b, a, low, high = found
    ends = None if low == high else (quotient(x * p + low, b), quotient(x * p + high, b))
    if last is not None and last[1] != b:  # another divisor fits too
        ends = quotient(x * p + a, b), quotient(x * last[0] + last[2], last[1])
    return cost, quotient(x * p + a, b) * k + pairs[0][1], ends


def _nicest(low: int, high: int, b: int) -> tuple[int, int]:
    """Return the most common offset between two bounds, and its cost."""
    for rank, wish in enumerate((0, b - 1, b // 2, 1)):
        shift = low + (wish - low) % b
        if shift <= high:
            return shift, rank
    return low, 4


def _roundness(b: int) -> int:
    """Return the cost of a divisor: powers of two and small numbers are cheap."""
    odd = b // (b & -b)
    return 0 if odd == 1 else 1 if odd <= 15 else 3
