"""Find the dimensions of a call that change size together.

An *axis* of a call is a set of tensor dimensions, and of numbers among the arguments, whose sizes can only change
together, with the dimensions of the results that follow. It is found by trying: multiply some sizes, and see whether the
meta kernel accepts the call and which sizes of the results are multiplied too. ``mm`` of a (n, k) and a (k, m) matrix has
three axes: n, m, and k, which no dimension of the result follows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from math import gcd
from typing import Any, NamedTuple

__all__ = ["Axis", "Place", "Shapes", "find_axes"]

FACTORS = (2, 3)
LARGEST_SET = 4  # places that are changed together in the search
ATTEMPTS = 160  # maximum number of calls for each dimension


class Place(NamedTuple):
    """A dimension of a tensor argument, or a number in an argument.

    ``item`` is the position in a list of tensors, or -1. ``dim`` is the dimension, or the position in a list of numbers.
    """

    name: str
    item: int
    dim: int
    size: int
    number: bool = False


class Axis(NamedTuple):
    """Places whose sizes change together.

    ``outputs`` has one entry for each tensor that the call returns: the dimension that follows, or -1 if none does.
    """

    places: tuple[Place, ...]
    outputs: tuple[int, ...]

    @property
    def dims(self) -> tuple[Place, ...]:
        """The places that are dimensions of tensors."""
        return tuple(place for place in self.places if not place.number)


class Shapes(NamedTuple):
    """What the search changes: the shape of each tensor argument, and the numbers of the others.

    ``tensors`` maps (name, item) to a shape, ``numbers`` maps a name to an int or a tuple of ints.
    """

    tensors: dict[tuple[str, int], tuple[int, ...]]
    numbers: dict[str, Any]

    def places(self) -> list[Place]:
        """Return the dimensions of tensors that have at least two elements."""
        return [
            Place(name, item, dim, size)
            for (name, item), shape in self.tensors.items() for dim, size in enumerate(shape) if size > 1
        ]  # fmt: skip

    def number_places(self) -> list[Place]:
        """Return the numbers greater than 1."""
        found = []
        for name, value in self.numbers.items():
            for position, number in enumerate(value if isinstance(value, tuple) else (value,)):
                if number > 1:
                    found.append(Place(name, -1, position, number, True))
        return found

    def scaled(self, places: Sequence[Place], factor: int) -> Shapes:
        """Return the shapes with the sizes at the places multiplied."""
        return self.replaced({place: place.size * factor for place in places})

    def replaced(self, sizes: dict[Place, int]) -> Shapes:
        """Return the shapes with other sizes at some places."""
        tensors, numbers = dict(self.tensors), dict(self.numbers)
        for place, size in sizes.items():
            if place.number:
                value = numbers[place.name]
                numbers[place.name] = _with(value, place.dim, size) if isinstance(value, tuple) else size
            else:
                key = (place.name, place.item)
                tensors[key] = _with(tensors[key], place.dim, size)
        return Shapes(tensors, numbers)


def _with(values: tuple[int, ...], position: int, value: int) -> tuple[int, ...]:
    return (*values[:position], value, *values[position + 1 :])


Results = Callable[[Shapes], "list[tuple[int, ...]] | None"]


def find_axes(shapes: Shapes, results: Results) -> list[Axis]:
    """Return the axes of a call.

    Parameters
    ----------
    shapes : Shapes
        The sizes of the call.
    results : callable
        Return the shapes of the tensors that the call returns with other sizes, or None if it is refused.
    """
    whole = results(shapes)
    if whole is None:
        return []
    found: dict[frozenset[Place], Axis] = {}
    places, numbers = shapes.places(), shapes.number_places()

    def accept(chosen: Sequence[Place]) -> bool:
        key = frozenset(chosen)
        if key in found:
            return True
        outputs = _outputs(shapes, chosen, whole, results)
        if outputs is None:
            return False
        if outputs:
            found[key] = Axis(tuple(sorted(chosen, key=lambda place: (place.number, place.name, place.item, place.dim))), outputs)
        return True

    for place in places:
        _sets_with(place, places, numbers, accept)
        for aligned in _aligned(place, shapes):
            accept(aligned)
    return list(found.values())


def _outputs(shapes: Shapes, chosen: Sequence[Place], whole: list[tuple[int, ...]], results: Results) -> tuple[int, ...] | None:
    """Return the dimension of each result that follows. Return None if the call is refused. Return () if the axis is of no
    use: a size of the results changes by another factor, or two sizes of one result change."""
    outputs: list[int] | None = None
    for factor in FACTORS:
        got = results(shapes.scaled(chosen, factor))
        if got is None or len(got) != len(whole):
            return None
        follow = []
        for before, after in zip(whole, got, strict=True):
            if len(before) != len(after):
                return ()
            dims = [dim for dim, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
            if len(dims) > 1 or any(after[dim] != before[dim] * factor for dim in dims):
                return ()
            follow.append(dims[0] if dims else -1)
        if outputs is not None and follow != outputs:
            return ()
        outputs = follow
    return tuple(outputs or ())


def _sets_with(place: Place, places: list[Place], numbers: list[Place], accept: Callable[[Sequence[Place]], bool]) -> None:
    """Try the smallest sets of places that contain ``place`` and can change together."""
    others = _units([other for other in places if other != place and (other.name, other.item) != (place.name, place.item)
                     and other.size == place.size])  # fmt: skip
    same = [(other,) for other in places if other != place and (other.name, other.item) == (place.name, place.item)
            and other.size == place.size]  # fmt: skip
    near = [(number,) for number in numbers if gcd(number.size, place.size) > 1]
    units = [*others, *near, *same]
    attempts = 0
    for count in range(LARGEST_SET + 1):
        hit = False
        for combination in itertools.combinations(units, count):
            chosen = [place, *itertools.chain(*combination)]
            if len({(one.name, one.item, one.number) for one in chosen if not one.number}) < len([c for c in chosen if not c.number]) - 1:
                continue
            attempts += 1
            if attempts > ATTEMPTS:
                return
            hit = accept(chosen) or hit
        if hit:
            return


def _units(places: list[Place]) -> list[tuple[Place, ...]]:
    """Join the same dimension of all tensors of a list, which change together."""
    groups: dict[Any, list[Place]] = {}
    for place in places:
        groups.setdefault((place.name, place.dim) if place.item >= 0 else place, []).append(place)
    return [tuple(group) for group in groups.values()]


def _aligned(place: Place, shapes: Shapes) -> Iterator[list[Place]]:
    """Yield the dimensions of all tensors at the same position, counted from the right and from the left.

    They are also yielded without vectors, which may be something else, such as the state of a generator.
    """
    own = len(shapes.tensors[place.name, place.item])
    for right in (True, False):
        chosen = []
        for (name, item), shape in shapes.tensors.items():
            dim = len(shape) - own + place.dim if right else place.dim
            if 0 <= dim < len(shape) and shape[dim] > 1:
                chosen.append(Place(name, item, dim, shape[dim]))
        matrices = [one for one in chosen if len(shapes.tensors[one.name, one.item]) > 1]
        for one in (chosen, matrices) if len(matrices) < len(chosen) else (chosen,):
            if len(one) > 1:
                yield one
