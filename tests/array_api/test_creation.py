"""Creation functions, compared with array-api-strict."""

import array

import numpy as np
import pytest

array_api_strict = pytest.importorskip("array_api_strict")
pytest.importorskip("metatensor_cpu")

from hypothesis import assume, given, settings
from hypothesis import strategies as st

import metatensor as mt
from array_api.strict import ALL, COMPLEX, NUMERIC, REAL, agree, arrays, elements, some_shapes, theirs
from metatensor import array_api as xp

SOME = settings(max_examples=40)
sizes = st.integers(0, 4)


@pytest.fixture(autouse=True)
def double_precision():
    """Use float64 as the default dtype, as array-api-strict does for Python floats."""
    mt.set_default_dtype(mt.float64)


@SOME
@given(st.data())
def test_arange(data):
    dtype = data.draw(st.none() | st.sampled_from(["int8", "int64", "uint64", *REAL]))
    numbers = st.integers(0, 20) if dtype and dtype.startswith("u") else st.integers(-20, 20)
    if dtype is None or dtype in REAL:
        numbers |= st.integers(-40, 40).map(lambda n: n / 4)
    start, stop, step = data.draw(numbers), data.draw(st.none() | numbers), data.draw(numbers)
    assume(step)
    how = {} if dtype is None else {"dtype": dtype}
    agree("arange", start, *([] if stop is None else [stop, step]), **how)
    if stop is not None:
        agree("arange", start, stop=stop, step=step, **how)


def test_arange_of_much():
    assert xp.arange(0, 10**12, 10**11, dtype=xp.int64).tolist() == list(range(0, 10**12, 10**11))
    assert xp.arange(5, device="meta").device.type == "meta"
    with pytest.raises(ValueError, match="step"):
        xp.arange(1, 2, 0)


@pytest.mark.slow
@SOME
@given(st.data())
def test_full_and_its_kin(data):
    shape = data.draw(st.tuples(sizes, sizes) | sizes | st.just(()))
    dtype = data.draw(st.none() | st.sampled_from(ALL))
    how = {} if dtype is None else {"dtype": dtype}
    for name in ("zeros", "ones"):
        agree(name, shape, **how)
    agree("empty", shape, values=False, **how)
    value = data.draw(elements(dtype or data.draw(st.sampled_from(["bool", "int64", "float64", "complex128"]))))
    agree("full", shape, value, **how)
    x = data.draw(arrays(data.draw(st.sampled_from(ALL))))
    for name in ("zeros_like", "ones_like"):
        agree(name, x, **how)
    agree("empty_like", x, values=False, **how)
    if dtype:
        agree("full_like", x, value, **how)
    n, m, k = data.draw(sizes), data.draw(st.none() | sizes), data.draw(st.integers(-5, 5))
    agree("eye", n, m, k=k, **how)


@SOME
@given(
    st.sampled_from([None, *REAL, *COMPLEX]), st.integers(-50, 50), st.integers(-50, 50), st.integers(0, 7), st.booleans(),
    st.booleans(),
)  # fmt: skip
def test_linspace(dtype, start, stop, num, endpoint, imaginary):
    start, stop = start / 4, stop / 4
    if imaginary and (dtype is None or dtype in COMPLEX):
        stop = stop + 2j
    agree("linspace", start, stop, num, endpoint=endpoint, tolerance=1e-5, **({} if dtype is None else {"dtype": dtype}))


@pytest.mark.slow
@SOME
@given(st.data())
def test_meshgrid(data):
    dtype = data.draw(st.sampled_from(NUMERIC))
    vectors = [data.draw(arrays(dtype, st.tuples(sizes))) for _ in range(data.draw(sizes))]
    kind = {"indexing": data.draw(st.sampled_from(["xy", "ij"]))} if data.draw(st.booleans()) else {}
    want = [np.asarray(a._array) for a in theirs("meshgrid", *vectors, **kind)]
    got = xp.meshgrid(*map(mt.from_numpy, vectors), **kind)
    assert isinstance(got, list) and len(got) == len(want)
    for a, b in zip(got, want):
        np.testing.assert_array_equal(a.numpy(), b)
    assert [x.shape for x in xp.meshgrid(*(mt.from_numpy(v).to("meta") for v in vectors), **kind)] == [b.shape for b in want]


