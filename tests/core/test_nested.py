"""Tensors in nested containers."""

import dataclasses
from typing import Any, NamedTuple

import pytest

import metatensor as mt
from metatensor._core.nested import map_tensors, tensors_in


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass
class Output:
    logits: Any
    states: Any = None


@pytest.fixture
def tensors():
    return [mt.empty(n, device="meta") for n in range(4)]


def test_tensors_are_found_from_left_to_right(tensors):
    a, b, c, d = tensors
    found = list(tensors_in({"x": [a, (1, b)], "y": Pair("text", Output(c, [d]))}))
    assert [id(t) for t in found] == [id(t) for t in tensors]
    assert list(tensors_in(None)) == list(tensors_in("text")) == list(tensors_in(Output)) == []


def test_a_structure_that_contains_itself_ends(tensors):
    loop = [tensors[0]]
    loop += [loop, {"again": loop}] * 20  # the search would never end if it entered a list twice
    assert all(t is tensors[0] for t in tensors_in(loop))


def test_tensors_are_replaced(tensors):
    a, b, c, _ = tensors
    got = map_tensors(lambda t: len(t), {"x": [a, (1, b)], "y": Pair(None, c)})
    assert got == {"x": [0, (1, 1)], "y": Pair(None, 2)} and type(got["y"]) is Pair
    values = mt.empty(3, 2, device="meta").max(0)
    assert type(map_tensors(mt.clone, values)) is type(values)


def test_containers_without_tensors_are_kept():
    for value in ([1, 2], (3,), {"a": [None]}, "text", range(3), Pair(1, 2)):
        assert map_tensors(mt.clone, value) is value


def test_replacement_in_dataclasses_and_subclasses_of_dict(tensors):
    class Named(dict):
        pass

    given = Output(tensors[0], Named(a=[tensors[1]], b=1))
    made = map_tensors(lambda t: t.shape, given)
    assert type(made) is Output and made.logits == (0,) and type(made.states) is Named and made.states == {"a": [(1,)], "b": 1}
    assert given.logits is tensors[0] and given.states["a"] == [tensors[1]]
    assert map_tensors(lambda t: t, given) is given
