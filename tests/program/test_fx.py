"""Tracing: graphs of modules and functions, compared with PyTorch's, and their results."""

import copy
import math
import pickle
from operator import concat
from typing import NamedTuple

import pytest

import metatensor as mt
from metatensor.torch_api import torch as ours
from metatensor.torch_api.torch import fx
from metatensor.torch_api.torch.testing import assert_close


def network(torch):
    """Return a network of a library with everything that tracing must handle."""
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.bn = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
            self.scale = nn.Parameter(torch.ones(8, 1, 1))
            self.register_buffer("shift", torch.ones(1))
            self.rows = nn.ParameterList([nn.Parameter(torch.ones(1)) for _ in range(2)])

        def forward(self, x):
            batch, _, height, width = x.shape
            y = torch.sigmoid(self.bn(self.conv(x))) * self.scale + self.shift
            y += 1
            y = -y + 1 - (2 - y) * 3 + self.scale * y + self.scale.abs().sum() + self.rows[0] + torch.ones(1)
            y = y + y.max() + y.abs() + functional.gelu(y) + y.sum((1, 2), keepdim=True)[:, 0:1]
            y = torch.flatten(y.view(batch, 8, -1), 1)
            torch._assert(height == width, "square")
            return {"y": y, "z": (y.mean(), y.T)}

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Block()
            self.head = nn.Sequential(nn.Linear(8 * 16, 4), nn.Dropout(0.1), nn.ReLU())

        def forward(self, x, k: int = 2, *, m=3):
            return self.head(self.block(x)["y"]) * k + m

    return Net().eval()


@pytest.mark.torch
def test_graphs_are_those_of_pytorch():
    import torch
    import torch.fx

    def text(graph):
        return [(node.name, node.op, node.target if isinstance(node.target, str) else node.target.__name__, str(node.args),
                 str(node.kwargs), len(node.users)) for node in graph.nodes]  # fmt: skip

    assert text(fx.symbolic_trace(network(ours)).graph) == text(torch.fx.symbolic_trace(network(torch)).graph)


def test_a_traced_module_computes_the_same():
    net = network(ours)
    classes = [type(module) for module in net.modules()]
    traced = fx.symbolic_trace(net)
    assert [type(module) for module in net.modules()] == classes and isinstance(traced, fx.GraphModule)
    assert type(traced).__name__ == "Net"
    traced.graph.lint()
    x = mt.randn(2, 3, 4, 4)
    for made in (traced, copy.deepcopy(traced), pickle.loads(pickle.dumps(traced)), fx.Transformer(traced).transform()):
        assert_close(made(x), net(x))
    assert_close(traced(x, k=3, m=1), net(x, k=3, m=1))
    assert {name for name, _ in traced.named_parameters()} <= {name for name, _ in net.named_parameters()}
    assert traced.block.conv is net.block.conv
    with pytest.raises(TypeError):
        traced()


def test_the_code_is_python():
    traced = fx.symbolic_trace(network(ours))
    source, names = traced.graph.python_code()
    assert traced.code == source and "    block_bn = self.block.bn(block_conv);  block_conv = None\n" in source
    assert "    getitem_4 = sum_2[:, 0:1];" in source and '    head_0 = getattr(self.head, "0")(flatten);' in source
    exec(source, names)
    x = mt.randn(2, 3, 4, 4)
    assert_close(names["forward"](traced, x, 3, m=1), traced(x, 3, m=1))


class Pair(NamedTuple):
    first: object
    second: object


