"""`assert_close`, compared with PyTorch's, and `make_tensor`."""

import functools

import numpy as np
import pytest

import metatensor as mt
from metatensor.torch_api import torch
from metatensor.torch_api.torch import testing

NAN = float("nan")

CASES = {
    "equal": lambda t: (t.ones(2, 2), t.ones(2, 2), {}),
    "different": lambda t: (t.ones(2, 2), t.zeros(2, 2), {}),
    "nearly": lambda t: (t.ones(2), t.ones(2) + 1e-7, {}),
    "half": lambda t: (t.ones(2, dtype=t.float16), t.ones(2, dtype=t.float16) + 0.0009, {}),
    "half too far": lambda t: (t.ones(2, dtype=t.float16), t.ones(2, dtype=t.float16) + 0.003, {}),
    "bfloat16": lambda t: (t.ones(2, dtype=t.bfloat16), t.ones(2, dtype=t.bfloat16) * 1.0078125, {}),
    "tolerances": lambda t: (t.ones(2), t.ones(2) + 0.5, {"rtol": 0, "atol": 0.6}),
    "one tolerance": lambda t: (t.ones(2), t.ones(2), {"rtol": 1}),
    "numbers": lambda t: (1.0, 1.1, {}),
    "near numbers": lambda t: (1.0, 1.0 + 1e-9, {}),
    "int and float": lambda t: (1, 1.0, {}),
    "int and float unchecked": lambda t: (1, 1.0, {"check_dtype": False}),
    "lists": lambda t: ([1, 2], [1, 3], {}),
    "list and tuple": lambda t: ([1], (1,), {}),
    "lengths": lambda t: ([1], [1, 2], {}),
    "keys": lambda t: ({"a": 1}, {"b": 1}, {}),
    "nested": lambda t: ({"a": [t.ones(2), 1]}, {"a": [t.ones(2), 1]}, {}),
    "nested different": lambda t: ({"a": [t.ones(2), 1]}, {"a": [t.ones(2), 2]}, {}),
    "shapes": lambda t: (t.ones(2), t.ones(3), {}),
    "broadcast": lambda t: (t.ones(1), t.ones(1, 1), {}),
    "dtypes": lambda t: (t.ones(2), t.ones(2, dtype=t.float64), {}),
    "dtypes unchecked": lambda t: (t.ones(2), t.ones(2, dtype=t.float64), {"check_dtype": False}),
    "nan": lambda t: (t.tensor(NAN), t.tensor(NAN), {}),
    "equal nan": lambda t: (t.tensor(NAN), t.tensor(NAN), {"equal_nan": True}),
    "infinite": lambda t: (t.tensor([float("inf")]), t.tensor([float("inf")]), {}),
    "infinite and not": lambda t: (t.tensor([float("inf")]), t.tensor([1.0]), {}),
    "ints": lambda t: (t.arange(3), t.arange(3) + 1, {}),
    "bools": lambda t: (t.tensor([True]), t.tensor([False]), {}),
    "complex": lambda t: (t.tensor([1 + 1j]), t.tensor([1 + 1.1j]), {}),
    "strides": lambda t: (t.ones(2, 3), t.ones(3, 2).T, {"check_stride": True}),
    "strides unchecked": lambda t: (t.ones(2, 3), t.ones(3, 2).T, {}),
    "tensor and number": lambda t: (t.ones(2), 1.0, {}),
    "strings": lambda t: ("a", "a", {}),
    "nothing": lambda t: (None, None, {}),
    "nothing and something": lambda t: (None, 1, {}),
    "arrays": lambda t: (np.ones(2), np.ones(2), {}),
    "array and tensor": lambda t: (np.ones(2), t.ones(2), {}),
    "meta": lambda t: (t.ones(2, device="meta"), t.ones(2, device="meta"), {}),
    "empty": lambda t: (t.ones(0), t.ones(0), {}),
}


def outcome(testing, case):
    actual, expected, options = case
    try:
        testing.assert_close(actual, expected, **options)
    except Exception as error:
        return type(error)
    return None


@pytest.mark.torch
@pytest.mark.parametrize("name", CASES)
def test_like_pytorch(name):
    import torch

    assert outcome(testing, CASES[name](mt)) is outcome(torch.testing, CASES[name](torch))


def test_messages():
    with pytest.raises(AssertionError, match=r"1 of 4 elements differ(.|\n)*at \(1, 0\)(.|\n)*at item \['a'\]\[0\]"):
        testing.assert_close({"a": [mt.tensor([[1.0, 2], [3, 4]])]}, {"a": [mt.tensor([[1.0, 2], [5, 4]])]})
    with pytest.raises(AssertionError, match="^mine$"):
        testing.assert_close(1, 2, msg="mine")
    with pytest.raises(AssertionError, match="^mine: expected 2, got 1"):
        testing.assert_close(1, 2, msg=lambda text: f"mine: {text}")


@pytest.mark.parametrize("dtype", [mt.float32, mt.float16, mt.int64, mt.uint8, mt.bool, mt.complex64])
def test_made_tensors(dtype):
    made = testing.make_tensor(4, 5, dtype=dtype, device="cpu")
    assert made.shape == (4, 5) and made.dtype is dtype
    assert not testing.make_tensor((4, 5), dtype=dtype, device="cpu", noncontiguous=True).is_contiguous()
    if dtype is not mt.bool:
        assert bool((testing.make_tensor(100, dtype=dtype, device="cpu", exclude_zero=True) != 0).all())
    if not dtype.is_complex and dtype is not mt.bool:
        small = testing.make_tensor(100, dtype=dtype, device="cpu", low=1, high=3)
        assert bool((small >= 1).all()) and bool((small <= 3).all())


def test_the_range_of_made_tensors():
    nan = float("nan")
    make = functools.partial(testing.make_tensor, 2000, device="cpu")
    for dtype in (torch.float16, torch.bfloat16, torch.complex32):
        made = torch.view_as_real(make(dtype=dtype, low=0, high=2)) if dtype.is_complex else make(dtype=dtype, low=0, high=2)
        assert (made >= 0).all() and (made < 2).all()
    assert not make(dtype=torch.int8, low=-0.99, high=0.99).any() and make(dtype=torch.uint8, low=255, high=256).eq(255).all()
    assert make(dtype=torch.float32, low=-float("inf"), high=float("inf")).isfinite().all()
    for arguments in ({"low": nan}, {"high": nan}, {"low": 1, "high": 0}, {"low": -3, "high": -1}, {"requires_grad": True}):
        with pytest.raises(ValueError, match="make_tensor"):
            make(dtype=torch.uint8, **arguments)
    with pytest.warns(FutureWarning, match="equal"):
        assert make(dtype=torch.float64, low=1, high=1).eq(1).all()
