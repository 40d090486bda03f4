"""Element-wise functions, compared with array-api-strict."""

from functools import cache

import numpy as np
import pytest

pytest.importorskip("array_api_strict")
pytest.importorskip("metatensor_cpu")

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import metatensor as mt
from array_api.strict import ALL, INTEGERS, REAL, agree, arrays, elements, ours, same, theirs
from metatensor import array_api as xp
from metatensor.array_api import _elementwise

SOME = settings(max_examples=40)
BINARY = """add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal floor_divide
    greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum minimum multiply nextafter
    not_equal pow remainder subtract""".split()
UNARY = sorted(set(_elementwise.__all__) - {"clip", *BINARY})
# Functions that copy signs, round or compare must be exact, including the signs of zeros.
EXACT = """abs ceil floor round trunc sign positive negative conj real imag isnan isinf isfinite signbit copysign nextafter
    maximum minimum""".split()


def refused(name, *args):
    """Return True if the standard's function rejects these arguments."""
    try:
        theirs(name, *args)
    except (TypeError, OverflowError):
        return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("name", UNARY)
@SOME
@given(st.data())
def test_one_operand(name, data):
    dtype = data.draw(st.sampled_from([d for d in ALL if not refused(name, np.ones(2, d))]))
    # Functions of complex numbers with infinities or NaN depend on the C library.
    x = data.draw(arrays(dtype, special=not dtype.startswith("complex") or name in EXACT))
    if dtype.startswith("complex") and name in (
        "tan", "tanh", "atan", "atanh", "acos", "acosh", "asin", "asinh", "log1p",
    ):  # fmt: skip
        x = np.asarray(x / 40, dtype)
    if name == "reciprocal" and dtype.startswith("complex"):
        x = np.where(np.abs(x) < 1e-6, np.asarray(1, dtype), x)
    exact = name in EXACT and not (name in ("abs", "sign") and dtype.startswith("complex"))
    agree(name, x, exact=exact)
    if exact and np.dtype(dtype).kind == "f" and name not in ("maximum", "minimum"):
        signs = np.signbit(ours(name, x).numpy()) if ours(name, x).dtype.is_floating_point else None
        if signs is not None:
            known = ~np.isnan(np.asarray(x))
            assert (signs == np.signbit(np.asarray(theirs(name, x)._array)))[known].all()


@cache
def taken(name):
    """Return the pairs of dtypes for which the standard defines a function."""
    return [(a, b) for a in ALL for b in ALL if not refused(name, np.ones(2, a), np.ones(2, b))]


@st.composite
def operands(draw, name):
    """Draw two arrays that broadcast, or an array and a number, with values for which the standard defines the result."""
    first, second = draw(st.sampled_from(taken(name)))
    shapes = draw(npst.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3, min_side=0)).input_shapes
    how, low = {"special": not (first + second).count("complex")}, {}
    if name in ("floor_divide", "remainder", "pow", "divide") or "shift" in name:
        how, low = {"special": False}, {"special": False}
        if np.dtype(second).kind in "iu":
            low = {"low": 0 if "shift" in name else 1, "high": 7 if "shift" in name else 5}
    a = draw(arrays(first, shapes[0], **how))
    b = draw(arrays(second, shapes[1], **low))
    if name in ("floor_divide", "remainder", "divide") and np.dtype(second).kind in "fc":
        b = np.where(b == 0, np.asarray(1, second), b)
    if name == "pow" and np.dtype(second).kind == "f":
        b = np.asarray(np.clip(b, -3, 3), second)
    if draw(st.integers(0, 3)) == 0 and b.size:  # one operand is replaced by a number
        b = b.flatten()[0].item()
        assume(not refused(name, a, b))
        if draw(st.booleans()) and name not in ("pow", "floor_divide", "remainder", "divide") and "shift" not in name:
            a, b = b, a
    return a, b


