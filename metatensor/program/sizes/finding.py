"""Search for a program with named sizes: which calls run at which sizes, expressions for their numbers, and conditions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

from metatensor.program.sizes.captures import PIECES
from metatensor.program.sizes.crossing import crossings
from metatensor.program.sizes.expressions import Expression, ExpressionError, evaluate, name, names_in
from metatensor.program.sizes.fitted import PATHS, Fitting
from metatensor.program.sizes.guards import Guard
from metatensor.program.sizes.numbers import Taken, owner, taken
from metatensor.program.sizes.pieces import Piece, Sizes, SizesError, is_stepwise

__all__ = ["Finder"]

_CONFIRM, _CONFIRM_STEPS = 4, 40
"""Number of sizes, not used to fit, at which the result must equal a capture. The second is for expressions with quotients, minima etc."""
_CONFIRM_PATH, _CONFIRM_CALLS = 2, 400
"""How many more sizes are used for each way through the code. Short captures get more sizes, with about this many calls in all."""
_ROUNDS = 8
"""How many times numbers may be refitted after they were wrong at some size."""
_OUTSIDE = 12
"""Number of failing sizes after which no further ones are tried."""
_FURTHER = 512
"""If no tried size reaches one side of a comparison, sizes up to this are tried as well, as far as the ranges allow."""
_SWEPT = 512
"""Number of sizes at which a program is captured if the code uses sizes in a way that cannot be followed."""
_TRIED, _CROSSINGS = 256, 12
"""Number of random sizes at which numbers are compared with each other, and the least number of those that are then captured."""
_STEPS = 3
"""Number of quotients whose steps are tried."""


class Finder(Fitting):
    """Finds the pieces.

    Parameters
    ----------
    make : callable
        ``make(sizes)`` returns the program at sizes. ``make(sizes, notes, expressions)`` also tracks sizes; `expressions`
        maps the positions of numbers to their known expressions, or is None.
    ranges : dict of range
        The sizes that each name may have.
    base : dict of int
        Sizes at which `make` works.
    wide : dict of range, optional
        The sizes for which the result is valid, if `ranges` is restricted to those that may be tried.
    """

    def run(self) -> None:
        """Find all pieces. Raise `SizesError` if that is impossible; raise the callable's exception if it fails at the user's sizes."""
        first = self.take(self.base)
        if isinstance(first, Exception):
            raise first
        self._check_repeats(first)
        self.sort(self.base)
        for sizes in self.starts():
            self.sort(sizes)
            if len(self.pieces) > PIECES:
                self.too_many()
        self.follow_all()
        for _ in range(_ROUNDS):
            self._explore()
            self.fit_all()
            if self._explore():  # sizes of results, and comparisons of them, now have expressions
                continue
            self.tell_apart()
            self.resolve()
            if self._confirm() and self._sweep():
                self._restrict()
                return
        raise SizesError(f"trace: sizes were found again and again at which the numbers or the calls are others{self.example()}")

    def _check_repeats(self, first: Taken) -> None:
        """Raise if a second run at the same sizes gives other numbers: then the callable counts something from run to run."""
        again = taken(self.make(self.base))
        at = next((i for i, pair in enumerate(zip(first.numbers, again.numbers)) if repr(pair[0]) != repr(pair[1])), None)
        if at is not None and first.same_calls(again):
            raise SizesError(f"trace: {owner(first.program, at)} is {first.numbers[at]} in one run and {again.numbers[at]} in the next at "
                             "the same sizes; the callable counts its runs, as an optimizer does that keeps its step as a Python number "
                             "(optimizers with capturable=True keep it in a tensor)")  # fmt: skip

    def follow_all(self) -> None:
        """Track the path through the code at one size of each piece, and at further sizes where its conditions do not hold."""
        for piece in list(self.pieces):
            self.follow_piece(piece)

    def _explore(self) -> bool:
        """Capture where no known condition holds. Return whether anything new was found."""
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
            if not found or len(self.refused) > PATHS:
                break
        return new

    def _visit(self, sizes: Sizes) -> bool:
        """Capture and track the code at the given sizes, if no known condition holds. Return whether anything new was found."""
        if self._covered(sizes) or self.key(sizes) in self.known:
            return False
        before = len(self.refused)
        for one, n in sizes.items():
            if n not in self.ranges[one]:  # a piece there needs more sizes
                known, wide = self.ranges[one], self.wide[one]
                self.ranges[one] = range(known.start, min(2 * n, wide.stop), known.step)
        piece = self.sort(sizes)
        if piece is not None:
            self.follow_piece(piece)
        if len(self.pieces) > PIECES:
            self.too_many()
        return piece is not None or len(self.refused) > before and bool(self.refused[-1].guards)

    def _spread(self, one: str, values: range) -> list[int]:
        """Return the indices of some sizes of a name, more of them small. Only few are outside of the range that may be tried."""
        count = len(self.ranges[one])
        inside = {*range(min(64, count)), *(count * k // 64 for k in range(64)), count - 1}
        return sorted(i for i in {*inside, *range(count, min(_FURTHER, len(values)), 8)} if i < len(values))

    def _covered(self, sizes: Sizes) -> bool:
        return self._refuses(sizes) or any(any(all(guard(sizes) for guard in path) for path in piece.paths) for piece in self.pieces)

    def _refuses(self, sizes: Sizes) -> bool:
        return any(one.guards and all(guard(sizes) for guard in one.guards) for one in self.refused)

    def _beyond(self, guard: Guard, guards: tuple[Guard, ...]) -> Sizes | None:
        """Return sizes at which a condition does not hold, but the conditions before it do."""
        before = guards[: guards.index(guard)]
        opposite = guard.negated()
        for sizes in self.near([*before, opposite], self.base, 60):
            return sizes
        names = list(dict.fromkeys([*names_in(guard.left), *names_in(guard.right)]))
        for one in names:  # along one name, because random sizes may miss such sizes
            values = self.wide[one] if self.wide[one][0] == self.ranges[one][0] else self.ranges[one]
            for start in (self.base, {other: part[-1] for other, part in self.ranges.items()}):
                for i in self._spread(one, values):
                    made = {**start, one: values[i]}
                    if opposite(made) and all(g(made) for g in before):
                        return made
        return None

    def _confirm(self) -> bool:
        """Compare with captures at unused sizes. If any differ, add these sizes and return False."""
        self.confirmed = 0
        for piece in list(self.pieces):
            taken_there = [(sizes, self.known[self.key(sizes)]) for sizes in piece.points]
            if not all(isinstance(got, Taken) and self._predicts(piece, sizes, got) for sizes, got in taken_there):
                return False  # sizes that were added after the numbers were fitted
            stepwise = any(is_stepwise(e) for e in piece.expressions.values() if isinstance(e, Expression))
            least = _CONFIRM_STEPS if stepwise else _CONFIRM
            paths = piece.paths or [()]
            each = max(least, _CONFIRM_CALLS // (len(piece.taken.rows) + 1)) // len(paths) + _CONFIRM_PATH
            steps = [*self._beside_guards(piece), *self._steps(piece), *self._crossings(piece)]
            if not all(self._confirmed(piece, sizes) for sizes in steps):
                return False
            for path in paths:  # numbers may be others on each way through the code
                left = each
                for sizes in self.near([*path, *piece.bounds], piece.points[0]):
                    if sizes in piece.points or self.piece_at(sizes) is not piece:
                        continue
                    if not self._confirmed(piece, sizes):
                        return False
                    left -= 1
                    if not left:
                        break
        for _ in range(_OUTSIDE):  # conditions that were found by trying may exclude too much
            sizes = self.anywhere()
            if self.piece_at(sizes) is None and self.key(sizes) not in self.known and not self._refuses(sizes):
                found = self.sort(sizes)
                if found is not None:
                    self.follow_piece(found)
                    return False
        for piece in self.pieces:
            for sizes in piece.points:
                if self.piece_at(sizes) is not piece:
                    if not piece.holds(sizes):
                        piece.paths.append(self.follow(sizes, piece))
                    return False
        return True

    def _confirmed(self, piece: Piece, sizes: Sizes) -> bool:
        """Return False after adding sizes at which a piece holds and gives something else than a capture."""
        if sizes in piece.points or self.piece_at(sizes) is not piece:
            return True
        got = self.take(sizes, counted=False)
        if isinstance(got, Taken) and piece.taken.same_calls(got) and self._predicts(piece, sizes, got):
            self.confirmed += 1
            return True
        self.sort(sizes)
        piece.followed = False
        return False

    def _sweep(self) -> bool:
        """Compare with captures at all sizes on which uses that cannot be followed depend. Return False after adding some at which
        something is wrong."""
        right, swept = True, set()
        for piece in list(self.pieces):
            for expression, use in piece.hidden.items():
                names = tuple(sorted({*names_in(expression)}))
                if (id(piece), names) in swept:
                    continue
                swept.add((id(piece), names))
                count = math.prod(len(self.wide[one]) for one in names)
                if count > _SWEPT:
                    raise SizesError(f"trace: {expression} is used {use}, which cannot be followed; that is checked by running at all "
                                     f"sizes, up to {_SWEPT} of them, and {', '.join(names)} has {count:,}")  # fmt: skip
                wrong = 0
                for values in product(*[self.wide[one] for one in names]):
                    sizes = {**piece.points[-1], **dict(zip(names, values))}
                    wrong += not self._right(sizes)
                    if wrong > PIECES:
                        self.too_many()
                right = right and not wrong
        return right

    def _right(self, sizes: Sizes) -> bool:
        """Return whether the program is that of a capture at sizes. If not, the sizes are added to those with which it is found."""
        piece = self.piece_at(sizes)
        if piece is None and self._refuses(sizes) or piece is not None and sizes in piece.points:
            return True
        key = self.key(sizes)
        got = self.take(sizes, counted=False)
        if isinstance(got, Taken) and piece is not None and piece.taken.same_calls(got) and self._predicts(piece, sizes, got):
            del self.known[key]  # it need not be kept
            return True
        if isinstance(got, Exception) and piece is None:
            return True
        found = self.sort(sizes)
        if found is not None:
            found.followed = False
            self.follow_piece(found)
        return False

    def _restrict(self) -> None:
        """Restrict each piece that was captured for only one size of a name to that size."""
        for piece in self.pieces:
            for one in self.names:
                values = {sizes[one] for sizes in piece.points}
                guard = Guard(name(one), "==", min(values))
                if len(values) == 1 and len(self.wide[one]) > 1 and guard not in piece.bounds:
                    piece.bounds.append(guard)

    @staticmethod
    def _predicts(piece: Piece, sizes: Sizes, got: Taken) -> bool:
        try:
            numbers = piece.numbers(sizes)
            return numbers == got.numbers and list(map(type, numbers)) == list(map(type, got.numbers))
        except ExpressionError:
            return False

    def _crossings(self, piece: Piece) -> list[Sizes]:
        """Return sizes at which numbers that the code of a piece computed pass each other."""
        if not piece.notes:
            return []
        tried = [self.anywhere() for _ in range(_TRIED)]
        for one, sizes in self.ranges.items():
            start = self.random.choice(piece.points)
            tried += [{**start, one: sizes[i]} for i in self._spread(one, sizes)]
        tried = [sizes for sizes in tried if self.piece_at(sizes) is piece]
        found = {self.key(sizes): sizes for sizes in crossings(piece, self.names, tried, piece.points)}
        return list(found.values())[: max(_CROSSINGS, _CONFIRM_CALLS // (len(piece.taken.rows) + 1))]

    def _beside_guards(self, piece: Piece) -> Iterator[Sizes]:
        """Yield sizes next to those at which the code of a piece takes another path."""
        for guard in dict.fromkeys(g.simple() for path in [*piece.paths, piece.bounds] for g in path):
            for one in self.names:
                if guard.left == name(one) and isinstance(guard.right, int):
                    start = self.random.choice(piece.points)
                    for size in range(guard.right - 1, guard.right + 2):
                        if size in self.ranges[one]:
                            yield {**start, one: size}

    def _steps(self, piece: Piece) -> Iterator[Sizes]:
        """Yield sizes at which quotients in the expressions of a piece change, and the sizes just before."""
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
