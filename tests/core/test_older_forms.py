"""Positional scales before the tensors that they scale are deprecated, but accepted."""

import pytest

import metatensor as mt

A, B, V = mt.full((2, 2), 2.0), mt.full((2, 2, 2), 2.0), mt.full((2,), 2.0)
CASES = {
    "add": (lambda: mt.add(V, 3, V), 8.0), "add_": (lambda: V.clone().add_(3, V), 8.0), "sub": (lambda: V.sub(3, V), -4.0),
    "addcmul": (lambda: mt.addcmul(V, 3, V, V), 14.0), "addcdiv_": (lambda: V.clone().addcdiv_(3, V, V), 5.0),
    "addmm": (lambda: mt.addmm(3, A, A, A), 14.0), "addmm, both": (lambda: mt.addmm(3, A, 5, A, A), 46.0),
    "addmm_": (lambda: A.clone().addmm_(3, 5, A, A), 46.0), "addmv": (lambda: mt.addmv(3, V, 5, A, V), 46.0),
    "addr": (lambda: mt.addr(3, A, V, V), 10.0), "addbmm": (lambda: A.addbmm(3, 5, B, B), 86.0),
    "baddbmm": (lambda: mt.baddbmm(3, B, B, B), 14.0),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_scales_by_position(name):
    function, value = CASES[name]
    with pytest.warns(UserWarning, match="by keyword"):
        found = function()
    assert found.eq(value).all()


@pytest.mark.parametrize("call", [
    lambda: mt.add(V, V, 3), lambda: mt.addcmul(V, 2, V, V, value=3), lambda: mt.mul(V, 3, V), lambda: mt.addmm(3, A, A),
])  # fmt: skip
def test_what_is_in_no_order_is_a_type_error(call):
    with pytest.raises(TypeError):
        call()


def test_out_goes_with_them():
    out = mt.empty(2)
    with pytest.warns(UserWarning):
        assert mt.addcmul(V, 3, V, V, out=out) is out and out.eq(14.0).all()
