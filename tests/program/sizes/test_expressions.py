"""Expressions of named sizes: arithmetic, text, bounds."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metatensor.program.sizes.expressions import (
    Expression,
    ExpressionError,
    Real,
    bounds,
    evaluate,
    name,
    names_in,
    parse,
    python,
)  # fmt: skip
from metatensor.program.sizes.guards import Guard, always, parse_guard

a, b = name("a"), name("b")
leaf = st.one_of(st.sampled_from(["a", "b"]), st.integers(0, 9).map(str))


def joined(parts):
    return st.one_of(
        st.tuples(parts, st.sampled_from(["+", "-", "*"]), parts).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(parts, st.sampled_from(["//", "%"]), st.integers(1, 9)).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(st.sampled_from(["min", "max"]), parts, parts).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
    )


texts = st.recursive(leaf, joined, max_leaves=8)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(texts, st.integers(0, 50), st.integers(0, 50))
def test_an_expression_is_what_python_computes(text, m, n):
    found = parse(text)
    wanted = eval(text, {"__builtins__": {}, "min": min, "max": max}, {"a": m, "b": n})
    assert evaluate(found, {"a": m, "b": n}) == wanted
    assert evaluate(parse(str(found)), {"a": m, "b": n}) == wanted
    assert parse(str(found)) == found
    assert eval(python(found), {"min": min, "max": max}, {"a": m, "b": n}) == wanted
    low, high = bounds(found, {"a": (0, 50), "b": (0, 50)})
    assert low <= wanted <= high


def test_equal_polynomials_are_equal_however_they_are_written():
    assert parse("(a + b)*(a - b)") == a * a - b * b
    assert parse("2*a + 3*(b - a) + a") == 3 * b
    assert a - a == 0 and (a + 1) - a == 1
    assert (4 * a + 6) // 2 == 2 * a + 3 and (4 * a) % 2 == 0
    assert ((a + 1) // 2 + 1) // 2 == (a + 3) // 4            # a quotient of a quotient
    assert str((a + 15) // 16 * 7) == "7*ceil(a/16)" and parse("7*ceil(a/16)") == (a + 15) // 16 * 7


def test_reals_are_computed_in_their_order():
    found = parse("1 / sqrt(2*a) * 0.5")
    assert isinstance(found, Real) and evaluate(found, {"a": 8}) == 1 / 16**0.5 * 0.5
    assert parse(str(found)) == found and set(names_in(found)) == {"a"}


@pytest.mark.parametrize("text", [
    "int(a * 0.7)", "ceil(log2(a))", "floor((a * 0.7) / 3)", "round(a / 6) + 1", "b*int(sqrt(a))", "gcd(a, 12)", "isqrt(a)",
    "round(a / 7, 2)", "int(exp(a / 50) - 1)", "ceil(a * 1e-05)", "a // 2.0",
])  # fmt: skip
def test_texts_of_rounded_floats(text):
    found = parse(text)
    scope = {**vars(math), "int": int, "round": round}
    for n in (1, 7, 20):
        assert evaluate(found, {"a": n, "b": 3}) == eval(text, scope, {"a": n, "b": 3}) == eval(python(found), scope, {"a": n, "b": 3})
        low, high = bounds(found, {"a": (n, n), "b": (3, 3)})
        assert low <= evaluate(found, {"a": n, "b": 3}) <= high
    assert parse(str(found)) == found


@pytest.mark.parametrize("text", [
    "", "a b", "a(", "f(a)", "a.b", "__import__('os')", "[a]", "a if b else 1", "lambda: 1", "a and b", "a < b", "min()", "ceil(a)", "'a'",
    "(" * 500 + "a" + ")" * 500, "a" * 5000, "1 // 0", "min(a, 0.5)", "True",
])  # fmt: skip
def test_other_texts_are_refused(text):
    with pytest.raises(ExpressionError):
        parse(text)


@pytest.mark.parametrize(("text", "sizes"), [
    ("a // b", {"a": 1, "b": 0}), ("a * a * a", {"a": 1 << 40}), ("9 ** (a ** 9)", {"a": 9}), ("sqrt(a - 5)", {"a": 1}),
    ("((9 ** 64) ** 64) ** a", {"a": 60}),
])  # fmt: skip
def test_what_cannot_be_computed_is_an_error(text, sizes):
    with pytest.raises(ExpressionError):
        evaluate(parse(text), sizes)


def test_products_are_bounded():
    with pytest.raises(ExpressionError, match="terms"):
        parse("*".join(["(a + b + c + d + e + f)"] * 40))


def test_guards():
    guard = parse_guard("2*a + 4 > 10")
    assert guard.simple() == Guard(a, ">=", 4) and str(guard.simple()) == "a >= 4"
    assert guard.negated() == parse_guard("2*a + 4 <= 10")
    assert [guard({"a": n}) for n in (3, 4)] == [False, True]
    assert Guard(-a, "<", -7).simple() == Guard(a, ">=", 8)
    assert always(Guard(a, ">=", 1), {"a": range(1, 10**9)}) and not always(Guard(a, ">=", 2), {"a": range(1, 10**9)})
    assert always(Guard(a % 2, "==", 1), {"a": range(1, 99, 2)})
    assert not parse_guard("a // b == 1")({"a": 1, "b": 0})
    with pytest.raises(ExpressionError):
        parse_guard("a")


def test_expressions_are_not_ints():
    assert isinstance(a + 1, Expression) and hash(a + 1) == hash(1 + a)
