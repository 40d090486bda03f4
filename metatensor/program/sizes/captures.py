"""Captures at several sizes, and the choice of sizes to try."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping

from metatensor.program.program import Program
from metatensor.program.sizes.expressions import Expression, name, names_in
from metatensor.program.sizes.guards import Guard, always
from metatensor.program.sizes.numbers import Taken, filled, first_difference, taken
from metatensor.program.sizes.pieces import Piece, Refused, Sizes, SizesError, divisors, sizes_text
from metatensor.program.sizes.tracking import Notes

__all__ = ["GENERIC", "PIECES", "Captures"]

GENERIC = 7
"""Number of sizes at which a program is captured before fitting, besides the user's."""
_CAPTURES = 320
"""Maximum number of captures."""
PIECES = 24
"""Maximum number of pieces, programs with different calls, of one program with named sizes."""


class Captures:
    """Captures at different sizes, each made once, and the pieces to which they belong. See `Finder`."""

    def __init__(
        self, make: Callable[..., Program], ranges: Mapping[str, range], base: Sizes, wide: Mapping[str, range] | None = None
    ) -> None:
        self.wide = wide or dict(ranges)
        self.make, self.ranges, self.base, self.names = make, dict(ranges), base, list(ranges)
        self.random = random.Random(0)
        self.known: dict[tuple[int, ...], Taken | Exception] = {}
        self.pieces: list[Piece] = []
        self.refused: list[Refused] = []
        self.failed: list[Sizes] = []
        self.places: dict[Guard, str | None] = {}
        self.confirmed = 0
        self.captures = 0

    def key(self, sizes: Sizes) -> tuple[int, ...]:
        return tuple(sizes[one] for one in self.names)

    def take(self, sizes: Sizes, *, counted: bool = True) -> Taken | Exception:
        """Capture at sizes, once."""
        key = self.key(sizes)
        if key not in self.known:
            if counted:
                self.count()
            try:
                self.known[key] = taken(self.make(sizes))
            except (SizesError, KeyboardInterrupt):
                raise
            except Exception as error:
                self.known[key] = error.with_traceback(None)
        return self.known[key]

    def count(self) -> None:
        self.captures += 1
        if self.captures > _CAPTURES:
            raise SizesError(f"trace: the calls were captured at {_CAPTURES} sizes, and differ in more ways than that can tell"
                             f"{self.example()}")

    def example(self) -> str:
        if len(self.pieces) < 2:
            return ""
        a, b = self.pieces[0], self.pieces[-1]
        return (f"; between {sizes_text(a.points[0])} and {sizes_text(b.points[0])} the first difference is "
                f"{first_difference(a.taken, b.taken)}")  # fmt: skip

    def too_many(self) -> None:
        raise SizesError(f"trace: the calls differ at nearly every size{self.example()}")

    def follow(self, sizes: Sizes, piece: Piece | None) -> tuple[Guard, ...]:
        """Capture with ints that record comparisons. Return the conditions under which the code takes the same path."""
        notes = Notes()
        self.count()
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
            piece.hidden = notes.hidden | piece.hidden
        if isinstance(plain, Taken) and not (isinstance(got, Taken) and got.same_calls(plain)):
            if piece is not None:
                piece.hidden.update({name(one): "in code that treats sizes that are followed otherwise" for one in self.names})
            return ()  # nothing is known
        found: dict[Guard, None] = {}
        for guard, place in notes.guards.items():
            short = guard.simple()
            if not isinstance(short.left, (Expression,)) and not list(names_in(short.left)):
                continue
            if not always(short, self.wide) and short(sizes):
                found[short] = None
                self.places.setdefault(short, place)
        return tuple(found)

    def sort(self, sizes: Sizes) -> Piece | None:
        """Capture at the given sizes, and add them to the piece with the same calls, or to a new piece."""
        got = self.take(sizes)
        if isinstance(got, Exception):
            if sizes not in self.failed:
                self.failed.append(sizes)
            if not any(all(guard(sizes) for guard in one.guards) for one in self.refused):
                guards = self.follow(sizes, None)
                self.refused.append(Refused(guards, f"{type(got).__name__}: {got}"[:200]))
            return None
        same = [piece for piece in self.pieces if piece.taken.same_calls(got)]
        if same:  # several pieces may have the same calls, if numbers follow other rules at special sizes
            fitting = (p for p in same if all(guard(sizes) for guard in p.bounds))
            piece = next((p for p in same if sizes in p.points), None) or next(fitting, same[0])
            self.known[self.key(sizes)] = piece.taken._replace(numbers=got.numbers)  # share the rest with the piece
            if sizes not in piece.points:
                piece.points.append(sizes)
            return piece
        piece = Piece(got, [sizes])
        self.pieces.append(piece)
        return piece

    def taken(self, sizes: Sizes) -> Taken:
        found = self.known[self.key(sizes)]
        assert isinstance(found, Taken)
        return found._replace(program=filled(found.program, found.numbers))

    def piece_at(self, sizes: Mapping[str, int]) -> Piece | None:
        """Return the piece that holds at the given sizes, or None."""
        return next((piece for piece in self.pieces if piece.holds(sizes)), None)

    def anywhere(self) -> Sizes:
        """Return random sizes, mostly small ones and ends of ranges."""
        return {one: self._value(sizes) for one, sizes in self.ranges.items()}

    def _value(self, sizes: range) -> int:
        kind, count = self.random.random(), len(sizes)
        if kind < 0.1:
            return sizes[self.random.choice((0, -1, min(1, count - 1), min(2, count - 1)))]
        if kind < 0.5:
            return sizes[int(count ** self.random.random()) - 1]
        return sizes[self.random.randrange(count)]

    def starts(self) -> Iterator[Sizes]:
        """Yield sizes for the first captures: generic ones, then ends of ranges."""
        middle = {one: sizes[len(sizes) > 2 : ] for one, sizes in self.ranges.items()}
        for i in range(GENERIC):
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
        moduli = sorted({b for guard in guards for b in divisors(guard.left)} | {1})
        for i in range(tries):
            made = self.anywhere()
            if i % 2:
                for one in self.names:  # as at the start, but for multiples of divisors
                    if self.random.random() < 0.5:
                        made[one] = start[one] + self.random.choice(moduli) * self.random.randrange(-8, 9)
                if i % 4 == 1 and len(self.names) > 1:
                    one, other = self.random.sample(self.names, 2)
                    made[one] = made[other]
            made.update(fixed)
            if all(made[one] in self.ranges[one] for one in self.names) and all(guard(made) for guard in guards):
                yield made
