"""`make_fx`: graphs of functions by running them."""

import pytest

import metatensor as mt
from metatensor.program.fx.experimental.proxy_tensor import make_fx
from metatensor.torch_api import torch

pytest.importorskip("metatensor_cpu")
aten = torch.ops.aten


def ones(*shape, **options):
    return mt.ones(*shape, device="cpu", **options)


def targets(module):
    return [node.target for node in module.graph.nodes if node.op == "call_function"]


@pytest.mark.torch
def test_graphs_are_those_of_pytorch():
    import torch as theirs
    from torch.fx.experimental.proxy_tensor import make_fx as their_make_fx

    def graph(torch, make):
        def function(x, y, k):
            z = (x["a"].relu() + y * k).view(3, 2).t()
            values, places = z.sort(dim=0)
            values = values.clone().mul_(2) + places
            return {"o": torch.cat([values, z]).sum((0,)), "p": [torch.where(z > 1, z, y.mean()), torch.ones(2, device="cpu")]}

        made = make(function)({"a": torch.ones(6, device="cpu")}, torch.ones(6, device="cpu"), 3)
        return [(str(node.target), [str(a) for a in node.args]) for node in made.graph.nodes if node.op == "call_function"]

    want = graph(theirs, their_make_fx)
    got = graph(torch, make_fx)
    assert [target for target, _ in got] == [target for target, _ in want]


def test_a_function():
    made = make_fx(lambda x, y, k: {"o": x["a"].relu() + y * k})({"a": -ones(2)}, ones(2), 3)
    assert targets(made) == [aten.relu.default, aten.mul.Tensor, aten.add.Tensor]
    assert [node.target for node in made.graph.find_nodes(op="placeholder")] == ["x_1", "y_1"]
    assert made({"a": ones(2)}, ones(2), 3)["o"].tolist() == [4, 4] and made({"a": ones(5)}, ones(5), 3)["o"].shape == (5,)
    assert "torch.ops.aten.relu.default(x_1)" in made.code


def test_gradients_inside():
    weight = ones(3, requires_grad=True)

    def loss(x):
        (gradient,) = mt.autograd.grad((weight * x).square().sum(), weight)
        return gradient

    made = make_fx(loss)(ones(3))
    assert len(targets(made)) > 3 and made(2 * ones(3)).tolist() == [8, 8, 8]


def test_a_decomposition_table():
    table = {aten.silu.default: lambda x: x * x.sigmoid()}
    made = make_fx(lambda x: torch.nn.functional.silu(x) * 2, decomposition_table=table)(ones(3))
    assert targets(made) == [aten.sigmoid.default, aten.mul.Tensor, aten.mul.Tensor]
    x = mt.rand(3, device="cpu")
    assert mt.allclose(made(x), torch.nn.functional.silu(x) * 2)


def test_modules_keep_their_parameters():
    model = torch.nn.Linear(3, 2).to("cpu")
    made = make_fx(model, tracing_mode="fake")(ones(1, 3))
    assert made.weight is model.weight and mt.equal(made(ones(1, 3)), model(ones(1, 3)))


def test_what_is_refused():
    with pytest.raises(RuntimeError, match="item of the result of gt"):
        make_fx(lambda x: x * 2 if x.sum() > 0 else x)(ones(2))
    with pytest.raises(ValueError, match="tracing_mode"):
        make_fx(lambda x: x, tracing_mode="other")