@pytest.mark.slow
@pytest.mark.parametrize("name", BINARY)
@SOME
@given(st.data())
def test_two_operands(name, data):
    a, b = data.draw(operands(name))
    if name in ("floor_divide", "remainder"):  # near an integer quotient, rounding decides
        with np.errstate(all="ignore"):
            q = np.asarray(a, dtype=object) / np.asarray(b, dtype=object) if np.size(a) and np.size(b) else np.zeros(1)
        assume(all(abs(v) < 1e4 and (abs(v - round(v)) > 1e-3 or np.asarray(a).dtype.kind in "iu") for v in np.ravel(q)))
    agree(name, a, b, exact=name in EXACT)


@pytest.mark.slow
@SOME
@given(st.data())
def test_clip(data):
    dtype = data.draw(st.sampled_from(INTEGERS + REAL))
    shapes = data.draw(npst.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, max_side=3)).input_shapes
    x = data.draw(arrays(dtype, shapes[0]))
    bounds = []
    for shape in shapes[1:]:
        number = elements(dtype, special=False, low=-100, high=100)
        bounds.append(data.draw(st.none() | arrays(dtype, shape, special=False) | number))
    lowest = np.asarray(-np.inf if bounds[0] is None else bounds[0])
    assume((lowest <= (np.inf if bounds[1] is None else bounds[1])).all())
    agree("clip", x, *bounds, exact=True)


def test_clip_makes_a_new_tensor_of_the_dtype_of_the_first():
    x = mt.tensor([1.0, float("nan"), 5.0], device="cpu")
    made = xp.clip(x)
    assert made is not x and made.data_ptr() != x.data_ptr()
    clipped = xp.clip(x, max=mt.tensor(2.0, dtype=mt.float64))
    assert clipped.dtype is mt.float32 and clipped[::2].tolist() == [1.0, 2.0] and xp.isnan(clipped[1])
    assert xp.clip(mt.tensor([1, 5], dtype=mt.int8), 2, 3).tolist() == [2, 3]


@SOME
@given(st.data())
def test_dtypes_count_and_not_dimensions(data):
    a, b = data.draw(st.sampled_from(taken("add")))
    want = np.result_type(np.dtype(a), np.dtype(b)).name
    for x, y in ((np.ones(2, a), np.ones((), b)), (np.ones((), a), np.ones(2, b))):
        assert ours("add", x, y).dtype.name == ours("add", x, y, device="meta").dtype.name == want


def test_what_is_no_operand():
    x = mt.ones(2, device="meta")
    for wrong in ("a", [1, 2], None, np.ones(2)):
        with pytest.raises(TypeError):
            xp.add(x, wrong)
        with pytest.raises(TypeError):
            xp.sin(wrong)
    with pytest.raises(TypeError):
        xp.add(1, 2)
    with pytest.raises(TypeError, match="uint64 and int8 have no common dtype"):
        xp.add(x.to(mt.uint64), x.to(mt.int8))
    with pytest.raises(RuntimeError):
        xp.add(x, mt.ones(3, device="meta"))


def test_numbers_beside_tensors():
    x = mt.ones(2, dtype=mt.float32, device="meta")
    assert xp.multiply(x, 1j).dtype is mt.complex64
    assert xp.multiply(2.5, x.to(mt.complex128)).dtype is mt.complex128
    assert xp.add(x.to(mt.int8), 1).dtype is mt.int8 and xp.add(True, x).dtype is mt.float32
    assert xp.add(x.to(mt.int8), 1.5).dtype is mt.float32  # unspecified; PyTorch's rule
    assert xp.where(x > 0, x, 0).dtype is mt.float32
    assert xp.less(1, x.to(mt.uint64)).dtype is mt.bool


def test_conjugates_are_not_lazy():
    x = mt.tensor([1 + 2j], device="cpu")
    assert not xp.conj(x).is_conj() and np.from_dlpack(xp.conj(x)).tolist() == [1 - 2j]
    same(xp.imag(mt.tensor([1.0])), theirs("imag", np.array([1 + 0j], np.complex64)))
