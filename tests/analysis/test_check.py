"""`check`: reports of models that fail, and budgets."""

import inspect
import json

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.analysis import check


@pytest.fixture(autouse=True)
def on_meta():
    with mt.device("meta"):
        yield


class Block(nn.Module):
    def __init__(self, width_in, width_out):
        super().__init__()
        self.proj = nn.Linear(width_in, width_out)

    def forward(self, x, scale=1.0):
        return self.proj(x) * scale


class Net(nn.Module):
    def __init__(self, *widths):
        super().__init__()
        self.layers = nn.ModuleList([Block(a, b) for a, b in zip(widths[:-1], widths[1:], strict=True)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def test_a_sound_model():
    result = check(Net(4, 8, 2), mt.empty(3, 4))
    assert result.ok
    assert bool(result)
    assert result.report.parameters == 40 + 18
    assert "ok: 58 parameters" in str(result)
    assert result.to_dict()["error"] is None


def test_a_mismatch_names_module_operator_shapes_and_line():
    broken = Net(4, 8, 2)
    broken.layers[1] = Block(7, 2)
    result = check(broken, mt.empty(3, 4))
    assert not result
    assert isinstance(result.error, RuntimeError)
    assert result.module == "layers.1.proj"
    assert result.module_kind == "Linear"
    assert result.module_inputs == ["float32[3,8]"]
    assert result.op == "nn.functional.linear"
    assert result.op_inputs[:2] == ["float32[3,8]", "float32[2,7]"]
    assert result.location == f"{__file__}:{inspect.getsourcelines(Block.forward)[1] + 1}"
    text = str(result)
    line = result.location.rpartition("/")[2]
    for part in ("Net: failed", "RuntimeError", "layers.1.proj (Linear)", "float32[3,8]", "linear", line):
        assert part in text
    error = result.to_dict()["error"]
    assert json.loads(json.dumps(error))["module"] == "layers.1.proj"


def test_an_error_outside_any_operator():
    class Picky(nn.Module):
        def forward(self, x):
            raise KeyError("no such thing")

    result = check(nn.Sequential(nn.Linear(4, 4), Picky()), mt.empty(1, 4))
    assert result.module == "1"
    assert result.module_kind == "Picky"
    assert result.op is None
    assert "KeyError" in str(result)


def test_wrong_arguments():
    result = check(Net(4, 4), mt.empty(1, 4), mt.empty(1))
    assert isinstance(result.error, TypeError)
    assert result.module == ""
    result = check(nn.Sequential(nn.Linear(4, 4)), "text")
    assert isinstance(result.error, TypeError)
    assert result.module == "0"


def test_an_error_that_the_model_handles_is_none():
    class Tries(nn.Module):
        def forward(self, x):
            try:
                return x @ x
            except RuntimeError:
                return x

    assert check(Tries(), mt.empty(2, 3)).ok


def test_an_error_after_a_handled_one_is_not_confused_with_it():
    class Tries(nn.Module):
        def forward(self, x):
            try:
                return x @ x
            except RuntimeError:
                pass
            raise ValueError("mine")

    result = check(Tries(), mt.empty(2, 3))
    assert isinstance(result.error, ValueError)
    assert result.op is None


def test_data_dependence_is_a_failure():
    class Asks(nn.Module):
        def forward(self, x):
            return x if x.sum().item() > 0 else -x

    result = check(Asks(), mt.empty(3))
    assert isinstance(result.error, mt.DataDependentError)


def test_a_function():
    def add(a, b):
        return a + b

    assert check(add, mt.empty(2), b=mt.empty(2)).ok
    result = check(add, mt.empty(2), mt.empty(3))
    assert result.module is None
    assert result.op == "add"
    assert result.location == f"{__file__}:{inspect.getsourcelines(add)[1] + 1}"


def test_budgets_are_inclusive():
    model, x = Net(4, 8, 2), mt.empty(3, 4)
    report = check(model, x).report
    exact = {"max_params": report.parameters, "max_bytes": report.total_bytes, "max_flops": report.flops}
    assert check(model, x, **exact).ok
    for name, limit in exact.items():
        result = check(model, x, **{**exact, name: limit - 1})
        assert not result.ok
        (overrun,) = result.overruns
        assert (overrun.limit, overrun.actual) == (limit - 1, limit)
        assert f"over the budget of {limit - 1:,}" in str(result)
        assert result.to_dict()["over_budget"] == [{"name": overrun.name, "limit": limit - 1, "actual": limit, "what": "budget"}]


def test_keyboard_interrupts_pass_through():
    class Stops(nn.Module):
        def forward(self, x):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check(Stops(), mt.empty(1))


def test_operators_without_a_flop_rule_in_a_training_step():
    @mt.op("test_check::scaled")
    def scaled(x: mt.Tensor) -> mt.Spec:
        return mt.Spec(x.shape, x.dtype)

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            return scaled(x) + self.layer(x)

    result = check(Scaled(), mt.empty(2, 4), training=True)
    assert result and "no FLOP rule for test_check::scaled, called 1 times: its FLOPs are missing" in str(result)
    assert [gap["op"] for gap in result.to_dict()["flops_gaps"]] == ["test_check::scaled"]
    assert "its FLOPs are missing" in str(result.training)
