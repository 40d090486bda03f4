"""Element-wise functions of one tensor: values compared with NumPy and PyTorch, dtypes and errors."""

import cmath
import decimal

import numpy as np
import pytest

import metatensor as mt
from ops.pairs import DTYPES, FLOATS, find, outcome, pair, same, samples, values

NUMPY = {
    "exp": np.exp, "log1p": np.log1p, "sin": np.sin, "atan": np.arctan, "tanh": np.tanh, "sqrt": np.sqrt,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint, "square": np.square,
    "abs": np.abs, "neg": np.negative, "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite,
    "signbit": np.signbit, "reciprocal": np.reciprocal, "deg2rad": np.deg2rad, "rad2deg": np.rad2deg,
}  # fmt: skip

OPS = (
    *NUMPY, "acos", "acosh", "angle", "asin", "asinh", "atanh", "bitwise_not", "conj_physical", "cos", "cosh",
    "digamma", "erf", "erfc", "erfinv", "exp2", "expm1", "frac", "frexp", "i0", "isneginf", "isposinf", "isreal",
    "lgamma", "log", "log10", "log2", "logical_not", "logit", "nan_to_num", "positive", "rsqrt", "sgn", "sigmoid",
    "sign", "sinc", "sinh", "tan",
)  # fmt: skip

ALIASES = {
    "absolute": "abs", "negative": "neg", "fix": "trunc", "arcsin": "asin", "arccos": "acos", "arctan": "atan",
    "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
}  # fmt: skip


@pytest.mark.parametrize("op", NUMPY)
def test_values_of_numpy(op, device):
    array = np.array([-2.5, -1.0, -0.5, 0.3, 0.5, 1.5, np.inf, np.nan], "float32")
    with np.errstate(all="ignore"):
        expected = NUMPY[op](array)
    tensor = mt.from_numpy(array).to(device)
    np.testing.assert_allclose(getattr(mt, op)(tensor).cpu().numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(getattr(tensor, op)().cpu().numpy(), expected, rtol=1e-6)


@pytest.mark.torch
@pytest.mark.parametrize("op", OPS)
def test_values_of_torch(op):
    import torch

    for dtype in DTYPES:
        ours, theirs = pair(samples(dtype), dtype)
        reference = outcome(getattr(torch, op), theirs)
        if isinstance(reference, Exception):
            continue  # PyTorch has no kernel; metatensor may have one
        result = getattr(mt, op)(ours)
        if op == "signbit":  # the sign of NaN is arbitrary
            result, reference = result.logical_and(ours == ours), reference.logical_and(theirs == theirs)
        if op == "lgamma" and dtype.startswith("int"):
            continue
        same(result, reference)


@pytest.mark.torch
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "op, options",
    [
        ("round", {"decimals": 2}), ("round", {"decimals": -1}), ("logit", {"eps": 0.1}), ("mvlgamma", {"p": 1}),
        ("nan_to_num", {"nan": 1.0, "posinf": 5.0, "neginf": -6.0}), ("nan_to_num", {"posinf": 7.0}),
    ],
)  # fmt: skip
def test_options(op, options, dtype):
    import torch

    array = np.array([-34.0, -1.005, -0.3, 0.2, 0.5, 1.2345, 2.675, 15.0, 25.0, np.inf, np.nan], "float32")
    ours, theirs = pair(array, dtype)
    same(getattr(mt, op)(ours, **options), getattr(torch, op)(theirs, **options))


@pytest.mark.torch
@pytest.mark.parametrize("n", range(4))
def test_polygamma(n):
    import torch

    ours, theirs = pair(np.array([-0.5, 0.3, 1.0, 2.5, 10.0]) if n < 2 else np.array([0.3, 1.0, 2.5, 10.0]))
    tolerance = 1e-8  # PyTorch's trigamma has only this precision
    same(mt.polygamma(n, ours), torch.polygamma(n, theirs), tolerance)
    same(ours.polygamma(n), theirs.polygamma(n), tolerance)
    same(mt.special.polygamma(n, ours), torch.special.polygamma(n, theirs), tolerance)


@pytest.mark.parametrize("name", ALIASES)
def test_aliases(name):
    assert getattr(mt, name) is getattr(mt, ALIASES[name])
    assert getattr(mt.empty(2, device="meta"), name)().shape == (2,)


# Dtypes -------------------------------------------------------------------------------------


def test_integers_become_floats():
    t = mt.empty(3, dtype=mt.int16, device="meta")
    assert mt.sin(t).dtype is mt.sigmoid(t).dtype is mt.float32
    assert mt.floor(t).dtype is mt.abs(t).dtype is mt.int16
    assert mt.square(mt.empty(3, dtype=mt.bool, device="meta")).dtype is mt.int64


def test_complex_magnitudes_are_real():
    t = mt.empty(3, dtype=mt.complex128, device="meta")
    assert mt.abs(t).dtype is mt.angle(t).dtype is mt.float64
    with pytest.raises(RuntimeError, match="abs_"):
        t.abs_()


def test_frexp_names_its_results():
    result = mt.frexp(mt.empty(3, dtype=mt.float16, device="meta"))
    assert result.mantissa.dtype is mt.float16
    assert result.exponent.dtype is mt.int32


