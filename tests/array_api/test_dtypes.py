"""Dtypes, compared with array-api-strict: promotion, kinds, casts and limits."""

import itertools

import pytest

array_api_strict = pytest.importorskip("array_api_strict")
pytest.importorskip("metatensor_cpu")

from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from array_api.strict import ALL, COMPLEX, REAL, arrays, same, theirs
from metatensor import array_api as xp


def dtypes(*names):
    return [getattr(xp, n) for n in names], [getattr(array_api_strict, n) for n in names]


@pytest.mark.parametrize("names", list(itertools.product(ALL, ALL)), ids=":".join)
def test_promotion(names):
    mine, other = dtypes(*names)
    assert xp.can_cast(*mine) == array_api_strict.can_cast(*other)
    assert xp.can_cast(mt.ones(2, dtype=mine[0], device="meta"), mine[1]) == xp.can_cast(*mine)
    try:
        want = array_api_strict.result_type(*other)
    except TypeError:
        return
    assert xp.result_type(*mine).name == str(want).rpartition(".")[2]
    assert xp.result_type(mt.ones((), dtype=mine[0], device="meta"), mine[1]) is xp.result_type(*mine)


@pytest.mark.slow
@given(st.lists(st.sampled_from(ALL), min_size=1, max_size=4), st.sampled_from([True, 3, 2.5, 1j]))
def test_promotion_of_several(names, number):
    mine, other = dtypes(*names)
    for extra in ((), (number,)):
        try:
            want = array_api_strict.result_type(*other, *extra)
        except TypeError:
            continue
        assert xp.result_type(*mine, *extra).name == str(want).rpartition(".")[2]


def test_promotion_beyond_the_standard():
    assert xp.result_type(mt.float16, mt.bfloat16) is mt.float32 and xp.result_type(mt.float16, 1j) is mt.complex32
    assert xp.result_type(mt.int8, mt.float32) is mt.float32 and xp.result_type(mt.uint64, mt.bool) is mt.uint64
    assert xp.result_type(mt.int8, 2.5) is mt.get_default_dtype() and xp.result_type(mt.bool, 2) is mt.int64
    assert xp.result_type(mt.int8, 2j) is mt.complex64
    for wrong, error in (((), ValueError), ((1, 2), ValueError), ((mt.int8, "a"), TypeError), ((mt.uint64, mt.int64), TypeError)):
        with pytest.raises(error):
            xp.result_type(*wrong)
    assert not xp.can_cast(mt.uint64, mt.int64)
    with pytest.raises(TypeError):
        xp.can_cast(1, mt.int64)


KINDS = ["bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric"]


@pytest.mark.parametrize("name", ALL)
def test_kinds(name):
    (mine,), (other,) = dtypes(name)
    for kind in [*KINDS, ("bool", "integral"), ("real floating", "complex floating")]:
        assert xp.isdtype(mine, kind) == array_api_strict.isdtype(other, kind)
    for second in ALL:
        (same_dtype,), (their,) = dtypes(second)
        assert xp.isdtype(mine, same_dtype) == array_api_strict.isdtype(other, their)
        assert xp.isdtype(mine, (same_dtype, "bool")) == array_api_strict.isdtype(other, (their, "bool"))
    assert (mine == getattr(xp, name)) is True and mine != "x"


def test_kinds_beyond_the_standard():
    assert xp.isdtype(mt.bfloat16, "real floating") and xp.isdtype(mt.float16, "numeric") and xp.isdtype(dtype=mt.complex32, kind="numeric")
    assert not xp.isdtype(mt.float8_e5m2, "numeric")
    with pytest.raises(ValueError, match="unknown kind of dtype 'float'"):
        xp.isdtype(mt.float32, "float")
    with pytest.raises(TypeError):
        xp.isdtype(mt.float32, 3)


@settings(max_examples=40)
@given(st.data())
def test_astype(data):
    source, to = data.draw(st.sampled_from(ALL)), data.draw(st.sampled_from(ALL))
    if source in COMPLEX and to not in COMPLEX + ["bool"]:
        with pytest.raises(TypeError, match="real or the imaginary"):
            xp.astype(mt.ones(2, dtype=getattr(mt, source)), getattr(xp, to))
        return
    # Casts of values out of range are undefined.
    x = data.draw(arrays(source, special=False, low=0, high=100))
    if source in COMPLEX and to == "bool":  # the standard allows it, array-api-strict does not
        assert xp.astype(mt.from_numpy(x), xp.bool).tolist() == x.astype(bool).tolist()
        return
    want = theirs("astype", x, ("dtype", to))
    tensor = mt.from_numpy(x)
    for x in (tensor, tensor.to("meta")):
        for copy in (True, False):
            made = xp.astype(x, getattr(xp, to), copy=copy)
            same(made, want, values=not x.is_meta)
            assert (made is x) == (not copy and source == to)
            assert x.is_meta or not x.numel() or (made.data_ptr() == x.data_ptr()) == (made is x)
    assert xp.astype(tensor, getattr(xp, to), device="meta").is_meta


@pytest.mark.parametrize("name", REAL + COMPLEX)
def test_limits_of_floating_point_numbers(name):
    (mine,), (other,) = dtypes(name)
    want = array_api_strict.finfo(other)
    for got in (xp.finfo(mine), xp.finfo(mt.ones(2, dtype=mine, device="meta"))):
        assert (got.bits, got.eps, got.max, got.min, got.smallest_normal) == (
            want.bits, want.eps, want.max, want.min, want.smallest_normal)  # fmt: skip
        assert got.dtype.name == str(want.dtype).rpartition(".")[2]
        assert type(got.bits) is int and {type(v) for v in (got.eps, got.max, got.min, got.smallest_normal)} == {float}
    with pytest.raises(TypeError):
        xp.iinfo(mine)


@pytest.mark.parametrize("name", [n for n in ALL if "int" in n])
def test_limits_of_integers(name):
    (mine,), (other,) = dtypes(name)
    want = array_api_strict.iinfo(other)
    for got in (xp.iinfo(mine), xp.iinfo(mt.ones(2, dtype=mine, device="meta"))):
        assert (got.bits, got.max, got.min, got.dtype.name) == (want.bits, want.max, want.min, name)
    with pytest.raises(TypeError):
        xp.finfo(mine)
