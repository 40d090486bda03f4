"""The table of a report: repeated layers are folded, totals are below, and it fits on a screen."""

from dataclasses import dataclass

import pytest

import metatensor as mt
from metatensor import nn
from metatensor._core.units import bytes_text, count_text
from metatensor.analysis import estimate
from metatensor.analysis.describe import describe, spec_text
from metatensor.analysis.table import MAX_LINES, as_text, lines


@dataclass
class Result:
    logits: mt.Tensor
    note: str


def meta(*shape):
    return mt.empty(*shape, device="meta")


def layers(*widths):
    with mt.device("meta"):
        return nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in widths))


def test_alike_neighbours_are_one_line_with_their_sums():
    report = estimate(layers(*range(5)), meta(1, 4))
    found = [cells for _, cells in lines(report)]
    assert found[0] == ("Sequential", "", "float32[1,4]", "100", "160")
    assert found[1] == ("0-4", "Sequential x 5", "float32[1,4]", "100", "160")
    assert found[2] == ("0", "Linear", "float32[1,4]", "100", "160")
    assert len(found) == 4


def test_different_neighbours_are_not():
    with mt.device("meta"):
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 5), nn.Linear(5, 5), nn.Linear(5, 5))
    names = [cells[0] for _, cells in lines(estimate(model, meta(1, 4)))]
    assert names == ["Sequential", "0", "1", "2-3"]


def test_words_are_listed_numbers_are_a_range():
    class Projections(nn.Module):
        def __init__(self, names):
            super().__init__()
            for name in names:
                setattr(self, name, nn.Linear(4, 4))

        def forward(self, x):
            return [layer(x) for layer in self.children()]

    for names, text in (("q k v", "q, k, v"), ("a b c d", "a, ..., d")):
        with mt.device("meta"):
            model = Projections(names.split())
        assert lines(estimate(model, meta(1, 4)))[1][1][0] == text


def test_depth():
    report = estimate(layers(1, 2), meta(1, 4))
    assert [level for level, _ in lines(report, depth=0)] == [0]
    assert [level for level, _ in lines(report, depth=1)] == [0, 1]


def test_long_tables_leave_out_the_deepest():
    with mt.device("meta"):
        # All are different, so that nothing is folded.
        model = nn.Sequential(*(nn.Sequential(nn.Linear(i, i + 1), nn.ReLU()) for i in range(1, 41)))
    report = estimate(model, meta(1, 1))
    assert len(lines(report)) == 41 <= MAX_LINES
    assert len(lines(report, depth=2)) > MAX_LINES


def test_text_is_in_columns():
    text = as_text(estimate(layers(1, 2), meta(1, 4)))
    head = text.splitlines()
    assert head[0].split() == ["module", "type", "output", "parameters", "FLOPs"]
    assert head[2].endswith("64")
    assert head[0].index("output") == head[2].index("float32")
    for label in ("parameters", "inputs", "output", "FLOPs", "activations", "memory"):
        assert any(line.startswith(label) for line in head[4:]), label


def test_rich_shows_the_same():
    rich = pytest.importorskip("rich.console")
    report = estimate(layers(1, 2), meta(1, 4))
    console = rich.Console(width=160, record=True, file=open("/dev/null", "w"))
    console.print(report)
    text = console.export_text()
    assert "Sequential x 2" in text
    assert "activations" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (999, "999"), (1000, "1.00 K"), (124439808, "124 M"), (1557611200, "1.56 G"), (999_950, "1.00 M"), (10**21, "1000 E")],
)
def test_counts(value, text):
    assert count_text(value) == text


def test_bytes():
    assert bytes_text(12) == "12 B"
    assert bytes_text(497759232) == "498 MB"
    assert bytes_text(1500) == "1.50 KB"


def test_descriptions():
    value = {"a": (meta(2), [None, 1.5]), "b": object(), 3: "x"}
    described = describe(value)
    assert described == {"a": ["float32[2]", [None, 1.5]], "b": "object", "3": "x"}
    assert describe(Result(meta(3), "x")) == {"logits": "float32[3]", "note": "x"}
    assert spec_text(described) == "{a: (float32[2], (None, 1.5)), b: object, 3: x}"