def test_the_code_of_all_kinds_of_values():
    def function(x, *others, lambda_=2, **options):
        inner = {"a": [x.to(mt.float64), x.clamp(-1, math.inf)], "b": Pair(-x[..., 1:, None], 2 - x)}
        return inner, ours.nn.functional.pad(x, (0, 1)), x.new_zeros(mt.Size([2])), x ** -1, (-1) ** x, x.sum((0,)), x * 1j, None

    traced = fx.symbolic_trace(function)
    source, names = traced.graph.python_code("module")
    assert "x.clamp(-1, float('inf'))" in source and "x ** (-1)" in source and "(-1) ** x" in source and "x.sum((0,))" in source
    exec(source, names)
    x = mt.tensor([[1.0, 2.0]])
    assert_close(names["forward"](traced, x), function(x))
    graph = fx.Graph()
    operator = graph.placeholder("operator")  # the name of the module of `concat`
    graph.output(graph.call_function(concat, (operator, (1,))))
    source, names = graph.python_code()
    exec(source, names)
    assert names["forward"](None, (0,)) == (0, 1)


def test_on_the_meta_device():
    with mt.device("meta"):
        traced = fx.symbolic_trace(network(ours))
    assert traced(mt.empty(5, 3, 4, 4, device="meta")).shape == (5, 4)


@fx.wrap
def halves(x, n):
    return x / 2 if n > 1 else x


def test_wrapped_functions_and_numbers():
    def function(x):
        n = x.size(0)
        y = halves(x, n) + ours.zeros(n, 1) + math.sqrt(x.shape[1])
        return mt.nn.functional.pad(y, (0, x.shape[1])), ours.reshape(y, (n, -1))

    traced = fx.symbolic_trace(function)
    names = [node.name for node in traced.graph.nodes]
    assert "halves" in names and "zeros" in names and "sqrt" in names and "pad" in names
    x = mt.randn(2, 3)
    assert_close(traced(x), function(x))


@pytest.mark.parametrize("function", [
    lambda x: x if x.sum() > 0 else -x, lambda x: list(x), lambda x: 1 in x, lambda x: max(*x), lambda x: not x,
])  # fmt: skip
def test_values_are_not_known(function):
    with pytest.raises(fx.proxy.TraceError, match="^fx: "):
        fx.symbolic_trace(function)


@pytest.mark.parametrize("function", [lambda x: range(x), lambda x: float(x), lambda x: int(x), lambda x: [1][x]])
def test_a_proxy_is_no_number(function):
    with pytest.raises(TypeError):
        fx.symbolic_trace(function)


def test_after_an_error_all_is_as_before():
    relu = mt.nn.functional.relu

    class Net(mt.nn.Module):
        def forward(self, x):
            raise KeyError("oh")

    net = Net()
    with pytest.raises(KeyError):
        fx.symbolic_trace(net)
    assert type(net) is Net and mt.nn.functional.relu is relu and not fx._symbolic_trace.is_fx_tracing()


def test_arguments():
    traced = fx.symbolic_trace(lambda a, *rest, b=2, **more: a + rest[0] + b + more["c"])
    assert traced(1, 3, 10, c=4) == 18  # as in PyTorch, named arguments come before *rest
    traced = fx.symbolic_trace(lambda x, flag: x + 1 if flag else x, concrete_args={"flag": True})
    assert traced(mt.ones(1), True).tolist() == [2]
    with pytest.raises(AssertionError, match="flag has been traced with the value True"):
        traced(mt.ones(1), False)


def test_leaves_are_what_a_tracer_says():
    class Whole(fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return module_qualified_name == "block" or super().is_leaf_module(m, module_qualified_name)

    net = network(ours)
    graph = Whole().trace(net)
    assert [node.target for node in graph.nodes if node.op == "call_module"] == ["block", "head.0", "head.1", "head.2"]
    assert_close(fx.GraphModule(net, graph)(x := mt.randn(1, 3, 4, 4)), net(x))


def test_changing_a_graph():
    traced = fx.symbolic_trace(lambda x: mt.relu(x) + 1)
    (relu,) = [node for node in traced.graph.nodes if node.name == "relu"]
    with traced.graph.inserting_after(relu):
        new = traced.graph.call_function(mt.neg, (relu,))
    relu.replace_all_uses_with(new, lambda user: user is not new)
    traced.graph.lint()
    assert traced(mt.ones(2)).tolist() == [2, 2]
    traced.recompile()
    assert traced(mt.ones(2)).tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="is used by"):
        traced.graph.erase_node(relu)
    new.replace_all_uses_with(relu)
    assert traced.graph.eliminate_dead_code() and new not in traced.graph.nodes
    traced.recompile()
    assert traced(mt.ones(2)).tolist() == [2, 2]
    assert traced.graph.find_nodes(op="placeholder")[0].name == "x" and traced.graph.output_node().op == "output"


