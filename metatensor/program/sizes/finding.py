"""Capture at several sizes: which calls there are where, expressions for their numbers, and conditions for the calls."""

from __future__ import annotations

import math
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple

from metatensor.program.program import Program
from metatensor.program.sizes.expressions import Expression, ExpressionError, evaluate, name, names_in
from metatensor.program.sizes.fitting import Fitter
from metatensor.program.sizes.guards import Guard, always
from metatensor.program.sizes.numbers import Taken, first_difference, owner, taken
from metatensor.program.sizes.tracking import Notes

__all__ = ["Finder", "Piece", "Refused", "SizesError"]

Sizes = dict[str, int]
Expressions = dict[int, Any]
"""Expressions of the numbers of a program, by their positions."""

_GENERIC = 7
"""Sizes at which a program is captured before it is fitted, besides the user's."""
_CONFIRM = 3
"""Sizes, not used to fit, at which the result must be that of a capture."""
_DOUBTS = 10
"""Captures that choose between expressions which have the same numbers so far."""
_STEPS = 3
"""Quotients of which the steps are tried."""
_ROUNDS = 8
"""How often numbers are fitted again after a size at which they were wrong."""
_CAPTURES = 160
"""Captures that may be made."""
_PIECES = 24
"""Programs with different calls that one program with named sizes may have."""
_PATHS = 24
"""Ways through the code, told apart by their comparisons, that are followed."""


class SizesError(RuntimeError):
    """No expressions of the named sizes describe what the callable does."""


class Refused(NamedTuple):
    """Sizes at which the callable raises."""

    guards: tuple[Guard, ...]
    error: str


