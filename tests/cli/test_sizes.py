"""Numbers with suffixes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metatensor.cli.sizes import SizeError, parse_bytes, parse_count


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0), ("1000", 1000), ("1_000", 1000), ("1,000", 1000), ("7e9", 7 * 10**9), ("8B", 8 * 10**9), ("8b", 8 * 10**9),
        ("8G", 8 * 10**9), ("125M", 125 * 10**6), ("1.5k", 1500), (" 2 T ", 2 * 10**12), ("0.1M", 100_000), (".5K", 500),
        ("1e3K", 10**6), ("2.5e-1K", 250),
    ],
)  # fmt: skip
def test_counts(text, value):
    assert parse_count(text) == value


@pytest.mark.parametrize(("text", "value"), [("4.1G", 41 * 10**8), ("4.1GFLOPs", 41 * 10**8), ("1 TFLOP", 10**12), ("5flops", 5)])
def test_flops(text, value):
    assert parse_count(text, "flops") == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10GB", 10**10), ("10GiB", 10 * 2**30), ("10G", 10**10), ("512MiB", 2**29), ("512Mi", 2**29), ("8B", 8), ("8e9", 8 * 10**9),
        ("1.5kB", 1500), ("0.5KiB", 512), ("2TB", 2 * 10**12), ("100", 100),
    ],
)  # fmt: skip
def test_bytes(text, value):
    assert parse_bytes(text) == value


@pytest.mark.parametrize(
    "text", ["", "B", "ten", "1..2", "-5", "1e+", "5X", "5 GBs", "1.5", "0.3B ", "1e9999", "nan", "inf", "_1", "9" * 200]
)
def test_bad_bytes(text):
    with pytest.raises(SizeError):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["", "8X", "8KB", "1.5", "1.23456K", "8GFLOPs"])
def test_bad_counts(text):
    with pytest.raises(SizeError):
        parse_count(text)


@pytest.mark.slow
@given(st.text(max_size=12))
def test_any_text(text):
    for parse in (parse_count, parse_bytes):
        try:
            assert parse(text) >= 0
        except SizeError:
            pass
