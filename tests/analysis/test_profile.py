"""Profiles: what lived in memory when, and where it came from."""

import json
import linecache

import pytest

import metatensor as mt
from metatensor.analysis import MemoryTracker, profile
from metatensor.analysis.profiling import CATEGORIES


def mlp(device="meta"):
    with mt.device(device):
        return mt.nn.Sequential(mt.nn.Linear(16, 64), mt.nn.Tanh(), mt.nn.Linear(64, 4))


def code_at(line):
    file, _, number = line.rpartition(":")
    return linecache.getline(file, int(number)).strip()


def test_the_peak_is_that_of_a_tracker():
    model, x = mlp(), mt.empty(32, 16, device="meta")
    with MemoryTracker() as memory:
        model(x).sum().backward()
    for p in model.parameters():
        p.grad = None
    report = profile(lambda: model(x).sum().backward())
    assert report.made_peak == memory.peak
    parameters = sum(4 * p.numel() for p in model.parameters())
    assert report.resident == {"parameter": parameters} and report.peak == memory.peak + parameters


def test_categories_of_a_training_step():
    model, x = mlp(), mt.empty(32, 16, device="meta")
    optimizer = mt.optim.Adam(model.parameters())

    def step():
        hidden = model(x)
        loss = hidden.sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    report = profile(step)
    parameters = sum(4 * p.numel() for p in model.parameters())
    total = dict.fromkeys(CATEGORIES, 0)
    for record in report.storages:
        total[record.category] += record.nbytes
    assert total["gradient"] == parameters and total["optimizer state"] >= 2 * parameters
    assert total["output"] == 4 and total["parameter"] == total["buffer"] == total["input"] == 0
    tanh = [r for r in report.storages if r.operator == "tanh"]
    assert [(r.category, r.module, r.nbytes) for r in tanh] == [("saved for backward", "1", 4 * 32 * 64)]
    assert code_at(tanh[0].line) == "hidden = model(x)"
    again = profile(step)
    assert again.resident["optimizer state"] >= 2 * parameters
    assert not any(r.category == "optimizer state" for r in again.storages)


def test_inputs_and_outputs():
    model = mlp()
    report = profile(model, mt.empty(32, 16, device="meta"))
    assert report.resident["input"] == 4 * 32 * 16
    assert report.result.shape == (32, 4)
    (made,) = [r for r in report.storages if r.category == "output"]
    assert made.nbytes == 4 * 32 * 4 and made.module == "2" and made.died is None
    assert [r.category for r in report.storages] == ["temporary", "saved for backward", "output"]


def test_the_peak_has_an_operator_a_module_and_a_line():
    def run():
        with mt.no_grad():
            return model(x)

    model, x = mlp(), mt.empty(32, 16, device="meta")
    report = profile(run)
    operator, module, line = report.peak_place
    assert (operator, module) == ("tanh", "1") and code_at(line) == "return model(x)"
    assert report.at_peak("operator") == {"nn.functional.linear": 4 * 32 * 64, "tanh": 4 * 32 * 64}
    assert report.at_peak("module") == {"0": 4 * 32 * 64, "1": 4 * 32 * 64}
    assert sum(report.at_peak("line").values()) == report.made_peak
    assert sum(report.at_peak().values()) == report.peak


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_timelines(device):
    model, x = mlp(device), mt.zeros(8, 16, device=device)
    report = profile(lambda: model(x).sum().backward())
    totals = [value for _, value in report.timeline()]
    assert max(totals) == report.peak and len(totals) == len(report.events)
    for by in ("category", "operator", "module", "line"):
        assert [sum(groups.values()) for _, groups in report.timeline(by)] == totals
    with pytest.raises(ValueError, match="by: expected"):
        report.timeline("colour")


def test_fake_tensors():
    with mt.FakeTensorMode():
        report = profile(lambda: mt.zeros(100, device="cpu") + 1)
    assert report.peak == 800 and report.at_peak() == {"temporary": 400, "output": 400}


def test_outputs_in_text_and_json():
    report = profile(mlp(), mt.empty(32, 16, device="meta"))
    data = json.loads(json.dumps(report.to_dict()))
    assert data["unit"] == "bytes" and data["peak"] == report.peak and data["excluded"]
    assert max(value for _, value in data["timeline"]) == report.peak
    assert str(report).startswith("peak ") and "by category" in str(report)
    assert "<table>" in report._repr_html_() and repr(report).startswith("Profile(peak=")


def test_nothing_made():
    report = profile(lambda: None)
    assert report.peak == 0 and report.peak_place == ("", "", None) and report.to_dict()["timeline"] == []
    assert str(report)


def test_an_exception_leaves_nothing_behind():
    with pytest.raises(ZeroDivisionError):
        profile(lambda: 1 / 0)
    with MemoryTracker() as memory:
        mt.empty(10, device="meta")
    assert memory.peak == 40


