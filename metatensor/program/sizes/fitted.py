"""Expressions for the numbers of pieces."""

from __future__ import annotations

from itertools import chain
from typing import Any

from metatensor.program.sizes.captures import GENERIC, PIECES
from metatensor.program.sizes.expressions import ExpressionError, evaluate, name, names_in
from metatensor.program.sizes.fitting import Fitter
from metatensor.program.sizes.numbers import Taken, owner
from metatensor.program.sizes.pieces import Piece, Sizes, SizesError, sizes_text
from metatensor.program.sizes.separating import Separating

__all__ = ["PATHS", "Fitting"]

PATHS = 24
"""Maximum number of paths through the code, distinguished by their comparisons."""
_DOUBTS = 10
"""Maximum number of captures that decide between expressions with the same numbers so far."""


class Fitting(Separating):
    """Finds expressions, and sizes that decide between several."""

    def follow_piece(self, piece: Piece) -> None:
        for sizes in list(piece.points):
            if len(piece.paths) >= PATHS:
                for one in dict.fromkeys(n for path in piece.paths for g in path for side in (g.left, g.right) for n in names_in(side)):
                    piece.hidden.setdefault(name(one), "in more comparisons than can be told apart")
                piece.paths.append(())
                return
            if not piece.paths or not any(all(guard(sizes) for guard in path) for path in piece.paths):
                piece.paths.append(self.follow(sizes, piece))

    def fit_all(self) -> None:
        done: list[Piece] = []
        while len(done) < len(self.pieces):
            piece = max((p for p in self.pieces if not any(p is other for other in done)), key=lambda p: len(p.points))
            done.append(piece)
            self._widen(piece)
            failed = self.fit(piece)
            if failed is not None:
                self._split(piece, failed)
            if not piece.followed and piece.expressions:  # now the sizes of results have expressions
                piece.followed = True
                piece.paths = []
                self.follow_piece(piece)
                again = self.fit(piece)
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
                if len(piece.points) > GENERIC or tried > 3 * GENERIC:
                    return
                if sizes not in piece.points:
                    tried += 1
                    self.sort(sizes)

    def fit(self, piece: Piece) -> int | None:
        """Fit the numbers of a piece. Return the position of a number without an expression, or None."""
        takes = [t for sizes in piece.points if isinstance(t := self.known[self.key(sizes)], Taken)]
        piece.expressions = {}
        if len(takes) < 2:
            return None
        others = (e for p in self.pieces if p is not piece for e in p.expressions.values())
        fitter = Fitter(piece.points, dict.fromkeys(chain(piece.notes, others)))
        known: dict[tuple[Any, ...], Any] = {}
        for at, column in enumerate(zip(*[t.numbers for t in takes])):
            n = column[0]
            if column.count(n) == len(column) and (n or not isinstance(n, float) or len({*map(repr, column)}) == 1):
                continue
            key = type(n), column  # 16 and 16.0 are equal
            if key not in known:
                known[key] = fitter.fit(column)
                if known[key] is None:
                    return at
            piece.expressions[at] = known[key]
        piece.doubts = fitter.doubts
        return None

    def _split(self, piece: Piece, failed: int) -> None:
        """Split off sizes at which numbers follow another rule, such as a batch of one."""
        for guard in self.special(piece):
            inside = [sizes for sizes in piece.points if guard(sizes)]
            if not 0 < len(inside) < len(piece.points):
                continue
            rest = [sizes for sizes in piece.points if not guard(sizes)]
            part = Piece(self.taken(rest[0]), rest)
            part.notes = piece.notes
            if len(rest) < 3 or self.fit(part) is not None:
                continue
            other = Piece(self.taken(inside[0]), inside)
            other.paths, other.bounds = list(piece.paths), [*piece.bounds, guard]
            piece.taken, piece.points, piece.expressions = part.taken, rest, part.expressions
            piece.bounds.append(guard.negated())
            self.pieces.append(other)
            if len(self.pieces) > PIECES:
                self.too_many()
            return
        values: dict[Any, Sizes] = {}
        for sizes in piece.points:
            values.setdefault(self.taken(sizes).numbers[failed], sizes)
        shown = "; ".join(f"{_short(value)} at {sizes_text(sizes)}" for value, sizes in list(values.items())[:6])
        raise SizesError(f"trace: no expression of the sizes was found for {owner(piece.taken.program, failed)}: {shown}")

    def resolve(self) -> None:
        """If several expressions fit the numbers, capture at sizes at which they differ, and fit again."""
        for piece in list(self.pieces):
            for _ in range(_DOUBTS):
                sizes = next(filter(None, (self._where(piece, *doubt) for doubt in dict.fromkeys(piece.doubts))), None)
                if sizes is None:
                    break
                if self.sort(sizes) is piece and self.fit(piece) is not None:
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
                     if _differ(one, other, made) and self.key(made) not in self.known and self.piece_at(made) is piece]
            if found:
                return self.random.choice(found)
        return None


def _differ(one: Any, other: Any, sizes: Sizes) -> bool:
    try:
        return bool(evaluate(one, sizes) != evaluate(other, sizes))
    except ExpressionError:  # one is not computed there
        return True


def _short(value: Any) -> str:
    return repr(value)[:40]