@pytest.mark.parametrize(
    "op, dtype, error",
    [
        ("neg", "bool", RuntimeError), ("positive", "bool", RuntimeError), ("floor", "complex64", NotImplementedError),
        ("ceil", "bool", NotImplementedError), ("bitwise_not", "float32", NotImplementedError),
        ("erf", "complex64", NotImplementedError), ("isposinf", "complex64", RuntimeError),
        ("deg2rad", "complex64", RuntimeError), ("frac", "int32", NotImplementedError),
        ("frexp", "int32", RuntimeError), ("sign", "complex64", NotImplementedError),
        ("lgamma", "quint8", NotImplementedError),
    ],
)  # fmt: skip
def test_dtypes_without_arithmetic(op, dtype, error):
    with pytest.raises(error, match=op) as caught:
        getattr(mt, op)(mt.empty(2, dtype=getattr(mt, dtype), device="meta"))
    assert caught.type is error


def test_arguments_out_of_range():
    t = mt.empty(3, device="meta")
    with pytest.raises(RuntimeError, match="polygamma"):
        mt.polygamma(-1, t)
    with pytest.raises(RuntimeError, match="mvlgamma"):
        mt.mvlgamma(t, 0)
    with pytest.raises(NotImplementedError):
        mt.round(mt.empty(3, dtype=mt.int32, device="meta"), decimals=1)


# Aliasing and in-place ----------------------------------------------------------------------


def test_conj_physical_of_a_real_tensor_is_itself():
    t = mt.empty(3, device="meta")
    assert mt.conj_physical(t).untyped_storage() is t.untyped_storage()
    z = mt.empty(3, dtype=mt.complex64, device="meta")
    assert mt.conj_physical(z).untyped_storage() is not z.untyped_storage()


def test_in_place_and_out(device):
    t = mt.from_numpy(np.array([0.25, 4.0], "float32")).to(device)
    out = mt.empty_like(t)
    assert mt.sqrt(t, out=out) is out
    assert values(out).tolist() == [0.5, 2.0]
    assert t.sqrt_() is t
    assert values(t).tolist() == [0.5, 2.0]


def test_largest_number_of_a_half(device):
    t = mt.from_numpy(np.array([np.inf, -np.inf, np.nan], "float32")).to(device)
    assert values(mt.nan_to_num(t.to(mt.float16))).tolist() == [65504.0, -65504.0, 0.0]
    assert np.isfinite(values(mt.nan_to_num(t.to(mt.bfloat16)))).all()


def test_strided_input(device):
    t = mt.from_numpy(np.arange(6, dtype="float32").reshape(2, 3)).to(device).t()
    assert values(mt.neg(t)).tolist() == [[0, -3], [-1, -4], [-2, -5]]
    assert find(mt, "special.expit") is mt.sigmoid


@pytest.mark.parametrize("place", ["meta", "cpu"])
def test_mvlgamma_is_contiguous(place):
    t = mt.full((2, 3), 5.0, device=place)
    for x in (t.t(), t[:, ::2], t[:1].expand(4, 3)):
        assert mt.mvlgamma(x, 2).is_contiguous() and mt.special.multigammaln(x, 2).is_contiguous()


def test_what_changes_nothing_may_be_done_to_shared_elements():
    one = mt.ones(1)
    assert one.expand(3).conj_physical_().tolist() == [1.0, 1.0, 1.0]
    assert one.long().expand(3).nan_to_num_().tolist() == [1, 1, 1]
    for x in (one.to(mt.complex64).expand(3), one.expand(3)):
        with pytest.raises(RuntimeError, match="share"):
            x.conj_physical_() if x.is_complex() else x.nan_to_num_()


def test_conj_physical_of_real_numbers_is_the_tensor_itself():
    for x in (mt.ones(2), mt.ones(2, device="meta"), mt.ones(2, requires_grad=True), mt.ones(2)._neg_view()):
        leaf = x.is_leaf
        assert x.conj_physical() is x and x.is_leaf is leaf
    x = mt.ones(2)
    assert x._neg_view().conj_physical().tolist() == [-1.0, -1.0] and x.tolist() == [1.0, 1.0]


def test_abs_of_bool_and_out_of_abs():
    with pytest.raises(NotImplementedError):
        mt.ones(2, dtype=mt.bool).abs()
    assert mt.ones(2, dtype=mt.bool, device="meta").abs().dtype is mt.bool
    assert mt.abs(mt.tensor([3 + 4j]), out=mt.empty(0, dtype=mt.float16)).tolist() == [5.0]
    with pytest.raises(RuntimeError):
        mt.abs(mt.ones(2), out=mt.empty(2, dtype=mt.float64))


@pytest.mark.parametrize("value", [1e-19 + 1e-18j, 1e-10 + 1e-3j, -2 + 1e-3j, 1e-30, -1 + 1e-9j, 1e300 + 1e300j, 3 + 4j])
def test_log1p_of_complex_numbers_keeps_small_real_parts(value):
    found = mt.tensor(value, dtype=mt.complex128, device="cpu").log1p().item()
    with decimal.localcontext() as context:
        context.prec = 60
        real, imag = decimal.Decimal(value.real), decimal.Decimal(value.imag)
        expected = float((((1 + real) ** 2 + imag**2).ln()) / 2)
    assert found.real == pytest.approx(expected, rel=1e-8) and found.imag == cmath.phase(1 + value)
