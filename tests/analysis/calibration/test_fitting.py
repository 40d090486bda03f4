"""Fits of costs to samples that follow a known law."""

import pytest

from metatensor.analysis.calibration.fitting import by_kind, by_operator, fit
from metatensor.analysis.calibration.measuring import Sample
from metatensor.analysis.calls import Call


def sample(seconds, read=0, flops=0, repeated=0, op="add", form=""):
    return Sample(Call(op, flops, read, 0, "float32", "forward", repeated, "", form), seconds)


def test_a_line_is_found():
    points = [(b, f, r) for b in (1e3, 1e6, 1e7) for f in (1e4, 1e8, 1e10) for r in (10.0, 1e7)]
    cost = fit([sample(2e-6 + b / 1e9 + f / 5e10 + r / 4e9, int(b), int(f), int(r), "mm") for b, f, r in points])
    assert cost.overhead == pytest.approx(2e-6, rel=1e-3) and cost.bandwidth == pytest.approx(1e9, rel=1e-3)
    assert cost.rate == pytest.approx(5e10, rel=1e-3) and cost.repeated == pytest.approx(4e9, rel=1e-3)


def test_no_part_is_negative():
    cost = fit([sample(1e-3 / n, n, n, op="mm") for n in (1, 10, 100)])
    assert cost.overhead > 0 and cost.time(1, 1) > 0 and cost.time(10**9, 10**9) > 0


def test_a_curve_goes_through_medians_and_does_not_fall():
    cost = fit([sample(1.0, 1000), sample(3.0, 1000), sample(2.0, 1001), sample(1.5, 5000), sample(10.0, 100_000)])
    assert cost.bytes == (pytest.approx(1000.33, abs=0.1), 5000.0, 100_000.0) and cost.seconds == (2.0, 2.0, 10.0)
    assert cost.time(10, 0) == 2.0 and cost.time(100_000, 0) == 10.0 and cost.time(195_000, 0) == pytest.approx(18.0)


def test_groups():
    samples = [sample(1.0, 100), sample(5.0, 100, form="strided"), sample(2.0, 100, op="sum"), sample(0.5, op="view")]
    assert {name: cost.time(100, 0) for name, cost in by_operator(samples).items()} == {
        "add": 1.0, "add strided": 5.0, "sum": 2.0, "view": 0.5}  # fmt: skip
    assert {name: cost.time(100, 0) for name, cost in by_kind(samples).items()} == {"elementwise": 3.0, "reduction": 2.0, "view": 0.5}