class Piece:
    """Sizes with the same calls: one program, and expressions for its numbers.

    Attributes
    ----------
    taken : Taken
        The program at one of the sizes.
    expressions : dict
        Expressions of its numbers, by position. The others are the same at all sizes.
    paths : list of tuple of Guard
        Conditions, each of them for one way through the code. The piece holds where all of one of them hold.
    bounds : list of Guard
        Conditions that tell the piece from others, found by trying sizes. All of them must hold.
    points : list of dict
        The sizes of captures.
    """

    def __init__(self, first: Taken, points: list[Sizes]) -> None:
        self.taken, self.points = first, list(points)
        self.layouts = sum(1 + 2 * row[2] for row in first.values)
        self.expressions: Expressions = {}
        self.paths: list[tuple[Guard, ...]] = []
        self.bounds: list[Guard] = []
        self.notes: dict[Any, None] = {}
        self.followed = False
        self.doubts: list[tuple[Any, Any]] = []

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Return whether the piece is that of sizes."""
        return all(guard(sizes) for guard in self.bounds) and (not self.paths or any(all(g(sizes) for g in path) for path in self.paths))

    def numbers(self, sizes: Mapping[str, int]) -> list[Any]:
        """Return the numbers of the program at sizes."""
        found, known = list(self.taken.numbers), {}
        for at, expression in self.expressions.items():
            if expression not in known:
                known[expression] = evaluate(expression, sizes)
            found[at] = known[expression]
            if at < self.layouts and found[at] < 0:
                raise ExpressionError(f"a size, stride or offset of {expression} is {found[at]}")
        return found


class Finder:
    """Finds the pieces.

    Parameters
    ----------
    make : callable
        ``make(sizes)`` returns the program at sizes. ``make(sizes, notes, expressions)`` also follows sizes, where `expressions`
        has those of the numbers of values that are known, by position, or is None.
    ranges : dict of range
        The sizes that each name may have.
    base : dict of int
        Sizes at which `make` works.
    wide : dict of range, optional
        The sizes that the result is for, if `ranges` has those that may be tried.
    """

    def __init__(
        self, make: Callable[..., Program], ranges: Mapping[str, range], base: Sizes, wide: Mapping[str, range] | None = None
    ) -> None:
        self.wide = wide or ranges
        self.make, self.ranges, self.base, self.names = make, ranges, base, list(ranges)
        self.random = random.Random(0)
        self.known: dict[tuple[int, ...], Taken | Exception] = {}
        self.pieces: list[Piece] = []
        self.refused: list[Refused] = []
        self.failed: list[Sizes] = []
        self.places: dict[Guard, str | None] = {}
        self.confirmed = 0
        self.captures = 0

    # Captures ----------------------------------------------------------------------------------------------

    def key(self, sizes: Sizes) -> tuple[int, ...]:
        return tuple(sizes[one] for one in self.names)

    def take(self, sizes: Sizes) -> Taken | Exception:
        """Capture at sizes, once."""
        key = self.key(sizes)
        if key not in self.known:
            self._count()
            try:
                self.known[key] = taken(self.make(sizes))
            except (SizesError, KeyboardInterrupt):
                raise
            except Exception as error:
                self.known[key] = error.with_traceback(None)
        return self.known[key]

    def _count(self) -> None:
        self.captures += 1
        if self.captures > _CAPTURES:
            raise SizesError(f"trace: the calls were captured at {_CAPTURES} sizes, and differ in more ways than that can tell{self._example()}")

    def _example(self) -> str:
        if len(self.pieces) < 2:
            return ""
        a, b = self.pieces[0], self.pieces[-1]
        return (f"; between {_text(a.points[0])} and {_text(b.points[0])} the first difference is "
                f"{first_difference(a.taken, b.taken)}")  # fmt: skip

    def follow(self, sizes: Sizes, piece: Piece | None) -> tuple[Guard, ...]:
        """Capture at sizes with ints that note comparisons. Return the conditions under which the code goes the same way."""
        notes = Notes()
        self._count()
        try:
            got: Taken | Exception = taken(self.make(sizes, notes, piece.expressions if piece is not None and piece.expressions else None))
        except (SizesError, KeyboardInterrupt):
            raise
        except Exception as error:
            got = error.with_traceback(None)
        self.known.setdefault(self.key(sizes), got)
        plain = self.known[self.key(sizes)]
        if piece is not None:
            piece.notes.update(notes.expressions)
        if isinstance(got, Taken) and isinstance(plain, Taken) and not got.same_calls(plain):
            return ()  # the code treats such ints otherwise: nothing is known
        found: dict[Guard, None] = {}
        for guard, place in notes.guards.items():
            short = guard.simple()
            if not isinstance(short.left, (Expression,)) and not list(names_in(short.left)):
                continue
            if not always(short, self.wide) and short(sizes):
                found[short] = None
                self.places.setdefault(short, place)
        return tuple(found)

    # Sizes to try ------------------------------------------------------------------------------------------

    def anywhere(self) -> Sizes:
        """Return random sizes, with a preference for small ones and ends."""
        return {one: self._value(sizes) for one, sizes in self.ranges.items()}

    def _value(self, sizes: range) -> int:
        kind, count = self.random.random(), len(sizes)
        if kind < 0.1:
            return sizes[self.random.choice((0, -1, min(1, count - 1), min(2, count - 1)))]
        if kind < 0.5:
            return sizes[int(count ** self.random.random()) - 1]
        return sizes[self.random.randrange(count)]

    def _starts(self) -> Iterator[Sizes]:
        """Yield sizes for the first captures: generic ones, then ends."""
        middle = {one: sizes[len(sizes) > 2 : ] for one, sizes in self.ranges.items()}
        for i in range(_GENERIC):
            yield {one: part[self.random.randrange(len(part))] if i > 1 else part[-1 if i else min(2, len(part) - 1)]
                   for one, part in middle.items()}  # fmt: skip
        for one, sizes in self.ranges.items():
            for end in dict.fromkeys((sizes[0], sizes[min(1, len(sizes) - 1)], sizes[-1])):
                yield {**self.base, one: end}
        yield {one: sizes[0] for one, sizes in self.ranges.items()}

    def near(self, guards: Iterable[Guard], start: Sizes, tries: int = 400, fixed: Sizes | None = None) -> Iterator[Sizes]:
        """Yield sizes that meet conditions: random ones, and variations of some that meet them."""
        guards = list(guards)
        fixed = {str(guard.left): guard.right for guard in guards if guard.relation == "==" and str(guard.left) in self.ranges
                 and isinstance(guard.right, int)} | (fixed or {})  # fmt: skip
        moduli = sorted({b for guard in guards for b in _divisors(guard.left)} | {1})
        for i in range(tries):
            made = self.anywhere()
            if i % 2:
                for one in self.names:  # as at the start but for multiples of what divides
                    if self.random.random() < 0.5:
                        made[one] = start[one] + self.random.choice(moduli) * self.random.randrange(-8, 9)
                if i % 4 == 1 and len(self.names) > 1:
                    one, other = self.random.sample(self.names, 2)
                    made[one] = made[other]
            made.update(fixed)
            if all(made[one] in self.ranges[one] for one in self.names) and all(guard(made) for guard in guards):
                yield made

    # The search --------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Find all pieces. Raise `SizesError` if that is impossible; raise what the callable raises at the user's sizes."""
        first = self.take(self.base)
        if isinstance(first, Exception):
            raise first
        self._sort(self.base)
        for sizes in self._starts():
            self._sort(sizes)
            if len(self.pieces) > _PIECES:
                self._too_many()
        self._follow_all()
        for _ in range(_ROUNDS):
            self._explore()
            self._fit_all()
            if self._explore():  # sizes of results have names now, and so have comparisons of them
                continue
            self._tell_apart()
            self._resolve()
            if self._confirm():
                return
        raise SizesError(f"trace: sizes were found again and again at which the numbers or the calls are others{self._example()}")

    def _too_many(self) -> None:
        raise SizesError(f"trace: the calls are others at nearly every size{self._example()}")

    def _sort(self, sizes: Sizes) -> Piece | None:
        """Capture at sizes, and add them to the piece with the same calls, or to a new one."""
        got = self.take(sizes)
        if isinstance(got, Exception):
            if sizes not in self.failed:
                self.failed.append(sizes)
            if not any(all(guard(sizes) for guard in one.guards) for one in self.refused):
                guards = self.follow(sizes, None)
                self.refused.append(Refused(guards, f"{type(got).__name__}: {got}"[:200]))
            return None
        same = [piece for piece in self.pieces if piece.taken.same_calls(got)]
        if same:  # several, where numbers follow other rules at special sizes
            piece = next((p for p in same if sizes in p.points), None) or next((p for p in same if all(g(sizes) for g in p.bounds)), same[0])
            self.known[self.key(sizes)] = got._replace(head=piece.taken.head, values=piece.taken.values, rows=piece.taken.rows)
            if sizes not in piece.points:
                piece.points.append(sizes)
            return piece
        piece = Piece(got, [sizes])
        self.pieces.append(piece)
        return piece

    def _follow_all(self) -> None:
        """Follow the way through the code at one size of each piece, and at others where its conditions do not hold."""
        for piece in list(self.pieces):
            self._follow(piece)

    def _follow(self, piece: Piece) -> None:
        for sizes in list(piece.points):
            if len(piece.paths) >= _PATHS:
                piece.paths.append(())
                return
            if not piece.paths or not any(all(guard(sizes) for guard in path) for path in piece.paths):
                piece.paths.append(self.follow(sizes, piece))

    def _explore(self) -> bool:
        """Capture where no known condition holds. Return whether something new was found."""
        new = False
        for _ in range(3):
            found = False
            for guards in [*(path for piece in self.pieces for path in piece.paths), *(one.guards for one in self.refused)]:
                for guard in guards:
                    sizes = self._beyond(guard, guards)
                    if sizes is not None:
                        found |= self._visit(sizes)
            for _ in range(16):
                found |= self._visit(self.anywhere())
            new |= found
            if not found or len(self.refused) > _PATHS:
                break
        return new

    def _visit(self, sizes: Sizes) -> bool:
        """Capture at sizes and follow the code there, if no known condition holds. Return whether something new was found."""
        if self._covered(sizes) or self.key(sizes) in self.known:
            return False
        before = len(self.refused)
        piece = self._sort(sizes)
        if piece is not None:
            self._follow(piece)
        if len(self.pieces) > _PIECES:
            self._too_many()
        return piece is not None or len(self.refused) > before and bool(self.refused[-1].guards)

    def _covered(self, sizes: Sizes) -> bool:
        return any(any(all(guard(sizes) for guard in path) for path in piece.paths) for piece in self.pieces) or any(
            one.guards and all(guard(sizes) for guard in one.guards) for one in self.refused)  # fmt: skip

    def _beyond(self, guard: Guard, guards: tuple[Guard, ...]) -> Sizes | None:
        """Return sizes at which a condition does not hold, and those before it do."""
        before = guards[: guards.index(guard)]
        opposite = guard.negated()
        for sizes in self.near([*before, opposite], self.base, 60):
            return sizes
        names = list(dict.fromkeys([*names_in(guard.left), *names_in(guard.right)]))
        for one in names:  # along one name, where random sizes do not reach
            sizes = self.ranges[one]
            for start in (self.base, {other: part[-1] for other, part in self.ranges.items()}):
                for i in sorted({*range(min(64, len(sizes))), *(len(sizes) * k // 64 for k in range(64)), len(sizes) - 1}):
                    made = {**start, one: sizes[i]}
                    if opposite(made) and all(g(made) for g in before):
                        return made
        return None

    # Numbers -----------------------------------------------------------------------------------------------

    def _fit_all(self) -> None:
        done: list[Piece] = []
        while len(done) < len(self.pieces):
            piece = max((p for p in self.pieces if not any(p is other for other in done)), key=lambda p: len(p.points))
            done.append(piece)
            self._widen(piece)
            failed = self._fit(piece)
            if failed is not None:
                self._split(piece, failed)
            if not piece.followed and piece.expressions:  # now the sizes of results have names
                piece.followed = True
                piece.paths = []
                self._follow(piece)
                again = self._fit(piece)
                if again is not None:
                    self._split(piece, again)

    def _widen(self, piece: Piece) -> None:
        """Capture at further sizes with the same calls, until there are enough to fit."""
        tried = 0
        common = {one: n for one, n in piece.points[0].items() if all(sizes[one] == n for sizes in piece.points)
                  and (n <= 1 or len(piece.points) > 1)}
        for path in piece.paths or [()]:
            for sizes in chain(self.near([*path, *piece.bounds], piece.points[0], 100, common),
                               self.near([*path, *piece.bounds], piece.points[0])):  # fmt: skip
                if len(piece.points) > _GENERIC or tried > 3 * _GENERIC:
                    return
                if sizes not in piece.points:
                    tried += 1
                    self._sort(sizes)

    def _fit(self, piece: Piece) -> int | None:
        """Fit the numbers of a piece. Return the position of one for which there is no expression, or None."""
        takes = [t for sizes in piece.points if isinstance(t := self.known[self.key(sizes)], Taken)]
        piece.expressions = {}
        if len(takes) < 2:
            return None
        others = (e for p in self.pieces if p is not piece for e in p.expressions.values())
        fitter = Fitter(piece.points, dict.fromkeys(chain(piece.notes, others)))
        known: dict[tuple[Any, ...], Any] = {}
        for at, column in enumerate(zip(*[t.numbers for t in takes])):
            n = column[0]
            if column.count(n) == len(column) and (n or not isinstance(n, float)):
                continue
            if column not in known:
                known[column] = fitter.fit(column)
                if known[column] is None:
                    return at
            piece.expressions[at] = known[column]
        piece.doubts = fitter.doubts
        return None

    def _split(self, piece: Piece, failed: int) -> None:
        """Leave out sizes at which numbers follow another rule, such as a batch of one."""
        for guard in self._special(piece):
            inside = [sizes for sizes in piece.points if guard(sizes)]
            if not 0 < len(inside) < len(piece.points):
                continue
            rest = [sizes for sizes in piece.points if not guard(sizes)]
            part = Piece(self._taken(rest[0]), rest)
            part.notes = piece.notes
            if len(rest) < 3 or self._fit(part) is not None:
                continue
            other = Piece(self._taken(inside[0]), inside)
            other.paths, other.bounds = list(piece.paths), [*piece.bounds, guard]
            piece.taken, piece.points, piece.expressions = part.taken, rest, part.expressions
            piece.bounds.append(guard.negated())
            self.pieces.append(other)
            if len(self.pieces) > _PIECES:
                self._too_many()
            return
        takes = [self._taken(sizes) for sizes in piece.points]
        shown = "; ".join(f"{_short(t.numbers[failed])} at {_text(sizes)}" for t, sizes in list(zip(takes, piece.points))[:6])
        raise SizesError(f"trace: no expression of the sizes was found for {owner(piece.taken.program, failed)}: {shown}")

    def _taken(self, sizes: Sizes) -> Taken:
        found = self.known[self.key(sizes)]
        assert isinstance(found, Taken)
        return found

    def _special(self, piece: Piece) -> Iterator[Guard]:
        """Yield conditions that hold at special sizes: where a name or an expression is one, or at an end of a range."""
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

    def _resolve(self) -> None:
        """Capture at sizes at which expressions differ between which the numbers leave a choice, and fit again."""
        for piece in list(self.pieces):
            for _ in range(_DOUBTS):
                sizes = next(filter(None, (self._where(piece, *doubt) for doubt in dict.fromkeys(piece.doubts))), None)
                if sizes is None:
                    break
                if self._sort(sizes) is piece and self._fit(piece) is not None:
                    break
                if sizes not in piece.points:
                    break

    def _where(self, piece: Piece, one: Any, other: Any) -> Sizes | None:
        """Return sizes of a piece at which two expressions differ, or None."""
        names = sorted({*names_in(one), *names_in(other)})
        start = self.random.choice(piece.points)
        for n in names[:1]:
            sizes = self.ranges[n]
            values = sizes if len(sizes) <= 256 else [sizes[self.random.randrange(len(sizes))] for _ in range(256)]
            found = [made for made in ({**start, n: value} for value in values)
                     if evaluate(one, made) != evaluate(other, made) and self.key(made) not in self.known and self.piece_at(made) is piece]
            if found:
                return self.random.choice(found)
        return None

    # Conditions that are not seen --------------------------------------------------------------------------

    def _tell_apart(self) -> None:
        """Find conditions that tell pieces apart whose code goes the same way."""
        for i, one in enumerate(self.pieces):
            for other in self.pieces[i + 1 :]:
                if any(other.holds(sizes) for sizes in one.points) or any(one.holds(sizes) for sizes in other.points):
                    guard = self._between(one, other)
                    if guard is None and (self._divide(one, other) or self._divide(other, one)):
                        self._tell_apart()
                        return
                    if guard is None:
                        raise SizesError(
                            f"trace: no condition on the sizes was found that tells {_text(one.points[0])} from {_text(other.points[0])}, "
                            f"where the calls differ: {first_difference(one.taken, other.taken)}"
                        )
                    for part, own in ((one, guard), (other, guard.negated())):
                        if own not in part.bounds:
                            part.bounds.append(own)

        for piece in self.pieces:
            failed = [sizes for sizes in self.failed if piece.holds(sizes)]
            if failed:
                guard = self._between(piece, Piece(piece.taken, failed))
                if guard is None:
                    error = self.known[self.key(failed[0])]
                    raise SizesError(f"trace: no condition on the sizes was found that tells {_text(piece.points[0])} from "
                                     f"{_text(failed[0])}, where the callable raises {type(error).__name__}: {error}")  # fmt: skip
                piece.bounds.append(guard)

    def _divide(self, one: Piece, other: Piece) -> bool:
        """Make two pieces of one that holds in several cases, such as where any of two sizes is 1. Return whether that was possible."""
        for guard in self._special(one):
            inside = [sizes for sizes in one.points if guard(sizes)]
            rest = [sizes for sizes in one.points if not guard(sizes)]
            if guard.relation != "==" or not inside or not rest or len(self.pieces) >= _PIECES:
                continue
            part = Piece(self._taken(inside[0]), inside)
            part.expressions, part.paths, part.bounds, part.notes = one.expressions, list(one.paths), [*one.bounds, guard], one.notes
            if self._between(part, other) is not None:
                one.points, one.bounds, one.taken = rest, [*one.bounds, guard.negated()], self._taken(rest[0])
                self.pieces.append(part)
                return True
        return False

    def _between(self, one: Piece, other: Piece) -> Guard | None:
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
        for guard in self._special(one):
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
            guard = Guard(name(n), "==", one.points[0][n])
            if separates(guard):
                return guard
        return None

    def _edge_of(self, expression: Expression, low: Piece, high: Piece) -> int | None:
        """Return the greatest value of an expression with which the calls are those of one piece, by trying sizes between."""
        for _ in range(16):
            a, b = max(evaluate(expression, s) for s in low.points), min(evaluate(expression, s) for s in high.points)
            if a >= b:
                return None
            between = [s for s in (self.anywhere() for _ in range(200)) if a < evaluate(expression, s) < b]
            if not between:
                break
            middle = min(between, key=lambda s: abs(2 * evaluate(expression, s) - a - b))
            piece = self._sort(middle)
            if piece is None:
                (low if low not in self.pieces else high).points.append(middle)
            elif piece is not low and piece is not high:
                return None
        return a

    def _edge(self, n: str, low: Piece, high: Piece) -> int | None:
        """Return the greatest size of a name at which the calls are those of one piece, by trying sizes between."""
        start = max(low.points, key=lambda sizes: sizes[n])
        a, b = start[n], min(s[n] for s in high.points)
        while b - a > self.ranges[n].step:
            middle = a + (b - a) // 2 // self.ranges[n].step * self.ranges[n].step
            if middle == a:
                break
            piece = self._sort({**start, n: middle})
            if piece is low:
                a = middle
            elif piece is high or piece is None and high not in self.pieces:
                b = middle
            elif piece is None and low not in self.pieces:
                a = middle
            else:
                return None
        return a

    # Confirmation ------------------------------------------------------------------------------------------

    def _confirm(self) -> bool:
        """Compare with captures at sizes that were not used. Return False after adding some at which something is wrong."""
        self.confirmed = 0
        for piece in list(self.pieces):
            left = _CONFIRM + sum(3 for e in dict.fromkeys(piece.expressions.values()) if any(map(_unusual, _divisors(e))))
            left = min(left, 4 * _CONFIRM)
            guards = [*self.random.choice(piece.paths or [()]), *piece.bounds]
            steps = list(self._steps(piece))
            for sizes in chain(steps, self.near(guards, piece.points[0])):
                if not left:
                    break
                if sizes in piece.points or self.piece_at(sizes) is not piece:
                    continue
                left -= sizes not in steps
                got = self.take(sizes)
                if not isinstance(got, Taken):
                    self._sort(sizes)
                    return False
                if not piece.taken.same_calls(got) or not self._predicts(piece, sizes, got):
                    self._sort(sizes)
                    piece.followed = False
                    return False
                self.confirmed += 1
        for piece in self.pieces:
            for sizes in piece.points:
                if self.piece_at(sizes) is not piece:
                    if not piece.holds(sizes):
                        piece.paths.append(self.follow(sizes, piece))
                    return False
        return True

    @staticmethod
    def _predicts(piece: Piece, sizes: Sizes, got: Taken) -> bool:
        try:
            return piece.numbers(sizes) == got.numbers
        except ExpressionError:
            return False

    def _steps(self, piece: Piece) -> Iterator[Sizes]:
        """Yield sizes at which quotients in the expressions of a piece take their next value, and those before."""
        atoms = dict.fromkeys(atom for e in dict.fromkeys(piece.expressions.values()) if isinstance(e, Expression)
                              for product in e.terms for atom in product if not isinstance(atom, str) and atom[0] == "//")  # fmt: skip
        chosen = [a for a in atoms if len({*names_in(a[1])}) == 1 and isinstance(a[2], int)]
        for atom in self.random.sample(chosen, min(_STEPS, len(chosen))):
            one = next(names_in(atom[1]))
            sizes = self.ranges[one]
            start = {**self.random.choice(piece.points)}
            at = self.random.randrange(len(sizes))
            for i in range(at + 1, min(at + 2 * atom[2] + 1, len(sizes))):
                before, after = {**start, one: sizes[i - 1]}, {**start, one: sizes[i]}
                if evaluate(atom[1], before) // atom[2] != evaluate(atom[1], after) // atom[2]:
                    yield before
                    yield after
                    break

    def piece_at(self, sizes: Mapping[str, int]) -> Piece | None:
        """Return the piece that holds at sizes, or None."""
        return next((piece for piece in self.pieces if piece.holds(sizes)), None)


def _unusual(divisor: int) -> bool:
    """Return True for divisors that hardly come from a model, such as 23: expressions that have one may be coincidences."""
    return divisor // (divisor & -divisor) > 15


def _divisors(expression: Any) -> Iterator[int]:
    """Yield the numbers by which parts of an expression are divided."""
    if isinstance(expression, Expression):
        for product in expression.terms:
            for atom in product:
                if not isinstance(atom, str):
                    if atom[0] in ("//", "%") and isinstance(atom[2], int):
                        yield abs(atom[2])
                    for a in atom[1:]:
                        yield from _divisors(a)


def _text(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{one}={n}" for one, n in sizes.items())


def _short(value: Any) -> str:
    return repr(value)[:40]


