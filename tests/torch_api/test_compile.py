"""``torch.compile`` with a function as its backend."""

import copy

import pytest

import metatensor as mt
from metatensor.torch_api import torch

pytest.importorskip("metatensor_cpu")
nn = torch.nn


@pytest.fixture(autouse=True)
def on_cpu():
    with mt.device("cpu"):
        yield


class Backend:
    """Keeps the graphs that it gets, and runs them."""

    def __init__(self):
        self.graphs, self.inputs, self.options = [], [], []

    def __call__(self, module, inputs, **options):
        assert isinstance(module, torch.fx.GraphModule) and len(module.graph.find_nodes(op="placeholder")) == len(inputs)
        self.graphs.append(module)
        self.inputs.append(inputs)
        self.options.append(options)
        return module.forward


def test_a_module():
    backend, model = Backend(), nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.BatchNorm1d(4))
    compiled, other = torch.compile(model, backend=backend), copy.deepcopy(model)
    assert isinstance(compiled, torch._dynamo.OptimizedModule) and compiled._orig_mod is model and not backend.graphs
    assert list(compiled.state_dict()) == [f"_orig_mod.{name}" for name in model.state_dict()]
    for rows in (3, 3, 5):
        x = mt.rand(rows, 4)
        mt.manual_seed(1)
        got = compiled(x)
        mt.manual_seed(1)
        want = other(x)
        assert mt.equal(got, want)
        got.sum().backward()
        want.sum().backward()
    assert len(backend.graphs) == 2 and backend.inputs[0][0] is model[0].weight and backend.inputs[0][-1].shape == (3, 4)
    assert mt.equal(model[2].running_mean, other[2].running_mean) and model[2].num_batches_tracked == 3
    assert mt.equal(model[0].weight.grad, other[0].weight.grad)
    assert compiled.eval() is compiled and not model.training and mt.equal(compiled(x), other.eval()(x)) and len(backend.graphs) == 3
    assert compiled.get_submodule("_orig_mod.0") is model[0]
    again = copy.deepcopy(compiled)
    assert mt.equal(again(x), other(x)) and again._orig_mod is not model


def test_a_function():
    backend = Backend()

    @torch.compile(backend=backend, mode="max-autotune", options={"a": 1})
    def function(x, y, k=2):
        return {"o": (x + y["k"] * k, 5)}

    for k in (2, 3, 2):
        assert function(mt.ones(2), {"k": mt.ones(1)}, k=k)["o"][0].tolist() == [1 + k, 1 + k]
    assert function(mt.ones(2), {"k": mt.ones(1)})["o"][1] == 5 and function.__name__ == "function"
    assert len(backend.graphs) == 3 and backend.options[0] == {"mode": "max-autotune", "options": {"a": 1}}
    targets = [node.target for node in backend.graphs[0].graph.find_nodes(op="call_function")]
    assert targets == [torch.ops.aten.mul.Tensor, torch.ops.aten.add.Tensor]


class Cache:
    def __init__(self):
        self.key, self.steps = mt.zeros(2), 3


def test_settings_of_the_caller_have_graphs_of_their_own():
    backend, model, x = Backend(), nn.Linear(4, 4), mt.rand(3, 4)
    compiled = torch.compile(model, backend=backend)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert compiled(x).dtype is torch.bfloat16
    assert compiled(x).dtype is torch.float32 and len(backend.graphs) == 2
    with torch.autocast("cpu", dtype=torch.float16):
        assert compiled(x).dtype is torch.float16
    with torch.autocast("cpu", enabled=False):
        assert compiled(x).dtype is torch.float32 and len(backend.graphs) == 3
    made = torch.compile(lambda x: x + torch.arange(3.0), backend=backend)
    y = torch.arange(3)
    assert made(y).dtype is torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert made(y).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert made(y).dtype is torch.float32 and len(backend.graphs) == 5


def test_objects_with_tensors_and_the_limit():
    backend = Backend()
    made = torch.compile(lambda x, cache: x + cache.key * cache.steps, backend=backend)
    for _ in range(3):
        assert made(mt.ones(2), Cache()).tolist() == [1, 1]
    assert len(backend.graphs) == 1
    with torch._dynamo.config.patch(recompile_limit=2):
        for rows in range(1, 5):
            assert made(mt.ones(rows, 2), Cache()).shape == (rows, 2)
    assert len(backend.graphs) == 2


def test_what_the_backend_returns_runs():
    def backend(module, inputs):
        for node in module.graph.find_nodes(op="call_function", target=torch.ops.aten.relu.default):
            node.target = torch.ops.aten.sigmoid.default
        module.recompile()
        return module

    x = mt.rand(3)
    assert mt.equal(torch.compile(lambda x: x.relu() + 1, backend=backend)(x), x.sigmoid() + 1)
    with pytest.raises(RuntimeError, match="must return a function"):
        torch.compile(lambda x: x + 1, backend=lambda module, inputs: 3)(x)


def test_a_capture_changes_nothing():
    backend = Backend()
    weight = mt.ones(2, requires_grad=True)

    def function(x):
        x.add_(1)
        return x * weight

    x = mt.zeros(2)
    made = torch.compile(function, backend=backend)
    result = made(x)
    assert x.tolist() == [1, 1] and result.tolist() == [1, 1] and backend.inputs[0][0] is weight
    result.sum().backward()
    assert weight.grad.tolist() == [1, 1]
    with mt.no_grad():
        assert not made(x).requires_grad


def test_values_that_decide():
    backend = Backend()

    def function(x):
        return x * 2 if x.sum() > 0 else x

    made = torch.compile(function, backend=backend)
    assert made(mt.ones(2)).tolist() == [2, 2] and made(-mt.ones(2)).tolist() == [-1, -1] and not backend.graphs
    with pytest.raises(RuntimeError, match="item of the result of gt"):
        torch.compile(function, backend=backend, fullgraph=True)(mt.ones(2))


def test_is_compiling():
    seen = []

    def function(x):
        seen.append((torch.compiler.is_compiling(), torch.compiler.is_exporting()))
        return x + 1

    torch.compile(function, backend=Backend())(mt.ones(1))
    module = nn.Identity()
    module.forward = function
    torch.export.export(module, (mt.ones(1),))
    function(mt.ones(1))
    assert seen == [(True, False), (True, True), (False, False)]


def test_other_backends_return_the_function():
    def function(x):
        return x

    assert torch.compile(function, backend="inductor") is function and torch.compile(function, backend=Backend(), disable=True) is function
    with pytest.raises(RuntimeError, match="callable"):
        torch.compile(3, backend=Backend())


def test_marks_of_dimensions():
    from metatensor.torch_api.torch import _dynamo

    x = mt.ones(3, 4, device="cpu")
    _dynamo.mark_dynamic(x, 0, min=2, max=8)
    _dynamo.mark_dynamic(x, [1])
    assert x._dynamo_dynamic_indices == {0, 1}
    for call, error in ((lambda: _dynamo.mark_dynamic(x, 5), IndexError), (lambda: _dynamo.mark_dynamic(x, "0"), AssertionError),
                        (lambda: _dynamo.mark_dynamic(x, 0, min=5), ValueError), (lambda: _dynamo.mark_dynamic(x, 0, other=1), TypeError),
                        (lambda: _dynamo.mark_dynamic(x, 0, specialize_on=[len]), NotImplementedError)):  # fmt: skip
        with pytest.raises(error):
            call()
