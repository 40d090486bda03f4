"""`check_meta_matches` finds the first operator that differs on meta."""

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.plugins import device_types
from metatensor.testing import check_meta_matches

pytestmark = pytest.mark.skipif("cpu" not in device_types(), reason="the cpu plugin is not installed")


def test_what_matches():
    check_meta_matches(lambda x: (x @ x.T).relu().sum(0), mt.rand(3, 4))
    check_meta_matches(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), mt.rand(3, 4))
    check_meta_matches(lambda x, *, y: {"a": [x + y]}, mt.rand(3), y=mt.rand(3))
    check_meta_matches(lambda n: mt.ones(n), 3)


def test_an_operator_that_differs_is_named():
    def different(x):
        y = x * 2
        return mt.zeros(3 if y.is_meta else 4)

    with pytest.raises(AssertionError, match=r"operator 1: zeros gives .*\[4\].* on cpu, zeros gives .*\[3\].* on meta"):
        check_meta_matches(different, mt.rand(2))


def test_other_operators():
    with pytest.raises(AssertionError, match="operator 0: (neg|abs)"):
        check_meta_matches(lambda x: -x if x.is_meta else x.abs(), mt.rand(2))
    with pytest.raises(AssertionError, match="2 operators on cpu, 1 on meta"):
        check_meta_matches(lambda x: -x if x.is_meta else (-x).abs(), mt.rand(2))


def test_what_raises_on_meta_alone():
    with pytest.raises(AssertionError, match="on meta it raises DataDependentError.*after 1 operators; the next on cpu was nonzero"):
        check_meta_matches(lambda x: x.abs().nonzero(), mt.rand(3))


def test_what_raises_on_the_device_is_raised():
    with pytest.raises(RuntimeError, match="(matmul|mm)"):
        check_meta_matches(lambda x: x @ x, mt.rand(3, 4))


def test_results_that_are_no_tensors():
    with pytest.raises(AssertionError, match="the result is"):
        check_meta_matches(lambda x: 3 if x.is_meta else x, mt.rand(3))


def test_the_first_that_differs_comes_before_what_it_leads_to():
    with pytest.raises(AssertionError, match=r"operator 0: ones gives .*\[4\].* on cpu, ones gives .*\[3\].* on meta"):
        check_meta_matches(lambda x: mt.ones(3 if x.is_meta else 4) + x, mt.rand(4))
    with pytest.raises(AssertionError, match=r"2 on meta; abs gives .* on meta alone"):
        check_meta_matches(lambda x: (-x).abs() if x.is_meta else -x, mt.rand(2))


def test_methods_of_modules():
    layer = nn.Linear(3, 2)
    check_meta_matches(layer.forward, mt.rand(4, 3))
    with pytest.raises(AssertionError, match="have to be among its inputs"):
        check_meta_matches(lambda x: layer(x), mt.rand(4, 3))
    check_meta_matches(lambda inner, x: inner(x), layer, mt.rand(4, 3))


def test_dicts_are_compared():
    with pytest.raises(AssertionError, match="the result is"):
        check_meta_matches(lambda x: {"a": x if x.is_meta else x[:1]} if x.is_meta else {"a": [x]}, mt.rand(3))
