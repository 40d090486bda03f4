"""`assert_shapes`."""

import pytest

import metatensor as mt
from metatensor.testing import assert_shapes

X = mt.empty(8, 3, 5, device="meta")


@pytest.mark.parametrize(
    "value, expected, sizes",
    [(X, "float32[8,3,5]", {}), (X, "[8,3,5]", {}), (X, " [ n , 3 , m ] ", {"n": 8, "m": 5}), (X, "[...]", {}), (X, "[...,5]", {}),
     (X, "[8,...,3,5]", {}), (X, "[n,_,_]", {"n": 8}), (mt.empty((), device="meta"), "float32[]", {}), (None, None, {}),
     ([X, {"a": X, "b": None}], ["[n,...]", {"a": "[n,...,m]", "b": None}], {"n": 8, "m": 5}), ((X, X), ["[...]", "[n,_,_]"], {"n": 8})],
)  # fmt: skip
def test_shapes_that_match(value, expected, sizes):
    assert assert_shapes(value, expected) == sizes


@pytest.mark.parametrize(
    "value, expected, message",
    [(X, "float16[8,3,5]", "the tensor is float32[8,3,5], expected float16[8,3,5]"), (X, "[8,3]", "expected [8,3]"),
     (X, "[8,3,4]", "expected [8,3,4]"), (X, "[n,n,_]", "with n = 8"), (X, "[8,3,5,...,1]", "expected"),
     (3, "[1]", "the value is of type int, expected a tensor"), (X, None, "expected None"),
     ([X, X], ["[n,...]", "[_,n,_]"], "the tensor at [1] is"), ({"a": [X]}, {"a": ["[1]"]}, "the tensor at ['a'][0] is"),
     ([X], ["[...]"] * 2, "the value is 1 values, expected 2"), ({"a": X}, {"b": "[...]"}, "keys 'a', expected a dict with the keys 'b'"),
     (X, ["[...]"], "expected 1 values"), (X, {}, "expected a dict")],
)  # fmt: skip
def test_shapes_that_differ(value, expected, message):
    with pytest.raises(AssertionError) as caught:
        assert_shapes(value, expected)
    assert message in str(caught.value)


def test_given_sizes():
    assert assert_shapes(X, "[batch,...]", batch=8) == {"batch": 8}
    with pytest.raises(AssertionError, match="with batch = 4"):
        assert_shapes(X, "[batch,...]", batch=4)


@pytest.mark.parametrize("expected", ["", "8,3", "[8", "[8-1]", "[...,...]", "float33[8,3,5]", "nn[8,3,5]", 8, b"[8]", "[8,,3]"])
def test_invalid_patterns(expected):
    with pytest.raises(ValueError, match="assert_shapes"):
        assert_shapes(X, expected)
