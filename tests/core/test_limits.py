"""finfo and iinfo have the numbers of PyTorch."""

import pytest

import metatensor as mt

FLOATS = [
    "float16", "bfloat16", "float32", "float64", "complex32", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2",
    "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu",
]  # fmt: skip
INTS = ["uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"]


@pytest.mark.torch
@pytest.mark.parametrize("name", [*FLOATS, *INTS])
def test_limits(name):
    import torch

    kind = "iinfo" if name in INTS else "finfo"
    ours, theirs = getattr(mt, kind)(getattr(mt, name)), getattr(torch, kind)(getattr(torch, name))
    assert repr(ours) == repr(theirs)
    for attribute in ("bits", "max", "min", "dtype"):
        assert getattr(ours, attribute) == getattr(theirs, attribute), attribute
    if kind == "finfo":
        assert (ours.eps, ours.tiny, ours.smallest_normal) == (theirs.eps, theirs.tiny, theirs.smallest_normal)
        assert ours.resolution == pytest.approx(theirs.resolution)


def test_of_the_default_dtype_and_refusals():
    assert mt.finfo() == mt.finfo(mt.float32) != mt.finfo(mt.float64)
    for call in (lambda: mt.finfo(mt.int8), lambda: mt.iinfo(mt.float32), lambda: mt.iinfo(mt.bool), lambda: mt.finfo("float32")):
        with pytest.raises(TypeError):
            call()
    assert mt.iinfo(mt.int8) == mt.iinfo(mt.int8) != mt.iinfo(mt.uint8)
    assert mt.newaxis is None and mt.pi == 3.141592653589793 and mt.inf > mt.e and mt.nan != mt.nan