def test_meshgrid_in_no_known_order():
    with pytest.raises(ValueError, match="'xy' or 'ij'"):
        xp.meshgrid(xp.ones(2), indexing="yx")


@pytest.mark.slow
@SOME
@given(st.data())
def test_triangles(data):
    x = data.draw(arrays(data.draw(st.sampled_from(ALL)), st.tuples(sizes, sizes) | st.tuples(sizes, sizes, sizes)))
    for name in ("tril", "triu"):
        agree(name, x, k=data.draw(st.integers(-5, 5)))


@pytest.mark.slow
@SOME
@given(st.data())
def test_asarray_of_values(data):
    dtype = data.draw(st.sampled_from(ALL))
    x = data.draw(arrays(dtype, some_shapes))
    values = x.tolist()
    want = theirs("asarray", values)
    got = xp.asarray(values)
    assert got.dtype.name == str(want.dtype).rpartition(".")[2] if dtype != "uint64" else True
    np.testing.assert_array_equal(xp.asarray(values, dtype=getattr(xp, dtype)).numpy(), x)
    meta = xp.asarray(values, dtype=getattr(xp, dtype), device="meta")
    assert (meta.dtype.name, tuple(meta.shape), meta.device.type) == (dtype, x.shape, "meta")


def test_asarray_of_tensors():
    x = mt.tensor([1.0, 2.0], device="cpu")
    for copy in (None, False):
        assert xp.asarray(x, copy=copy) is x
        assert xp.asarray(x, copy=copy, dtype=x.dtype, device="cpu") is x
    copied = xp.asarray(x, copy=True)
    assert copied.data_ptr() != x.data_ptr() and copied.tolist() == [1, 2]
    assert xp.asarray(x, dtype=xp.int8).dtype is mt.int8
    assert xp.asarray(x, device="meta").is_meta
    for change in ({"dtype": xp.int8}, {"device": "meta"}):
        with pytest.raises(ValueError, match="only by a copy"):
            xp.asarray(x, copy=False, **change)


def test_asarray_of_anything():
    a = np.arange(6.0).reshape(2, 3)
    assert xp.asarray(a).data_ptr() == a.ctypes.data and xp.asarray(a, copy=False).data_ptr() == a.ctypes.data
    assert xp.asarray(a, copy=True).data_ptr() != a.ctypes.data
    strict = array_api_strict.asarray(a)
    assert xp.asarray(strict).tolist() == a.tolist()
    assert xp.asarray(True).dtype is mt.bool and xp.asarray(3).dtype is mt.int64 and xp.asarray(1j).dtype is mt.complex128
    assert xp.asarray([[1, 2.5], [True, 3]]).tolist() == [[1, 2.5], [1, 3]]
    assert xp.asarray([xp.asarray(1), 2]).tolist() == [1, 2]
    buffer = array.array("h", [1, 2, 3])
    shared = xp.asarray(buffer)
    assert shared.dtype is mt.int16 and shared.tolist() == [1, 2, 3]
    shared[0] = 9
    assert buffer[0] == 9
    assert xp.asarray(memoryview(a)).shape == (2, 3) and xp.asarray(bytearray(b"ab")).dtype is mt.uint8
    for wrong in ("ab", b"ab", {1}, None):
        with pytest.raises((TypeError, RuntimeError)):
            xp.asarray(wrong)
    for nothing_to_share in (3, [1, 2], a[::-1], a.astype(">f8")):
        with pytest.raises(ValueError):
            xp.asarray(nothing_to_share, copy=False)


@SOME
@given(st.data())
def test_from_dlpack(data):
    dtype = data.draw(st.sampled_from(NUMERIC + ["bool"]))
    a = data.draw(arrays(dtype))
    x = xp.from_dlpack(a)
    assert x.dtype.name == dtype and x.shape == a.shape and (not a.size or x.data_ptr() == a.ctypes.data)
    np.testing.assert_array_equal(np.from_dlpack(x), a)


def test_from_dlpack_refuses():
    with pytest.raises(AttributeError):
        xp.from_dlpack([1, 2])
    with pytest.raises(ValueError, match="without a copy"):
        xp.from_dlpack(np.ones(2), device="meta", copy=False)
    assert xp.from_dlpack(np.ones(2), device="meta").is_meta
