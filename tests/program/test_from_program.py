"""Programs as graphs of ``fx``: what the graph has, and that it does what the callable does."""

import copy
import operator
import pickle
from dataclasses import dataclass

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.program import fx
from metatensor.program.fx.from_program import graph_module_of, graph_of, overload_of
from metatensor.torch_api import torch

pytest.importorskip("metatensor_cpu")


def rand(*shape, **options):
    return mt.rand(*shape, device="cpu", **options)


def convnet():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(), nn.Flatten(), nn.Linear(4 * 36, 5)).to("cpu")


def same(a, b):
    flat = [mt.utils._pytree.tree_leaves(one) for one in (a, b)]
    assert len(flat[0]) == len(flat[1])
    for x, y in zip(*flat):
        assert mt.equal(x, y) and x.stride() == y.stride() and x.requires_grad == y.requires_grad if isinstance(x, mt.Tensor) else x == y


@pytest.mark.parametrize("overloads", [False, True])
def test_values_random_numbers_and_gradients(overloads):
    model, x = convnet(), rand(2, 3, 8, 8)

    def fn(x, k=2):
        y = model(x)
        with mt.no_grad():
            z = y.softmax(-1) * k
        return {"y": y, "z": [z, k, rand(3), mt.bmm(rand(1, 2, 2), rand(1, 2, 2), out=mt.empty(1, 2, 2, device="cpu"))]}

    module = graph_module_of(mt.program.trace(fn, x, k=3), overloads=overloads)
    module.graph.lint()
    module.graph.eliminate_dead_code()
    for one in (module, copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        mean = model[1].running_mean.clone()
        mt.manual_seed(3)
        want = fn(x, k=3)
        model[1].running_mean.copy_(mean)
        mt.manual_seed(3)
        same(one(x, k=3), want)
    assert module.get_parameter("4.weight") is model[4].weight
    module(x, k=3)["y"].sum().backward()
    assert model[0].weight.grad is not None and mt.is_grad_enabled()


def test_targets_and_metadata():
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU()).to("cpu")
    program = mt.program.trace(model, rand(2, 4))
    assert [(node.op, node.target) for node in graph_of(program).nodes][3:] == [
        ("call_function", nn.functional.linear), ("call_function", nn.functional.relu), ("output", "output")]  # fmt: skip
    graph = graph_of(program, overloads=True, names=["input"])
    linear, relu = graph.find_nodes(op="call_function")
    assert graph.nodes[0].target == "input" and relu.target is torch.ops.aten.relu.default and relu.args == (linear,)
    assert linear.meta["val"].shape == (2, 3) and linear.meta["val"].is_meta and linear.meta["tensor_meta"].dtype is mt.float32
    assert linear.meta["module_path"] == "0" and "line" in linear.meta["stack_trace"]
    assert "torch.ops.aten.relu.default(linear)" in graph.python_code().src
    scope = dict(graph.python_code().globals)
    exec(graph.python_code().src, scope)
    x = rand(2, 4)
    same(scope["forward"](model, x), model(x))


def test_several_results_writes_and_constants():
    constant = rand(3)

    def fn(x):
        values, _ = x.sort(dim=1)
        y = values.clone()
        y[0] = constant
        y.add_(1)
        mt.mul(y, 2, out=y)
        return y

    module = graph_module_of(mt.program.trace(fn, rand(2, 3)))
    assert [node.args[1] for node in module.graph.find_nodes(op="call_function", target=operator.getitem)] == [0]
    module.graph.eliminate_dead_code()
    x = rand(2, 3)
    same(module(x), fn(x))
    assert not module.state_dict() and "constant0" in dict(module.named_buffers())


@dataclass
class Output:
    logits: mt.Tensor
    steps: int


def test_objects_as_results_and_nested_arguments():
    module = graph_module_of(mt.program.trace(lambda x, scale: Output(x["a"][0] * scale, 3), {"a": [rand(2), 1]}, scale=rand(1)))
    a, scale = rand(2), rand(1)
    got = module({"a": [a, 1]}, scale=scale)
    assert isinstance(got, Output) and got.steps == 3 and mt.equal(got.logits, a * scale)
    with pytest.raises(TypeError, match="'a'"):
        module({"b": a}, scale=scale)
    with pytest.raises(TypeError, match="expected a Tensor"):
        module({"a": [3, 1]}, scale=scale)


def test_a_training_step():
    model, x = nn.Linear(4, 2).to("cpu"), rand(3, 4)
    other = copy.deepcopy(model)

    def step(model):
        optimizer = mt.optim.SGD(model.parameters(), lr=0.1)

        def run(x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return run

    module = graph_module_of(mt.program.trace(step(model), x))
    eager = step(other)
    eager(x)
    for _ in range(2):
        same(module(x), eager(x))
    same(list(model.parameters()), list(other.parameters()))
    assert mt.equal(model.weight.grad, other.weight.grad) and mt.is_grad_enabled()


def test_replaced_buffers():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", mt.zeros(1, device="cpu"))

        def forward(self, x):
            self.n = self.n + 1
            return x * self.n

    model = Counter()
    module = graph_module_of(mt.program.trace(model, rand(2)))
    before = module.n.clone()
    module(rand(2))
    assert mt.equal(module.n, before + 1)


def test_repeated_random_numbers():
    layer = nn.Linear(4, 4).to("cpu")

    def fn(x):
        y = mt.utils.checkpoint.checkpoint(lambda x: nn.functional.dropout(layer(x)), x, use_reentrant=False)
        y.sum().backward()
        return y.detach(), layer.weight.grad

    x = rand(2, 4)
    module = graph_module_of(mt.program.trace(fn, x), overloads=True)
    layer.weight.grad = None
    mt.manual_seed(3)
    want = fn(x)
    mt.manual_seed(3)
    same(module(x), want)


def test_an_error_restores_the_grad_mode():
    def fn(x):
        with mt.no_grad():
            y = x.view(6)
        return y * x.sum()

    module = graph_module_of(mt.program.trace(fn, rand(2, 3)))
    with pytest.raises(RuntimeError):
        module(rand(5))
    assert mt.is_grad_enabled()


def test_a_program_without_tensors_for_its_parameters():
    program = mt.program.trace(nn.Linear(2, 2), mt.empty(1, 2))
    with pytest.raises(RuntimeError, match="weight"):
        graph_module_of(program.replace(tensors={}))


def test_transforms():
    module = graph_module_of(mt.program.trace(lambda x: mt.relu(x) + 1, rand(3)))
    for node in module.graph.find_nodes(op="call_function", target=mt.relu):
        node.target = mt.sigmoid
    module.recompile()
    x = rand(3)
    same(module(x), mt.sigmoid(x) + 1)
    assert isinstance(module, fx.GraphModule)


def test_overloads():
    x = mt.program.trace(lambda x: x + 1, rand(3)).inputs[0]
    assert overload_of(mt.add, (x, 1), {}) == (torch.ops.aten.add.Tensor, (x, 1), {})
    assert overload_of(mt.add_, (x, x), {"alpha": 2}) == (torch.ops.aten.add_.Tensor, (x, x), {"alpha": 2})
    assert overload_of(mt.add, (x, x), {"out": x}) == (torch.ops.aten.add.out, (x, x), {"out": x})
    assert overload_of(mt.sum, (x,), {"dim": (0,)})[0] is torch.ops.aten.sum.dim_IntList
