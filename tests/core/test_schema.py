"""Parsing of schemas."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metatensor._core.schema import SchemaError, parse


def test_a_schema_in_full():
    s = parse('f.g(Tensor(a!) input, int[2] size=[1, 2], *, float? p=None, str mode="a, b", '
              "Tensor[] rest=()) -> (Tensor values, Tensor indices)")
    assert s.name == "f.g"
    assert [a.name for a in s.arguments] == ["input", "size", "p", "mode", "rest"]
    assert [a.kwonly for a in s.arguments] == [False, False, True, True, True]
    first, size, p, mode, _ = s.arguments
    assert first.mutated and first.required and not size.required
    assert size.default == (1, 2) and size.repeat == 2
    assert p.optional and p.default is None
    assert mode.default == "a, b"
    assert s.returns == [("Tensor", "values"), ("Tensor", "indices")]


@pytest.mark.parametrize("text", [
    "", "f", "f()", "f() ->", "f(Tensor) -> Tensor", "f(Matrix x) -> Tensor", "f(Tensor x, Tensor x) -> Tensor",
    "f(int x=y) -> Tensor", "f(Tensor 1x) -> Tensor", "f(int[ x) -> Tensor", "1f(int x) -> Tensor",
])
def test_what_cannot_be_read_says_so(text):
    with pytest.raises(SchemaError):
        parse(text)


@pytest.mark.slow
@given(st.text(max_size=40))
def test_any_text_parses_or_is_a_schema_error(text):
    try:
        parse(text)
    except SchemaError:
        pass


@given(st.text(alphabet="Tensorit[](), =?*!|a->", max_size=60))
def test_any_arguments_parse_or_are_a_schema_error(text):
    try:
        parse(f"f({text}) -> Tensor")
    except SchemaError:
        pass


def test_only_text_has_a_schema():
    with pytest.raises(TypeError):
        parse(None)
