"""Selection, clamping, interpolation and fused arithmetic: values compared with NumPy and PyTorch, errors."""

import numpy as np
import pytest

import metatensor as mt
from ops.pairs import COMPLEX, DTYPES, grid, outcome, pair, same, samples, values


def meta(dtype="float32", shape=(3,)):
    return mt.empty(shape, dtype=getattr(mt, dtype), device="meta")


def three(dtype):
    """Return three pairs of tensors of one dtype."""
    array = samples(dtype)
    if dtype in COMPLEX:
        array = array[array != 0]
    left, right = grid(array, array)
    return [pair(a, dtype) for a in (left, right, right[:, ::-1].copy())]


# where --------------------------------------------------------------------------------------


def test_where(device):
    condition = mt.from_numpy(np.array([[True], [False]])).to(device)
    a = mt.from_numpy(np.array([1.0, 2.0], "float32")).to(device)
    assert values(mt.where(condition, a, 0)).tolist() == [[1, 2], [0, 0]]
    assert values(mt.where(condition, 5, a)).tolist() == [[5, 5], [1, 2]]
    assert values(a.where(condition, -a)).tolist() == [[1, 2], [-1, -2]]
    assert mt.where(condition, 1.5, 2).dtype is mt.float32
    assert mt.where(condition, 1, 2).dtype is mt.int64


def test_where_alone_needs_the_values(device):
    condition = mt.from_numpy(np.array([[True, False], [True, True]])).to(device)
    rows, columns = mt.where(condition)
    assert values(rows).tolist() == [0, 1, 1]
    assert values(columns).tolist() == [0, 0, 1]
    with pytest.raises(mt.DataDependentError, match="where"):
        mt.where(meta("bool"))


@pytest.mark.torch
@pytest.mark.parametrize("dtype", DTYPES)
def test_where_of_torch(dtype):
    import torch

    (a, x), (b, y), _ = three(dtype)
    condition, mask = pair(np.arange(a.numel()).reshape(tuple(a.shape)) % 3 == 0)
    same(mt.where(condition, a, b), torch.where(mask, x, y))
    same(mt.where(condition, a, 2), torch.where(mask, x, 2))
    same(mt.where(condition, 2.5, b), torch.where(mask, 2.5, y))


def test_conditions_are_bool():
    with pytest.raises(RuntimeError, match="condition"):
        mt.where(meta(), meta(), meta())
    assert mt.where(meta("uint8"), meta(), meta()).dtype is mt.float32


# masked_fill --------------------------------------------------------------------------------


def test_masked_fill(device):
    t = mt.from_numpy(np.zeros((2, 3), "float32")).to(device)
    mask = mt.from_numpy(np.array([True, False, True])).to(device)
    assert values(t.masked_fill(mask, 7)).tolist() == [[7, 0, 7]] * 2
    assert values(mt.masked_fill(mask.float(), mask, -1)).tolist() == [-1, 0, -1]
    assert t.masked_fill_(mask, mt.from_numpy(np.array(3)).to(device)) is t
    assert values(t).tolist() == [[3, 0, 3]] * 2


def test_masked_fill_copies_contiguously():
    t = mt.empty_strided((2, 3), (1, 2), device="meta")
    assert mt.masked_fill(t, meta("bool"), 0).stride() == (3, 1)
    assert mt.masked_fill(meta(), meta("bool", (2, 3)), 0).shape == (2, 3)
    with pytest.raises(RuntimeError):
        meta().masked_fill_(meta("bool", (2, 3)), 0)


@pytest.mark.parametrize(
    "mask, value",
    [("float32", 1), ("uint8", 1), ("bool", 1j)],
)
def test_masked_fill_refuses(mask, value):
    with pytest.raises(RuntimeError, match="masked_fill"):
        mt.masked_fill(meta(), meta(mask), value)


def test_masked_fill_takes_one_value():
    with pytest.raises(RuntimeError, match="0-d"):
        mt.masked_fill(meta(), meta("bool"), meta("float32", (1,)))


# clamp --------------------------------------------------------------------------------------


def test_clamp(device):
    t = mt.from_numpy(np.array([-2.0, 0.5, 3.0, np.nan], "float32")).to(device)
    np.testing.assert_array_equal(values(mt.clamp(t, -1, 1)), np.clip(t.cpu().numpy(), -1, 1))
    assert values(t.clip(min=0))[:3].tolist() == [0, 0.5, 3]
    assert values(t.clamp(max=0.25))[:3].tolist() == [-2, 0.25, 0.25]
    assert values(t.clamp(2, 1))[:3].tolist() == [1, 1, 1]
    assert t.clamp_(0, 1) is t


@pytest.mark.torch
@pytest.mark.parametrize("dtype", DTYPES)
def test_clamp_of_torch(dtype):
    import torch

    (a, x), (b, y), (c, z) = three(dtype)
    for op, mine, theirs in (
        ("clamp", (a, b, c), (x, y, z)), ("clamp", (a, -1, 2), (x, -1, 2)), ("clamp", (a, 0.3, None), (x, 0.3, None)),
        ("clamp_min", (a, b), (x, y)), ("clamp_max", (a, 1.5), (x, 1.5)),
    ):  # fmt: skip
        reference = outcome(getattr(torch, op), *theirs)
        if not isinstance(reference, Exception):
            same(getattr(mt, op)(*mine), reference)


