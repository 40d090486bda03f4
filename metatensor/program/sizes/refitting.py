"""A pass applied to the first piece of a program with named sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any

from metatensor.program.program import Program
from metatensor.program.sizes.captures import Captures
from metatensor.program.sizes.fitting import Fitter
from metatensor.program.sizes.numbers import Taken, owner, taken
from metatensor.program.sizes.pieces import Piece, Sizes, SizesError, sizes_text
from metatensor.program.sizes.program import SizedProgram

__all__ = ["points_of", "refitted"]

_POINTS, _CONFIRM, _ROUNDS = 12, 12, 6
"""Number of sizes with which numbers are fitted, number of further sizes that confirm them, and maximum number of fits."""


def points_of(program: SizedProgram, index: int) -> Iterator[Sizes]:
    """Yield distinct sizes of a piece; those of the sample first, if it is that piece's."""
    piece = program.pieces[index]
    base = program.sample()
    captures = Captures(lambda sizes: program, program.tried(), base)
    seen = set()
    paths = chain.from_iterable(captures.near([*path, *piece.bounds], base) for path in piece.paths or [()])
    for sizes in chain([base], captures.starts(), paths):
        key = tuple(sizes.values())
        if key not in seen and next((p for p in program.pieces if p.holds(sizes)), None) is piece:
            seen.add(key)
            yield sizes


def refitted(program: SizedProgram, function: Callable[[Program], Program]) -> SizedProgram:
    """Return what a pass makes of the first piece of a program. It has one piece, with the conditions of that.

    Raises
    ------
    SizesError
        If the pass gives other calls at some sizes than at others, or numbers that are no expressions.
    """
    old = program.pieces[0]
    points: list[Sizes] = []
    takes: list[Taken] = []
    following = points_of(program, 0)

    def take(sizes: Sizes) -> Taken:
        found = taken(function(program.at(**sizes)))
        if takes and not takes[0].same_calls(found):
            raise SizesError(f"{program.name}: the calls at {sizes_text(sizes)} are others than at {sizes_text(points[0])}")
        return found

    for sizes, _ in zip(following, range(_POINTS)):
        takes.append(take(sizes))
        points.append(sizes)
    if not takes:
        raise SizesError(f"{program.name}: no sizes were found at which the conditions hold: {program.conditions()[0]}")
    made = Piece(takes[0], points)
    made.bounds, made.paths = old.bounds, old.paths
    ahead = [(sizes, take(sizes)) for sizes, _ in zip(following, range(_CONFIRM))]
    for _ in range(_ROUNDS):
        made.expressions = _expressions(made, takes, old.expressions)
        wrong = next(((sizes, found) for sizes, found in ahead if made.numbers(sizes) != found.numbers), None)
        if wrong is None:
            return SizedProgram(program.sizes, [made], [], program.places, program.confirmed, takes[0].program.tensors)
        points.append(wrong[0])
        takes.append(wrong[1])
    raise SizesError(f"{program.name}: sizes were found again and again at which the numbers are others")


def _expressions(piece: Piece, takes: list[Taken], known: Mapping[int, Any]) -> dict[int, Any]:
    fitter = Fitter(piece.points, dict.fromkeys(known.values()))
    made: dict[int, Any] = {}
    for at, column in enumerate(zip(*(one.numbers for one in takes))):
        if len({*map(repr, column)}) > 1:
            found = fitter.fit(column)
            if found is None:
                raise SizesError(f"no expression of the sizes was found for {owner(piece.taken.program, at)}")
            made[at] = found
    return made