def test_recomputed_activations_are_temporary():
    from metatensor.utils.checkpoint import checkpoint

    model, x = mlp(), mt.empty(32, 16, device="meta", requires_grad=True)
    report = profile(lambda: checkpoint(model, x, use_reentrant=False).sum().backward())
    assert {r.category for r in report.storages if r.operator == "tanh"} == {"temporary"}


class Head(mt.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = mlp()
        self.last = mt.nn.Linear(4, 8, device="meta")

    def forward(self, x):
        hidden = self.inner(x)
        return self.last(hidden).exp()


def test_backward_operators_belong_to_the_line_and_module_whose_gradient_they_compute():
    model, x = Head(), mt.empty(32, 16, device="meta")

    def step():
        out = model(x)
        out.backward(mt.ones_like(out))

    found = {}
    report = profile(step)
    for event in report.events:
        if event.walk:
            operator, module, line = report.place_of(event)
            found.setdefault(module, set()).add(code_at(line))
            assert report.phase_of(event) == "backward"
    assert found["Head"] == {"return self.last(hidden).exp()"} == found["last"]
    assert found["inner.0"] == found["inner.1"] == found["inner.2"] == {"hidden = self.inner(x)"}


def test_backward_operators_of_an_earlier_forward_are_at_the_call_of_backward():
    model, x = Head(), mt.empty(32, 16, device="meta")
    out = model(x).sum()

    def step():
        out.backward()

    report = profile(step)
    assert {code_at(report.place_of(event)[2]) for event in report.events if event.walk} == {"out.backward()"}


def test_what_a_checkpoint_computes_again_is_at_its_own_line():
    from metatensor.utils.checkpoint import checkpoint

    model, x = Head(), mt.empty(32, 16, device="meta")

    def step():
        checkpoint(model, x, use_reentrant=False).sum().backward()

    report = profile(step)
    again = [report.place_of(event) for event in report.events if event.walk and report.place_of(event)[0] == "tanh"]
    assert again and {(module, code_at(line)) for _, module, line in again} == {("inner.1", "hidden = self.inner(x)")}


def test_a_users_own_backward_is_at_its_own_line():
    class Double(mt.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = mt.empty(32, device="meta", requires_grad=True)
    report = profile(lambda: Double.apply(x).sum().backward())
    lines = {code_at(report.place_of(event)[2]) for event in report.events if event.walk and report.place_of(event)[0] == "mul"}
    assert lines == {"return g * 2"}


def test_the_backward_pass_has_the_modules_of_the_forward_pass():
    with mt.device("meta"):
        model = mt.nn.Sequential(mt.nn.Linear(8, 16), mt.nn.GELU(), mt.nn.Linear(16, 4))
        x = mt.empty(3, 8)
    outside = profile(lambda: model(x).sum().backward())
    found = [(r.operator, r.module) for r in outside.storages if outside.events[r.born].walk]
    assert ("gelu_backward", "1") in found
    assert {module for operator, module in found if operator == "mm"} == {"0", "2"}
    assert [r.module for r in outside.storages if r.operator == "ones_like"] == [""]

    class Step(mt.nn.Module):  # a backward pass that runs inside a module
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, x):
            model.zero_grad()
            self.inner(x).sum().backward()

    inside = profile(Step(), x)
    found = [(r.operator, r.module) for r in inside.storages if inside.events[r.born].walk]
    assert {module for operator, module in found if operator == "mm"} == {"inner.0", "inner.2"}
    # A node from before the profile belongs to no module.
    loss = model(x).sum()
    model.zero_grad()
    assert {r.module for r in profile(loss.backward).storages} == {""}


def test_recomputed_modules_are_those_that_run_again():
    with mt.device("meta"):
        model, x = mt.nn.Sequential(mt.nn.Linear(8, 16), mt.nn.GELU()), mt.empty(3, 8)
    checkpoint = mt.utils.checkpoint.checkpoint
    report = profile(lambda: checkpoint(model, x, use_reentrant=False).sum().backward())
    found = [(r.operator, r.module) for r in report.storages if report.events[r.born].walk]
    assert ("nn.functional.gelu", "1") in found and ("gelu_backward", "1") in found and ("mm", "0") in found


def test_buffers_of_collectives_are_communication(tmp_path):
    dist = mt.distributed
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        from metatensor.distributed import _functional_collectives as collectives

        x = mt.empty(100, device="meta")

        def step():
            gathered = collectives.all_gather_tensor(x * 1, 0, [0])
            return (gathered * 2).sum()

        report = profile(step)
    finally:
        dist.destroy_process_group()
    assert [(r.operator, r.category) for r in report.storages] == [
        ("mul", "temporary"), ("clone", "communication"), ("mul", "temporary"), ("sum", "output")]  # fmt: skip
    assert report.at_peak()["communication"] == 400
