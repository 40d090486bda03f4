"""Named sizes and their combinations."""

import pytest

from metatensor.analysis.named_sizes import combinations, parse_sizes
from metatensor.analysis.sizes import SizeError, parse_seconds, parse_share


def test_values_and_ranges():
    assert parse_sizes("batch in 1,8, 32; h in 224..512 step 96;") == {"batch": [1, 8, 32], "h": [224, 320, 416, 512]}
    assert parse_sizes("n in 3..5, 4, 9") == {"n": [3, 4, 5, 9]}
    assert parse_sizes("n in 0..5 step 2") == {"n": [0, 2, 4]}


@pytest.mark.parametrize("text", [
    "", ";", "n", "n in", "n in x", "n in 1..", "n in 5..1", "n in 1..9 step 0", "n in 1; n in 2", "n in -1", "n in 1..999999", "1n in 2",
])  # fmt: skip
def test_invalid_sizes(text):
    with pytest.raises(SizeError):
        parse_sizes(text)


def test_combinations():
    assert list(combinations({"a": [1, 2], "b": [3, 4]})) == [{"a": 1, "b": 3}, {"a": 1, "b": 4}, {"a": 2, "b": 3}, {"a": 2, "b": 4}]
    assert list(combinations({})) == [{}]
    with pytest.raises(SizeError, match="more than"):
        combinations({"a": range(1000), "b": range(1000)})


def test_times_and_shares():
    assert parse_seconds("200ms") == 0.2 and parse_seconds("1.5 s") == 1.5 and parse_seconds("30us") == 30e-6 and parse_seconds("2") == 2
    assert parse_share("5%") == 0.05 and parse_share("0.05") == 0.05
    for parse, text in ((parse_seconds, "3 parsecs"), (parse_seconds, "fast"), (parse_share, "5 apples")):
        with pytest.raises(SizeError):
            parse(text)