def test_a_graph_by_hand():
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_method("relu", (graph.call_module("lin", (x,)),)))
    linear = mt.nn.Linear(2, 3)
    module = fx.GraphModule({"lin": linear}, graph)
    assert_close(module(x := mt.randn(4, 2)), linear(x).relu())
    assert "%relu" in str(graph) and module.code.splitlines() == [
        "def forward(self, x):", "    lin = self.lin(x);  x = None", "    relu = lin.relu();  lin = None", "    return relu"]  # fmt: skip
    module.add_submodule("more.act", mt.nn.ReLU())
    module.delete_all_unused_submodules()
    assert [name for name, _ in module.named_children()] == ["lin"]


def test_interpreters():
    class Counting(fx.Interpreter):
        calls = 0

        def call_function(self, target, args, kwargs):
            self.calls += 1
            return super().call_function(target, args, kwargs)

    counting = Counting(fx.symbolic_trace(lambda x: mt.relu(x) + 1))
    assert counting.run(mt.ones(1)).tolist() == [2] and counting.calls == 2
    traced = fx.symbolic_trace(lambda x: mt.split(x, 2))
    fx.passes.shape_prop.ShapeProp(traced).propagate(mt.empty(4, 3, device="meta"))
    shapes = [tuple(one.shape) for one in traced.graph.output_node().meta["tensor_meta"]]
    assert shapes == [(2, 3), (2, 3)]


def test_questions_about_symbols():
    from metatensor.program.fx.experimental import symbolic_shapes

    assert symbolic_shapes.guard_or_false(1) and not symbolic_shapes.guard_or_true(0) and symbolic_shapes.free_symbols(3) == set()


def test_arguments_of_nodes_cannot_be_modified_in_place():
    class Joined(mt.nn.Module):
        def forward(self, x):
            return mt.cat([x, x + 1], dim=0)

    node = next(node for node in fx.symbolic_trace(Joined()).graph.nodes if node.name == "cat")
    assert type(node.args[0]) is fx.immutable_collections.immutable_list and len(node.args[0]) == 2
    with pytest.raises(TypeError, match="assign node.args"):
        node.args[0].append(node)
    with pytest.raises(TypeError, match="assign node.args"):
        node.kwargs["dim"] = 1
    node.args = ([node.args[0][0]],)
    assert [used.name for used in node.all_input_nodes] == ["x"]


@pytest.mark.parametrize("made", [[1, [2, 3]], {"a": [1], "b": {"c": 2}}])
def test_immutable_collections_behave_as_what_they_extend(made):
    from metatensor.program.fx.immutable_collections import frozen

    kept = frozen(made)
    assert kept == made and repr(kept) == repr(made) and type(kept.copy()) is type(made)
    for again in (pickle.loads(pickle.dumps(kept)), copy.deepcopy(kept)):
        assert again == kept and type(again) is type(kept) and hash(again) == hash(kept)


def test_a_tracer_may_refuse_operators_that_work_in_place():
    class Careful(fx.Tracer):
        check_mutable_operations = True

    assert fx.Tracer().check_mutable_operations is False
    assert len(Careful().trace(lambda x: ours.relu(x).add_(1)).nodes) == 4
    for in_place in (lambda x: ours.relu_(x), lambda x: ours.nn.functional.relu_(x)):
        with pytest.raises(RuntimeError, match="in place"):
            Careful().trace(in_place)
        assert len(fx.Tracer().trace(in_place).nodes) == 3
