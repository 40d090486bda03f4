"""Code that takes sizes where nothing notes comparisons: it is followed, checked at all sizes, or refused."""

import math
import sys
from math import sqrt

import pytest

import metatensor as mt
from metatensor.program.sizes.numbers import taken
from metatensor.program.sizes.pieces import SizesError

TABLE, CHOSEN, PAIRS = {4: 2, 77: 5}, {3, 130}, {(5,), (77,)}


def meta(*shape):
    return mt.empty(*shape, device="meta")


def right_everywhere(fn, top=200):
    """Trace with a named size, and compare with fresh traces at all values."""
    program = mt.program.trace(fn, meta(20, 4), sizes={"n": (1, top)}, dims=[["n", None]])
    for n in range(1, top + 1):
        fresh, known = taken(mt.program.trace(fn, meta(n, 4))), taken(program.at(n=n))
        assert known.same_calls(fresh) and list(map(repr, known.numbers)) == list(map(repr, fresh.numbers)), n
    return program


FOLLOWED = {
    "int of a float": (lambda x: x[: int(x.shape[0] * 0.7)], "int(n * 0.7)"),
    "a chain of floats": (lambda x: x + math.floor(x.shape[0] * 0.7 / 3 + 0.5), "floor(((n * 0.7) / 3) + 0.5)"),
    "round": (lambda x: x + round(x.shape[0] / 6), "round(n / 6)"),
    "an int of an int": (lambda x: x + int(x.shape[0] // 3) * 2, "2*(n//3)"),
    "a root": (lambda x: x + int(math.sqrt(x.shape[0])), "int(sqrt(n))"),
    "a root by another name": (lambda x: x + int(sqrt(x.shape[0] / 2)), "int(sqrt(n / 2))"),
    "a logarithm": (lambda x: x + math.ceil(math.log2(x.shape[0])), "ceil(log2(n))"),
    "shifts and masks": (lambda x: x + (x.shape[0] >> 2) + (x.shape[0] & 7), "'n//4', 'n%8'"),
    "a common divisor": (lambda x: x + math.gcd(x.shape[0], 12), "gcd(n, 12)"),
    "a float that is divided as an int": (lambda x: x * (x.shape[0] // 2.0), "n // 2.0"),
}


@pytest.mark.parametrize("what", FOLLOWED)
def test_conversions_are_followed(what):
    fn, text = FOLLOWED[what]
    assert text in str(right_everywhere(fn)) + str([str(e) for e in right_everywhere(fn).pieces[0].expressions.values()])


BRANCHES = {
    "a dict": (lambda x: x.relu() if TABLE.get(x.shape[0]) else x.exp(), "n == 77"),
    "a dict written there": (lambda x: x.relu() if {9: 0, 111: 7}.get(x.shape[0] + 1) else x.exp(), "n == 110"),
    "a set": (lambda x: x.relu() if x.shape[0] in CHOSEN else x.exp(), "n == 130"),
    "a set written there": (lambda x: x.relu() if x.shape[0] in {3, 151} else x.exp(), "n == 151"),
    "a comparison after int": (lambda x: x.relu() if int(x.shape[0] * 0.7) == 111 else x.exp(), "int(n * 0.7) == 111"),
    "a comparison of ints": (lambda x: x.relu() if int(x.shape[0]) == 137 else x.exp(), "n == 137"),
}


@pytest.mark.parametrize("what", BRANCHES)
@pytest.mark.skipif(sys.version_info < (3, 11), reason="frames do not tell columns")
def test_branches_are_conditions(what):
    fn, condition = BRANCHES[what]
    program = right_everywhere(fn)
    assert condition in "; ".join(program.conditions() + [str(g) for piece in program.pieces for path in piece.paths for g in path])


HIDDEN = {
    "a string": lambda x: x.relu() if str(x.shape[0]).endswith("37") else x.exp(),
    "a formatted string": lambda x: x.relu() if f"{x.shape[0]}" == "137" else x.exp(),
    "a part of a key": lambda x: x.relu() if (x.shape[0],) in PAIRS else x.exp(),
    "a hash": lambda x: x.relu() if hash(x.shape[0]) == 137 else x.exp(),
    "bits": lambda x: x + x.shape[0].bit_length(),
    "a power of two": lambda x: x.relu() if x.shape[0] & (x.shape[0] - 1) == 0 else x.exp(),
    "a list": lambda x: x + len([0] * (x.shape[0] // 50)),
    "a range": lambda x: x + sum(1 for i in range(x.shape[0]) if i == 45),
    "two values of a set": lambda x: x + len({x.shape[0], 150}),
}


@pytest.mark.parametrize("what", [pytest.param(what, marks=[pytest.mark.slow] * (what in ("bits", "a range"))) for what in HIDDEN])
def test_hidden_uses_are_checked_at_all_sizes(what):
    try:
        right_everywhere(HIDDEN[what], 60 if what == "a range" else 200)  # each of its numbers is compared at each size
    except SizesError:
        pass


@pytest.mark.parametrize("what", ["a string", "a hash", "a part of a key"])
def test_hidden_uses_of_very_many_sizes_are_refused(what):
    with pytest.raises(SizesError, match=r"n is used .*test_followed.py.*cannot be followed.* 100,000"):
        mt.program.trace(HIDDEN[what], meta(20, 4), sizes={"n": (1, 100_000)}, dims=[["n", None]])


@pytest.mark.slow
def test_numbers_of_each_way_through_the_code():
    right_everywhere(lambda x: x + min(round(x.shape[0] / 6), 3) + max(x.shape[0] % 9, 4))
    right_everywhere(lambda x: x + len(range(0, x.shape[0], 8)) // 4, 150)


def test_sizes_that_are_tried_late():
    try:
        right_everywhere(lambda x: x.narrow(0, 0, max(1, sorted([0, min(x.shape[0], 8), 4])[1] % 12))[:2])
    except SizesError:
        pass


@pytest.mark.slow
def test_where_a_slice_is_longer_than_its_tensor():
    try:
        right_everywhere(lambda x: x[: 1 + math.gcd(x.shape[0], 11)] + 1)
    except SizesError:
        pass


def test_functions_are_as_before():
    module = globals()
    before = math.sqrt, module["sqrt"], "int" in module, math.floor
    right_everywhere(lambda x: x + int(sqrt(x.shape[0])), 20)
    assert (math.sqrt, module["sqrt"], "int" in module, math.floor) == before and isinstance(3, int) and int("3") == 3


def test_classes_are_those_of_python_while_sizes_are_followed():
    def fn(x):
        n = x.shape[0]
        assert isinstance(n, int) and isinstance(n / 2, float) and isinstance(range(n), range) and issubclass(bool, int)
        assert int("7") == 7 and float("0.5") == 0.5 and int.from_bytes(b"a", "big") == 97 and isinstance(int(n), int)
        return x + len(range(3))

    right_everywhere(fn, 30)


def test_a_program_that_begins_with_a_special_size():
    program = mt.program.trace(lambda x: x.relu() if x.shape[0] == 1 else x.exp().sin(), meta(1, 6), sizes={"b": (1, 9), "n": (1, 40)},
                               dims=[["b", "n"]])  # fmt: skip
    assert program.conditions()[0] == "b == 1: the 1 listed call"
    assert program(meta(3, 5)).shape == (3, 5) and program.sizes_of(meta(3, 5)) == {"b": 3, "n": 5}
    assert program(meta(1, 7)).shape == (1, 7)


def test_a_tensor_that_is_given_twice():
    x = meta(4, 6)
    program = mt.program.trace(lambda x, y: x + y, x, x, sizes={"b": (1, 9), "n": (1, 40)}, dims=[["b", "n"], ["b", "n"]])
    y = meta(5, 7)
    assert program(y, y).shape == (5, 7)
    with pytest.raises(ValueError, match="argument 'y' is the same tensor as argument 'x', and must have the same names"):
        mt.program.trace(lambda x, y: x + y, x, x, sizes={"b": (1, 9)}, dims=[["b", None], None])


def test_a_callable_that_counts_its_runs():
    count = [0]

    def fn(x):
        count[0] += 1
        return x * count[0]

    with pytest.raises(SizesError, match=r"a number given to call 0 \(mul.* is 1 in one run and 2 in the next.*capturable"):
        mt.program.trace(fn, meta(20, 4), sizes={"n": (1, 30)}, dims=[["n", None]])


def test_source_of_rounded_floats():
    program = right_everywhere(lambda x: x[: math.ceil(x.shape[0] * 0.7)] * math.log2(x.shape[0]), 40)
    scope = {}
    exec(program.code, scope)
    assert scope["forward"]({}, meta(31, 4)).shape == (22, 4)
