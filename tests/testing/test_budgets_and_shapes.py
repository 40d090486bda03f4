"""`within_budget` and `assert_shapes`."""

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.analysis.sizes import SizeError
from metatensor.testing import BudgetExceededError, assert_shapes, within_budget


def test_figures_of_a_block():
    with mt.device("meta"):
        model, x = nn.Linear(128, 64), mt.empty(100, 128)
        with within_budget() as budget:
            y = model(x)
    assert budget.total_flops == 2 * 100 * 128 * 64 and budget.total_parameters == 128 * 64 + 64
    assert budget.peak_bytes == 4 * (128 * 64 + 64) + 4 * 100 * 64 and y.shape == (100, 64)


def test_a_block_over_its_budget():
    with pytest.raises(BudgetExceededError) as caught, mt.device("meta"), within_budget(memory="1KB", flops=10, parameters=1) as budget:
        nn.Linear(128, 64)(mt.empty(100, 128)).sum().backward()
    assert caught.value.budget is budget and isinstance(caught.value, AssertionError)
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("the peak of memory, ") and "test_budgets_and_shapes.py:22" in lines[1]
    assert sum(line.startswith("  ") for line in lines) == 6


def test_equal_figures_are_within_the_budget():
    with mt.device("meta"), within_budget(memory=4000):
        mt.empty(1000)
    with pytest.raises(BudgetExceededError), mt.device("meta"), within_budget(memory=3999):
        mt.empty(1000)


def test_exceptions_of_the_block_are_not_replaced():
    with pytest.raises(KeyError), within_budget(memory=0):
        mt.empty(1000, device="meta")
        raise KeyError
    with within_budget(memory=0):  # nothing of the former block remains
        pass


@pytest.mark.parametrize("limits, error", [({"memory": "x"}, SizeError), ({"flops": 1.5}, TypeError), ({"parameters": True}, TypeError)])
def test_invalid_budgets(limits, error):
    with pytest.raises(error, match=next(iter(limits))):
        within_budget(**limits)


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
