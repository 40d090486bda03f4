"""`estimate`: parameters, ties, FLOPs by module, shapes, and absence of side effects."""

import json

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.analysis import estimate
from metatensor.analysis.inventory import Inventory


def meta(*shape, dtype=mt.float32):
    return mt.empty(*shape, dtype=dtype, device="meta")


@pytest.fixture(autouse=True)
def on_meta():
    with mt.device("meta"):
        yield


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 8)
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])
        self.head = nn.Linear(8, 100, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("scale", mt.ones(8))

    def forward(self, tokens, factor=None):
        x = self.embed(tokens) * self.scale
        for layer in self.layers:
            x = layer(x)
        return {"logits": self.head(x), "states": [x]}


def test_totals():
    report = estimate(Tied(), meta(2, 5, dtype=mt.int64))
    assert report.parameters == 800 + 3 * 72
    assert report.parameter_bytes == 4 * report.parameters
    assert (report.buffers, report.buffer_bytes) == (8, 32)
    assert report.flops == 2 * 10 * (3 * 64 + 800)
    assert report.flops_by_op == {"nn.functional.linear": report.flops}
    assert report.output == {"logits": "float32[2,5,100]", "states": ["float32[2,5,8]"]}
    assert report.inputs == ["int64[2,5]"]
    assert report.input_bytes == 80
    assert report.model == "Tied"
    assert report.gaps == []
    assert "mul" in report.uncounted
    assert report.ops >= 6


def test_rows():
    report = estimate(Tied(), meta(2, 5, dtype=mt.int64))
    assert [row.path for row in report.modules] == [
        "", "embed", "layers", "layers.0", "layers.1", "layers.2", "head",
    ]  # fmt: skip
    layers = report.module("layers")
    assert (layers.kind, layers.calls, layers.output) == ("ModuleList", 0, None)
    assert layers.parameters == 3 * 72
    assert layers.flops == 3 * 2 * 10 * 64
    first = report.module("layers.0")
    assert (first.parameters, first.own_parameters, first.flops, first.calls) == (72, 72, 2 * 10 * 64, 1)
    assert first.output == "float32[2,5,8]"
    assert report.module("").own_parameters == 0
    with pytest.raises(KeyError, match="no module .*; there are ''"):
        report.module("nothing")


def test_shared_parameters_are_listed_and_counted_once():
    report = estimate(Tied(), meta(2, 5, dtype=mt.int64))
    (group,) = report.shared
    assert group.names == ("embed.weight", "head.weight")
    assert group.bytes == 3200
    assert report.module("head").parameters == 800


def test_parts_of_one_storage_count_as_their_union():
    class Split(nn.Module):
        def __init__(self):
            super().__init__()
            whole = mt.empty(30, 4)
            self.q = nn.Parameter(whole[:10])
            self.k = nn.Parameter(whole[10:20])
            self.qk = nn.Parameter(whole[:20])

        def forward(self, x):
            return x @ self.q.T

    report = estimate(Split(), meta(2, 4))
    assert report.parameters == 80
    assert report.parameter_bytes == 320
    assert [set(group.names) for group in report.shared] == [{"q", "k", "qk"}]


def test_a_module_under_two_names():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Sequential(nn.Linear(4, 4))
            self.b = nn.Sequential(self.a[0], nn.ReLU())

        def forward(self, x):
            return self.b(self.b(self.a(x)))

    report = estimate(Twice(), meta(1, 4))
    assert report.parameters == 20
    assert report.module("b").parameters == 20
    assert (report.module("a.0").calls, report.module("b.0").calls) == (1, 2)
    assert report.module("a").flops == 32
    assert report.module("b").flops == 64
    assert report.flops == 96


def test_a_module_called_again_and_again():
    layer = nn.Linear(4, 4)
    report = estimate(nn.Sequential(layer, layer, layer), meta(1, 4))
    assert report.flops == 3 * 32
    assert report.parameters == 20


def test_modules_that_are_no_part_of_the_model_count_for_their_caller():
    class Hidden(nn.Module):
        def __init__(self):
            super().__init__()
            self.others = [nn.Linear(4, 4)]  # not registered, because it is a plain list
            self.inner = nn.Linear(4, 4)

        def forward(self, x):
            return self.others[0](self.inner(x))

    report = estimate(Hidden(), meta(1, 4))
    assert report.flops == 64
    assert report.module("inner").flops == 32
    assert report.parameters == 20


def test_a_plain_function():
    def product(a, b, *, times):
        return (a @ b) * times

    report = estimate(product, meta(3, 4), meta(4, 5), times=2)
    assert report.model.endswith("product")
    assert (report.parameters, report.flops) == (0, 2 * 3 * 4 * 5)
    assert report.output == "float32[3,5]"
    assert report.inputs == ["float32[3,4]", "float32[4,5]", {"times": 2}]


def test_the_model_is_left_as_it_was():
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    model[0].eval()
    seen = []
    model[1].register_forward_hook(lambda module, args, out: seen.append((module.training, mt.is_grad_enabled())))
    estimate(model, meta(1, 4))
    assert seen == [(False, False)]
    assert [module.training for module in model.modules()] == [True, False, True]
    assert mt.is_grad_enabled()
    with pytest.raises(RuntimeError):
        estimate(model, meta(1, 5))
    assert [module.training for module in model.modules()] == [True, False, True]
    assert mt.is_grad_enabled()
    model(meta(1, 4))
    assert len(seen) == 2  # no hook of the recorder is left


def test_what_the_forward_makes_is_on_the_models_device():
    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(10, 4)

        def forward(self, x):
            return x + self.embed(mt.arange(x.shape[0]))

    model = Positions()
    previous = mt.get_default_device()
    with mt.device("cpu"):
        assert estimate(model, mt.empty(3, 4, device="meta")).output == "float32[3,4]"
    assert mt.get_default_device() == previous


def test_errors_are_the_models_own():
    with pytest.raises(RuntimeError) as caught:
        estimate(nn.Sequential(nn.Linear(4, 4)), meta(1, 5))
    assert caught.value.module_path == "0"


def test_progress():
    from metatensor.analysis.estimate import trace

    seen = []
    trace(Tied(), (meta(1, 2, dtype=mt.int64),), {}, lambda done, modules, path: seen.append((done, modules, path)))
    assert [path for _, _, path in seen] == ["embed", "layers.0", "layers.1", "layers.2", "head", ""]
    assert [done for done, _, _ in seen] == [1, 2, 3, 4, 5, 6]
    assert {modules for _, modules, _ in seen} == {7}


def test_other_threads_are_not_recorded():
    import threading

    other = nn.Linear(4, 4)

    class Waits(nn.Module):
        def forward(self, x):
            thread = threading.Thread(target=lambda: other(mt.empty(1, 4, device="meta")))
            thread.start()
            thread.join()
            return x + 1

    report = estimate(Waits(), meta(1, 4))
    assert (report.ops, report.flops) == (1, 0)


def test_own_sizes_add_up():
    report = estimate(Tied(), meta(2, 5, dtype=mt.int64))
    assert sum(row.own_parameter_bytes for row in report.modules) == report.parameter_bytes
    assert report.module("embed").own_parameter_bytes == report.module("embed").parameter_bytes == 3200
    assert report.module("head").own_parameter_bytes == report.module("head").parameter_bytes - 3200

    class Views(mt.nn.Module):  # buffers that overlap
        def __init__(self):
            super().__init__()
            whole = mt.empty(10, device="meta")
            self.inner = mt.nn.Module()
            self.inner.register_buffer("first", whole[:6])
            self.register_buffer("last", whole[4:])

    rows = Inventory(Views()).rows
    assert [row.own_buffer_bytes for row in rows] == [24, 16] and rows[0].buffer_bytes == 40


def test_json():
    report = estimate(Tied(), meta(2, 5, dtype=mt.int64))
    found = json.loads(report.to_json())
    assert found["parameters"] == report.parameters
    assert found["total_bytes"] == report.total_bytes
    assert found["peak_activation"]["bytes"] == report.peak.bytes
    assert found["shared"] == [{"names": ["embed.weight", "head.weight"], "bytes": 3200}]
    assert found["modules"][3] == {
        "path": "layers.0", "kind": "Linear", "depth": 2, "parameters": 72, "own_parameters": 72, "buffers": 0,
        "parameter_bytes": 288, "buffer_bytes": 0, "own_parameter_bytes": 288, "own_buffer_bytes": 0, "flops": 1280, "calls": 1,
        "output": "float32[2,5,8]",
        "peak_bytes": None, "made_bytes": None, "seconds": None,
    }  # fmt: skip
    assert found["excluded"]


def test_gaps_are_listed_never_zero_in_silence():
    @mt.op("estimate_test::mystery")
    def mystery(x: mt.Tensor) -> mt.Spec:
        return mt.Spec(x.shape, x.dtype)

    class Uses(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(4, 4))

        def forward(self, x):
            return mystery(self.inner(mystery(x)))

    report = estimate(Uses(), meta(1, 4))
    (gap,) = report.gaps
    assert gap.op == "estimate_test::mystery"
    assert gap.calls == 2
    assert gap.modules == ("",)
    assert "mystery has no FLOP rule" in str(report)
    assert report.to_dict()["flops_gaps"][0]["calls"] == 2


def test_memory_of_empty_and_expanded_parameters():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.none = nn.Parameter(mt.empty(0, 5))
            self.wide = nn.Parameter(mt.empty(1, 5).expand(10, 5))
            self.register_parameter("absent", None)

        def forward(self, x):
            return x + self.wide

    report = estimate(Odd(), meta(10, 5))
    assert report.parameters == 50
    assert report.parameter_bytes == 20
