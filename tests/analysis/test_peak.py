"""Peak activation memory, compared with counts by hand."""

import gc

import pytest

import metatensor as mt
from metatensor.analysis import estimate

KB = 1000  # bytes of a float32[250], the unit of these tests


def tensor(n=250, **kwargs):
    return mt.empty(n, device="meta", **kwargs)


def line_of(function, text):
    """Return `file:line` of the line of `function` that contains `text`."""
    import inspect

    lines, start = inspect.getsourcelines(function)
    number = next(i for i, line in enumerate(lines) if text in line)
    return f"{inspect.getsourcefile(function)}:{start + number}"


def test_births_and_deaths():
    def run(x):
        a = x + 1  # 1 KB
        b = a * 2  # 2 KB
        del a  # 1 KB
        c = b.view(10, 25)  # a view: still 1 KB
        d = mt.cat([c, c])  # 3 KB, the peak
        del b, c  # 2 KB
        return d[:, :5].sum()  # 4 bytes more

    report = estimate(run, tensor())
    assert report.peak.bytes == 3 * KB
    assert report.peak.op == "cat"
    assert report.peak.module == ""
    assert report.peak.location == line_of(run, "mt.cat")
    assert report.input_bytes == KB
    assert report.total_bytes == 4 * KB


def test_what_a_call_keeps_alive_counts():
    def run(x):
        return ((x + 1) * 2).relu()  # each intermediate result is alive while the next one is created

    assert estimate(run, tensor()).peak.bytes == 2 * KB


def test_in_place_makes_nothing():
    def run(x):
        y = x + 1
        y += 1
        y.mul_(2).relu_()
        return y

    report = estimate(run, tensor())
    assert report.peak.bytes == KB
    assert report.peak.op == "add"


def test_a_result_that_is_an_input_makes_nothing():
    report = estimate(lambda x: x.view(25, 10), tensor())
    assert report.peak.bytes == 0
    assert report.peak.op is None
    assert "at their peak" in str(report)


def test_a_view_keeps_its_whole_storage():
    def run(x):
        part = (x + 1)[:1]  # 1 KB stays
        return part, x + 2

    assert estimate(run, tensor()).peak.bytes == 2 * KB


class Wide(mt.nn.Module):
    """Expands to three times its input and back, and keeps the input for a residual connection."""

    def __init__(self):
        super().__init__()
        self.up = mt.nn.Linear(250, 750)
        self.act = mt.nn.ReLU()
        self.down = mt.nn.Linear(750, 250)

    def forward(self, x):
        x = x + 0  # 1 KB
        wide = self.act(self.up(x))  # 1 + 3 + 3 = 7 KB
        return x + self.down(wide)


def test_in_modules():
    with mt.device("meta"):
        model = mt.nn.Sequential(Wide(), Wide())
    report = estimate(model, tensor())
    # In the second call, the result of the first one is still alive: 1 + 1 + 3 + 3.
    assert report.peak.bytes == 8 * KB
    assert report.peak.op.endswith("relu")
    assert report.peak.module == "1.act"
    assert report.peak.location == line_of(Wide, "self.act(self.up(x))")
    assert report.parameter_bytes == 4 * model[0].up.weight.numel() * 4 + 2 * 4 * 1000
    assert report.total_bytes == report.parameter_bytes + report.input_bytes + 8 * KB


def test_the_inputs_storage_counts_once():
    x = tensor()
    assert estimate(lambda a, b: a.view(10, 25).sum() + b.sum(), x, x[:100]).input_bytes == KB


def test_no_line_of_the_user_where_there_is_none():
    with mt.device("meta"):
        model = mt.nn.Sequential(mt.nn.Linear(250, 750), mt.nn.ReLU())
    report = estimate(model, tensor())
    assert report.peak.module == "1"
    assert "metatensor" in report.peak.location


def test_nothing_is_kept_alive_afterwards():
    gc.collect()
    x = tensor()
    model = mt.nn.Sequential(mt.nn.ReLU())
    for _ in range(3):
        assert estimate(model, x).peak.bytes == KB


def test_a_real_device_is_measured_the_same_way():
    pytest.importorskip("numpy")
    if "cpu" not in mt.plugins.device_types():
        pytest.skip("the cpu plugin is not installed")

    def run(x):
        a = x + 1
        b = a * 2
        del a
        return mt.cat([b, b])

    assert estimate(run, mt.zeros(250)).peak.bytes == estimate(run, tensor()).peak.bytes == 3 * KB
