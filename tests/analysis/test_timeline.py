"""The reduced timeline: it keeps the peak exactly, and its parts add up."""

import json

import pytest

import metatensor as mt
from metatensor.analysis import profile
from metatensor.analysis.timeline import chart, chosen, living


class Block(mt.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.up, self.down = mt.nn.Linear(n, 4 * n), mt.nn.Linear(4 * n, n)

    def forward(self, x):
        return x + self.down(self.up(x).relu())


@pytest.fixture(scope="module")
def report():
    with mt.device("meta"):
        model, x = mt.nn.Sequential(*[Block(8) for _ in range(40)], mt.nn.Linear(8, 2)), mt.empty(16, 8)
    optimizer = mt.optim.AdamW(model.parameters())

    def step():
        model(x).sum().backward()
        optimizer.step()

    return profile(step)


def test_few_events_are_all_kept():
    assert chosen([3, 1, 2], 0, 10) == [0, 1, 2]
    assert chosen([], -1, 10) == []


def test_the_peak_and_the_ends_are_kept():
    totals = [i % 97 for i in range(10_000)]
    totals[1234] = 1000
    kept = chosen(totals, 1234, 50)
    assert len(kept) <= 53 and {0, 1234, 9999} <= set(kept) and kept == sorted(set(kept))
    for first in range(0, 10_000, 400):  # the highest and the lowest of each part
        part = range(first, first + 400)
        assert max(totals[i] for i in part) == max(totals[i] for i in kept if i in part)
        assert min(totals[i] for i in part) == min(totals[i] for i in kept if i in part)


@pytest.mark.parametrize("points", [20, 100, 10_000])
def test_the_chart_adds_up(report, points):
    found = chart(report, points)
    every = [total for _, total in report.timeline()]
    assert found["total"] == [every[i] for i in found["event"]] and found["all_events"] == len(every)
    assert found["total"][found["peak"]] == report.peak == max(every)
    assert [sum(sizes) for sizes in zip(*found["categories"].values(), strict=True)] == found["total"]
    assert found["start"] == sum(report.resident.values())
    assert len(found["event"]) <= points + 3
    for i, groups in enumerate(found["alive"]):
        sizes = [size for _, size in groups]
        assert sizes == sorted(sizes, reverse=True) and 0 < len(sizes) <= 5 and sum(sizes) <= found["total"][i]
    places = [found["places"][i] for i in found["place"]]
    assert places[found["peak"]] == list(report.peak_place)
    phases = [found["phases"][i] for i in found["phase"]]
    assert phases == sorted(phases, key=["forward", "backward", "optimizer"].index) and len(set(phases)) == 3
    json.dumps(found)


def test_what_lives_at_the_peak(report):
    rows, others = living(report, 10)
    assert len(rows) == 10 and [row["bytes"] for row in rows] == sorted((row["bytes"] for row in rows), reverse=True)
    assert sum(row["bytes"] for row in rows) + others["bytes"] == report.made_peak
    assert all(row["born"] <= report.peak_event and (row["died"] is None or row["died"] > report.peak_event) for row in rows)
    every, none = living(report, 10**6)
    assert len(every) == 10 + others["count"] and none == {"count": 0, "bytes": 0}


def test_modules_include_their_submodules(report):
    rows = {row.path: row for row in report.modules}
    assert list(rows)[:4] == ["", "0", "0.up", "0.down"]
    assert rows[""].peak_bytes == report.made_peak and rows[""].made_bytes == sum(record.nbytes for record in report.storages)
    assert rows["3"].made_bytes > rows["3.up"].made_bytes + rows["3.down"].made_bytes > 0
    assert rows["3"].parameters == 8 * 32 + 32 + 32 * 8 + 8


def test_several_modules_are_below_a_row_for_the_run():
    with mt.device("meta"):
        first, second, x = mt.nn.Linear(4, 4), mt.nn.Linear(4, 2), mt.empty(3, 4)
    report = profile(lambda: second(first(x)))
    assert [(row.path, row.depth) for row in report.modules][0] == ("", 0) and len(report.modules) == 3
    assert report.modules[0].parameters == 20 + 10 and {row.depth for row in report.modules[1:]} == {1}


def test_figures_are_json(report):
    found = json.loads(report.to_json())
    assert found["kind"] == "profile" and found["peak"] == report.peak and found["unit"] == "bytes"
    assert sum(found["peak_by_category"].values()) == report.peak
    assert "return x + self.down(self.up(x).relu())" in found["source"].values()


def test_nothing_happened():
    found = profile(lambda: None).to_dict()
    assert found["peak"] == 0 and found["peak_phase"] is None and found["chart"]["peak"] is None and found["chart"]["event"] == []
