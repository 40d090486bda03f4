"""Conversion of nested Python numbers to bytes and back, compared with NumPy, ml_dtypes and PyTorch; invalid input."""

import functools
import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metatensor as mt
from metatensor._core.host import decode_numbers, encode_numbers

SMALL = ("float16", "bfloat16", "float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz", "float8_e8m0fnu")
ORDINARY = (
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
    "complex64",
    "complex128",
)


def awkward():
    """Return float32 values of every magnitude, and values near rounding boundaries."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 20000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    middling = (rng.standard_normal(20000) * np.exp2(rng.integers(-20, 20, 20000))).astype(np.float32)
    edges = [0, -0.0, np.inf, -np.inf, 1e-45, -1e-45, 65504, 65520, 448, 464, 465, 57344, 61440, 2**-24, 2**-25, 3 * 2.0**-25]
    return np.concatenate([bits[~np.isnan(bits)], middling, np.float32(edges)])


@pytest.mark.torch
@pytest.mark.parametrize("name", SMALL)
def test_rounding_is_pytorchs(name):
    import torch

    numbers = awkward()
    wanted = torch.from_numpy(numbers).to(getattr(torch, name))
    words = wanted.view(torch.int16 if wanted.element_size() == 2 else torch.uint8).numpy()
    _, dtype, data = encode_numbers(numbers.tolist(), getattr(mt, name))
    assert dtype.name == name
    np.testing.assert_array_equal(np.frombuffer(data, words.dtype), words)


@pytest.mark.torch
@pytest.mark.parametrize("name", SMALL)
def test_every_code_decodes(name):
    import torch

    dtype = getattr(mt, name)
    codes = np.arange(256**dtype.itemsize, dtype=f"u{dtype.itemsize}")
    wanted = torch.from_numpy(codes.view("i2" if dtype.itemsize == 2 else "u1")).view(getattr(torch, name)).double()
    np.testing.assert_array_equal(decode_numbers(codes.tobytes(), dtype, codes.shape), wanted.numpy())


@pytest.mark.parametrize("name", ORDINARY)
def test_round_trip_of_ordinary_dtypes(name):
    array = np.arange(24).reshape(2, 3, 4).astype(name)
    if "complex" in name:
        array = array * (1 - 0.5j)
    shape, dtype, data = encode_numbers(array.tolist(), getattr(mt, name))
    assert shape == (2, 3, 4) and data == array.tobytes()
    assert decode_numbers(data, dtype, shape) == array.tolist()


@given(st.floats(allow_nan=False) | st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.complex_numbers(allow_nan=False))
def test_a_number_comes_back(value):
    kind = {bool: mt.bool, int: mt.int64, float: mt.float64, complex: mt.complex128}[type(value)]
    shape, _, data = encode_numbers(value, kind)
    assert shape == () and decode_numbers(data, kind, ()) == value


def test_nan_stays_nan():
    for name in ("float16", "bfloat16", "float32", "float64", *SMALL[2:]):
        _, dtype, data = encode_numbers([math.nan], getattr(mt, name))
        assert math.isnan(decode_numbers(data, dtype, (1,))[0])


@pytest.mark.parametrize(
    "data, name",
    [
        (1, "int64"),
        (1.5, "float32"),
        (True, "bool"),
        (1j, "complex64"),
        ([], "float32"),
        ([1, 2.5], "float32"),
        ([True, 2], "int64"),
        ([True, 2.5, 1j], "complex64"),
        ([[1, 2], [3, 4.0]], "float32"),
        (range(3), "int64"),
        ([np.int8(1), np.int8(2)], "int8"),
        ([np.float32(1), np.float64(2)], "float64"),
        ([np.bool_(True)], "bool"),
    ],
)
def test_dtype_is_inferred(data, name):
    assert encode_numbers(data)[1].name == name


def test_inference_follows_the_default_dtype():
    mt.set_default_dtype(mt.float64)
    assert encode_numbers([1.5])[1] is mt.float64
    assert encode_numbers([1j])[1] is mt.complex128


def looped():
    data = [1]
    data.append(data)
    return data


@pytest.mark.parametrize(
    "data, name, error, message",
    [
        ([[1, 2], [3]], None, ValueError, "expected a sequence of length 2 at dimension 1, got 1"),
        ([[1, 2], 3], None, TypeError, "not a sequence"),
        ([1, [2]], None, TypeError, "expected a number, got list"),
        ("a", None, TypeError, "invalid data type 'str'"),
        (["a"], None, ValueError, "too many dimensions: 'str'"),
        ({1, 2}, None, RuntimeError, "could not infer a dtype for set"),
        ([None], None, RuntimeError, "could not infer a dtype for NoneType"),
        (looped(), None, TypeError, "contains itself"),
        (functools.reduce(lambda inner, _: [inner], range(80), 1), None, ValueError, "nested more than 72 deep"),
        ([2**63], None, ValueError, "does not fit in 64 bits"),
        ([256], "uint8", RuntimeError, "cannot be converted to uint8 without overflow"),
        ([-256], "uint8", RuntimeError, "without overflow"),
        ([128], "int8", RuntimeError, "without overflow"),
        ([1e10], "int32", RuntimeError, "without overflow"),
        ([math.nan], "int64", RuntimeError, "without overflow"),
        ([1j], "float32", TypeError, "a complex number cannot be converted to float32"),
        ([10**400], "float64", RuntimeError, "without overflow"),
        ([1], "qint8", TypeError, "cannot be converted to qint8"),
    ],
)
def test_bad_input(data, name, error, message):
    with pytest.raises(error, match=message):
        encode_numbers(data, None if name is None else getattr(mt, name))


def test_negative_numbers_wrap_in_unsigned_dtypes():
    assert encode_numbers([-1, -255], mt.uint8)[2] == b"\xff\x01"
    assert encode_numbers([-1], mt.uint64)[2] == struct.pack("<Q", 2**64 - 1)
    assert encode_numbers([2**64 - 1], mt.uint64)[2] == struct.pack("<Q", 2**64 - 1)


def test_fractions_are_cut_off():
    assert decode_numbers(encode_numbers([1.9, -1.9], mt.int32)[2], mt.int32, (2,)) == [1, -1]


def test_decoding_checks_the_length():
    with pytest.raises(ValueError, match="takes 8 bytes, got 7"):
        decode_numbers(bytes(7), mt.float32, (2,))
    with pytest.raises(ValueError, match="invalid shape"):
        decode_numbers(b"", mt.float32, (-1,))