def test_bounds_promote():
    assert mt.clamp(meta("int32"), 0, 1).dtype is mt.int32
    assert mt.clamp(meta("int32"), 0.5).dtype is mt.float32
    assert mt.clamp(meta("int32"), max=meta("float64")).dtype is mt.float64
    assert mt.clamp(meta(), meta("float32", (4, 1))).shape == (4, 3)
    with pytest.raises(RuntimeError):
        meta("int32").clamp_(0.5)


@pytest.mark.parametrize(
    "dtype, bounds",
    [("uint8", (-1, 300)), ("uint8", (-256, None)), ("int8", (None, 200)), ("int32", (2**40, None)), ("float16", (None, 1e6))],
)
def test_bounds_beyond_the_dtype(dtype, bounds, device):
    t = mt.ones(2, dtype=getattr(mt, dtype), device=device)
    calls = [mt.clamp, mt.Tensor.clamp_]
    calls += [lambda t, low, high: t.clamp_min(low)] if bounds[1] is None else []
    calls += [lambda t, low, high: t.clamp_max(high)] if bounds[1] is not None else []
    for call in calls:
        with pytest.raises(RuntimeError, match="overflow"):
            call(t, *bounds)
        call(t.to("meta"), *bounds)  # PyTorch does not check tensors without values


def test_bounds_may_be_negative_for_bytes(device):
    assert mt.ones(1, dtype=mt.uint8, device=device).clamp(-255).tolist() == [1]


def test_bounds_that_are_missing_or_complex():
    with pytest.raises(RuntimeError, match="min"):
        mt.clamp(meta())
    with pytest.raises(NotImplementedError):
        mt.clamp(meta("complex64"), 0)
    with pytest.raises(NotImplementedError):
        mt.clamp(meta("bool"), True)


# Arithmetic ---------------------------------------------------------------------------------


@pytest.mark.torch
@pytest.mark.parametrize("weight", [0, 0.3, 0.7, 1])
def test_lerp(weight):
    import torch

    for dtype in ("float32", "float64", "bfloat16", "complex64"):
        (a, x), (b, y), _ = three(dtype)
        same(mt.lerp(a, b, weight), torch.lerp(x, y, weight))
        w, v = pair(np.full((), weight, "float64"))
        same(mt.lerp(a, b, w.to(a.dtype)), torch.lerp(x, y, v.to(x.dtype)))


def test_lerp_does_not_promote():
    assert mt.lerp(meta(), meta(), meta("float64", ())).dtype is mt.float32
    for end, weight in (("float64", 0.5), ("float32", meta("float64"))):
        with pytest.raises(RuntimeError, match="lerp"):
            mt.lerp(meta(), meta(end), weight)
    with pytest.raises(NotImplementedError):
        mt.lerp(meta("int32"), meta("int32"), 0.5)


@pytest.mark.torch
@pytest.mark.parametrize("value", [1, 2, 0.5])
def test_fused(value):
    import torch

    for dtype in ("int32", "uint8", "float32", "float64", "bfloat16", "complex128"):
        (a, x), (b, y), (c, z) = three(dtype)
        same(mt.addcmul(a, b, c, value=value), torch.addcmul(x, y, z, value=value))
        if dtype in ("float32", "float64", "complex128"):
            same(mt.addcdiv(a, b, c, value=value), torch.addcdiv(x, y, z, value=value))


def test_fused_errors():
    with pytest.raises(RuntimeError, match="addcdiv"):
        mt.addcdiv(meta(), meta("int32"), meta("int64"))
    with pytest.raises(RuntimeError, match="complex"):
        mt.addcmul(meta(), meta(), meta(), value=1j)
    with pytest.raises(NotImplementedError):
        mt.addcmul(meta("bool"), meta("bool"), meta("bool"))


@pytest.mark.parametrize("value", [2.0, "tensor"])
def test_masked_fill_of_elements_that_share_memory(device, value):
    t = mt.ones(1, device=device).expand(3)
    mask = mt.tensor([True, False, False], device=device)
    t.masked_fill_(mask, mt.tensor(2.0, device=device) if value == "tensor" else value)
    assert t.tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(RuntimeError, match="share"):
        mt.ones(1, device=device).expand(3).fill_(mt.tensor(2.0, device=device))


def test_masked_fill_takes_complex_values_that_are_real():
    mask = mt.tensor(True)
    assert mt.ones(2).masked_fill(mask, mt.tensor(2 + 0j)).tolist() == [2.0, 2.0]
    assert mt.zeros(1, dtype=mt.bool).masked_fill(mask, mt.tensor(1j)).tolist() == [True]
    for value in (mt.tensor(1j), 1j):
        with pytest.raises(RuntimeError):
            mt.ones(2).masked_fill(mask, value)
