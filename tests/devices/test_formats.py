"""Half precision stored as bits has the values of ml_dtypes and PyTorch, for every code and for difficult values."""

import numpy as np
import pytest

from metatensor.devices.array_kit.formats import FLOAT8, formats

ml_dtypes = pytest.importorskip("ml_dtypes")

SMALL = ["bfloat16", *FLOAT8, "float8_e8m0fnu"]
BITS = formats()
OWN = formats({name: getattr(ml_dtypes, name) for name in SMALL})


def hard_cases():
    """Return all float16 and bfloat16 values, the midpoints between them, and random bit patterns."""
    halves = np.arange(1 << 16, dtype=np.uint16)
    wide = halves.astype(np.uint32) << 16
    rng = np.random.default_rng(1)
    patterns = [halves.view(np.float16).astype(np.float32)]
    patterns += [(wide + offset).view(np.float32) for offset in (0, 0x7FFF, 0x8000, 0x8001)]
    patterns.append(rng.integers(0, 1 << 32, 100_000, dtype=np.uint32).view(np.float32))
    return np.concatenate(patterns)


def same(a, b):
    return bool(((a == b) | (np.isnan(a) & np.isnan(b))).all())


@pytest.mark.parametrize("name", [*SMALL, "float16"])
def test_all_codes_decode_alike(name):
    raw = BITS[name].raw
    codes = np.arange(1 << (8 * raw.itemsize), dtype=f"u{raw.itemsize}")
    assert same(BITS[name].decode(np, codes.view(raw)), OWN[name].decode(np, codes.view(OWN[name].raw)))


@pytest.mark.parametrize("name", SMALL)
def test_encoding_is_that_of_ml_dtypes(name):
    values = hard_cases()
    with np.errstate(all="ignore"):
        bits = BITS[name].encode(np, values)
        own = OWN[name].encode(np, values).view(bits.dtype)
        assert same(BITS[name].decode(np, bits), BITS[name].decode(np, own))
    assert bits.dtype == BITS[name].raw


@pytest.mark.torch
@pytest.mark.parametrize("name", [*SMALL, "float16"])
def test_encoding_is_that_of_pytorch(name):
    torch = pytest.importorskip("torch")
    values = hard_cases()
    with np.errstate(all="ignore"):
        ours = BITS[name].decode(np, BITS[name].encode(np, values))
    theirs = torch.from_numpy(values).to(getattr(torch, name)).float().numpy()
    assert same(ours, theirs)


@pytest.mark.parametrize("table", [BITS, OWN], ids=["bits", "ml_dtypes"])
@pytest.mark.parametrize("name", [*SMALL, "float16", "complex32"])
@pytest.mark.parametrize("shape", [(), (0,), (3, 4)])
def test_shapes_and_strides_survive(table, name, shape):
    fmt = table[name]
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(fmt.compute)
    for array in (values, values.T):
        raw = fmt.encode(np, array)
        assert raw.shape == array.shape and raw.dtype == fmt.raw
        assert fmt.decode(np, raw).shape == array.shape


def test_complex32_is_two_halves():
    fmt = BITS["complex32"]
    values = np.array([1 + 2j, -0.5 + 65504j, np.inf - 1j], np.complex64)
    raw = fmt.encode(np, values)
    assert raw.view(np.float16).tolist() == [1, 2, -0.5, 65504, np.inf, -1]
    assert fmt.decode(np, raw).tolist() == values.tolist()


def test_a_library_dtype_of_the_wrong_size_is_an_error():
    with pytest.raises(ValueError, match="bfloat16 has 2 bytes an element, but float32 has 4"):
        formats({"bfloat16": np.float32})
