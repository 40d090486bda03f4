"""Data types and type promotion."""

import copy
import itertools
import pickle

import pytest

import metatensor as mt
from metatensor._core import dtype as dtypes

ALL = sorted(set(dtypes.names().values()), key=lambda d: d.code)


def test_dtypes_are_interned():
    assert mt.float is mt.float32 and mt.long is mt.int64 and mt.half is mt.float16
    for d in ALL:
        assert pickle.loads(pickle.dumps(d)) is d
        assert copy.copy(d) is d and copy.deepcopy(d) is d
        assert dtypes.dtype_by_name(d.name) is d
        assert repr(d) == f"metatensor.{d.name}"


def test_dtypes_cannot_be_made():
    with pytest.raises(TypeError):
        mt.dtype()
    with pytest.raises(TypeError):
        mt.dtype.__new__(mt.dtype)


def test_unknown_names():
    with pytest.raises(ValueError, match="float7"):
        dtypes.dtype_by_name("float7")


def test_every_dtype_is_pytorchs():
    torch = pytest.importorskip("torch")
    theirs = {str(v).split(".")[1]: v for v in vars(torch).values() if isinstance(v, torch.dtype)}
    for name, d in theirs.items():
        ours = getattr(mt, name)
        assert (ours.itemsize, ours.is_floating_point, ours.is_complex) == \
            (d.itemsize, d.is_floating_point, d.is_complex), name
        if not name.startswith(("q", "bits")):
            assert ours.is_signed == d.is_signed, name


def test_promotion_is_pytorchs():
    torch = pytest.importorskip("torch")
    arithmetic = [d for d in ALL if d.is_floating_point or d.is_complex or d is mt.bool
                  or d.name.strip("u").removeprefix("int") in ("8", "16", "32", "64")]
    for a, b in itertools.product(arithmetic, repeat=2):
        try:
            expected = torch.promote_types(getattr(torch, a.name), getattr(torch, b.name))
        except Exception:
            with pytest.raises(RuntimeError):
                mt.promote_types(a, b)
        else:
            assert mt.promote_types(a, b) is getattr(mt, str(expected).split(".")[1]), (a, b)


def test_can_cast_is_pytorchs():
    torch = pytest.importorskip("torch")
    for a, b in itertools.product(ALL, repeat=2):
        if a.name.startswith(("q", "bits")) or b.name.startswith(("q", "bits")):
            continue
        try:
            expected = torch.can_cast(getattr(torch, a.name), getattr(torch, b.name))
        except Exception:
            continue
        if a.name[-1] in "1234567" and a.itemsize == 1 or b.name[-1] in "1234567" and b.itemsize == 1:
            continue  # there is no arithmetic on sub-byte integers
        assert mt.can_cast(a, b) == expected, (a, b)


def test_promotion_is_commutative_and_idempotent():
    for a, b in itertools.product(ALL, repeat=2):
        try:
            forward = mt.promote_types(a, b)
        except RuntimeError:
            with pytest.raises(RuntimeError):
                mt.promote_types(b, a)
        else:
            assert forward is mt.promote_types(b, a)
            assert mt.promote_types(forward, a) is forward


@pytest.mark.parametrize("dtype", [mt.uint16, mt.uint32, mt.uint64])
def test_unsigned_integers_with_single_complex_numbers(dtype):
    """The operator promotes these pairs, for which `promote_types` has no entry.

    The 0-d complex operand has a higher category, so it alone determines the dtype.
    """
    x = mt.ones(2, dtype=dtype, device="meta")
    assert (x * 1j).dtype is mt.result_type(x[0], 1j) is mt.complex64
    for other in (mt.complex64, mt.complex128):
        z = mt.ones((), dtype=other, device="meta")
        assert (x + z).dtype is (z * x).dtype is other
        with pytest.raises(RuntimeError, match="promotion"):
            x + z.expand(2)


def test_real_and_complex_counterparts():
    assert mt.complex64.to_real() is mt.float32 and mt.float64.to_complex() is mt.complex128
    with pytest.raises(RuntimeError):
        mt.int8.to_complex()


@pytest.mark.parametrize("call", [lambda: mt.promote_types(1, mt.int8), lambda: mt.promote_types(None, None),
                                  lambda: mt.can_cast("float32", mt.int8)])
def test_promotion_of_other_things_is_a_type_error(call):
    with pytest.raises(TypeError):
        call()


def test_default_dtype():
    assert mt.get_default_dtype() is mt.float32
    try:
        mt.set_default_dtype(mt.float64)
        assert mt.empty(2, device="meta").dtype is mt.float64
        assert (mt.empty(2, dtype=mt.int64, device="meta") + 1.5).dtype is mt.float64
    finally:
        mt.set_default_dtype(mt.float32)
    for wrong in (mt.int64, mt.complex64, "float32", None):
        with pytest.raises(TypeError):
            mt.set_default_dtype(wrong)
