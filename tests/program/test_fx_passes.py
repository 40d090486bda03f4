"""What is not compared with PyTorch: folders, order of nodes, patterns of modules, quantisation by hand."""

import copy
import importlib
import sys

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.program import fx
from metatensor.program.fx.passes import operator_support, param_fetch, splitter_base, tools_common
from metatensor.program.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from metatensor.program.fx.passes.shape_prop import ShapeProp
from metatensor.program.fx.passes.split_module import split_module
from metatensor.program.fx.passes.split_utils import split_by_tags
from metatensor.program.fx.passes.utils.common import compare_graphs
from metatensor.program.fx.passes.utils.source_matcher_utils import get_source_partitions

pytest.importorskip("metatensor_cpu")


def rand(*shape):
    return mt.rand(*shape, device="cpu")


def convnet():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(), nn.Flatten(), nn.Linear(144, 5)).eval().to("cpu")


def test_a_folder(tmp_path, monkeypatch):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = convnet()
            self.scale = nn.Parameter(rand(5))
            self.register_buffer("shift", rand(5))

        def forward(self, x):
            return mt.nn.functional.relu(self.body(x)) * self.scale + self.shift + mt.ones(5, device="cpu", dtype=mt.float32)

    traced = fx.symbolic_trace(Net().eval())
    traced.to_folder(tmp_path / "written_model", "Written")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("written_model")
    try:
        made = module.Written().eval()
        x = rand(2, 3, 8, 8)
        assert mt.equal(made(x), traced(x)) and sorted(made.state_dict()) == sorted(traced.state_dict())
    finally:
        for name in [name for name in sys.modules if name.startswith("written_model")]:
            del sys.modules[name]
    with pytest.raises(ValueError, match="cannot be the name"):
        traced.to_folder(tmp_path / "other", "1x")


def test_fusing_keeps_values():
    from metatensor.program.fx.experimental.optimization import fuse, optimize_for_inference

    model, x = convnet(), rand(2, 3, 8, 8)
    model[1].running_mean.copy_(rand(4))
    model[1].running_var.copy_(rand(4) + 0.5)
    for made in (fuse(model), optimize_for_inference(model)):
        assert not any(isinstance(m, nn.BatchNorm2d) for m in made.modules())
        assert mt.allclose(made(x), model(x), atol=1e-5)
    assert isinstance(model[1], nn.BatchNorm2d)
    training = copy.deepcopy(model).train()
    assert any(isinstance(m, nn.BatchNorm2d) for m in fuse(training).modules())


def test_splits_compute_the_same():
    model, x = convnet(), rand(2, 3, 8, 8)
    traced = fx.symbolic_trace(model)
    for size in (1, 2, 3):
        numbers = {node: i // size for i, node in enumerate(traced.graph.nodes)}
        parts = split_module(traced, model, numbers.__getitem__)
        assert mt.equal(parts(x), model(x)) and all(name.startswith("submod_") for name, _ in parts.named_children())


def test_nodes_are_brought_into_order():
    traced = fx.symbolic_trace(lambda x, y: mt.relu(x) + mt.neg(y))
    nodes = {node.name: node for node in traced.graph.nodes}
    nodes["x"].prepend(nodes["add"])
    with pytest.raises(RuntimeError, match="precede"):
        traced.graph.lint()
    tools_common.legalize_graph(traced)
    traced.graph.lint()
    assert [node.name for node in traced.graph.nodes] == ["x", "y", "relu", "neg", "add", "output"]
    nodes["relu"].args = (nodes["add"],)
    with pytest.raises(RuntimeError, match="depends on itself"):
        tools_common.stable_topological_sort(traced)


def test_patterns_with_modules_and_callbacks():
    traced = fx.symbolic_trace(lambda x: mt.relu(x + 1) * mt.relu(x + 2))
    graph = fx.symbolic_trace(lambda a: mt.sigmoid(a)).graph
    found = fx.subgraph_rewriter.replace_pattern_with_filters(
        traced, lambda a: mt.relu(a), replacement_callback=lambda match, whole, pattern: graph,
        match_filters=[lambda match, whole, pattern: match.anchors[0].name == "relu_1"])  # fmt: skip
    assert [[node.name for node in one.replacements] for one in found] == [["sigmoid"]]
    assert [node.name for node in traced.graph.nodes] == ["x", "add", "relu", "add_1", "sigmoid", "mul", "output"]
    with pytest.raises(AssertionError, match="neither"):
        fx.subgraph_rewriter.replace_pattern_with_filters(traced, lambda a: mt.relu(a))

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Linear(1, 1).to("cpu")

        def forward(self, a):
            return self.scale(a)

    traced = fx.symbolic_trace(lambda x: mt.relu(x) + 1)
    fx.replace_pattern(traced, lambda a: mt.relu(a), fx.symbolic_trace(Scaled()))
    assert [node.target for node in traced.graph.nodes][1] == "scale" and traced(rand(2, 1)).shape == (2, 1)


class Observer(nn.Module):
    """Notes the range of what it sees."""

    def __init__(self):
        super().__init__()
        self.register_buffer("low", mt.tensor(float("inf"), device="cpu"))
        self.register_buffer("high", mt.tensor(float("-inf"), device="cpu"))

    def forward(self, x):
        self.low.copy_(mt.minimum(self.low, x.detach().min()))
        self.high.copy_(mt.maximum(self.high, x.detach().max()))
        return x


class Rounded(nn.Module):
    """Rounds to 8 bits in a range."""

    def __init__(self, low, high):
        super().__init__()
        self.low, self.step = float(low), (float(high) - float(low)) / 255

    def forward(self, x):
        return ((x - self.low) / self.step).round().clamp(0, 255) * self.step + self.low


def test_quantisation_by_hand():
    """Insert observers behind layers, calibrate, and replace the observers by rounding."""
    model = convnet()
    traced = fx.symbolic_trace(model)
    for node in list(traced.graph.nodes):
        if node.op == "call_module" and isinstance(traced.get_submodule(node.target), (nn.Conv2d, nn.Linear)):
            name = f"observer_{node.name}"
            traced.add_submodule(name, Observer())
            with traced.graph.inserting_after(node):
                seen = traced.graph.call_module(name, (node,))
            node.replace_all_uses_with(seen, lambda user, seen=seen: user is not seen)
    traced.graph.lint()
    traced.recompile()
    x = rand(8, 3, 8, 8)
    assert mt.equal(traced(x), model(x))
    for name, observer in list(traced.named_children()):
        if isinstance(observer, Observer):
            assert observer.low < observer.high
            traced.add_submodule(name, Rounded(observer.low, observer.high))
    assert 0 < (traced(x) - model(x)).abs().max() < 0.1


def test_shapes_on_meta():
    with mt.device("meta"):
        traced = fx.symbolic_trace(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 5)))
    ShapeProp(traced).propagate(mt.empty(2, 3, 8, 8, device="meta"))
    assert [tuple(node.meta["tensor_meta"].shape) for node in traced.graph.nodes] == [(2, 3, 8, 8), (2, 4, 6, 6), (2, 144), (2, 5), (2, 5)]


def test_dead_code_keeps_what_writes():
    def function(x):
        y = mt.zeros_like(x)
        view = y.view(-1)
        view.add_(1)
        mt.neg(x)
        x.mul(2).relu_()
        return y

    traced = fx.symbolic_trace(function)
    assert traced.graph.eliminate_dead_code()
    traced.recompile()
    assert traced(rand(3)).tolist() == [1, 1, 1] and "neg" not in traced.code
    with pytest.raises(TypeError, match="cannot be modified|assign node.args"):
        traced.graph.output_node().kwargs["x"] = 1


# Parts for a backend -----------------------------------------------------------------------------------------


def layered(a, b):
    c = a + b
    e = mt.sigmoid(mt.relu(c))
    g = e + c
    return (mt.sigmoid(g) + g) * 2 + a


def test_parts_that_a_backend_supports():
    traced, x = fx.symbolic_trace(layered), rand(3)
    supported = operator_support.create_op_support(lambda modules, node: node.name != "sigmoid")
    one = CapabilityBasedPartitioner(traced, supported)
    parts = one.propose_partitions()
    assert [[node.name for node in part.nodes] for part in parts] == [["add", "relu"], ["add_1", "sigmoid_1", "add_2", "mul", "add_3"]]
    fused = one.fuse_partitions(parts)
    assert [node.target for node in fused.graph.nodes if node.op == "call_module"] == ["fused_0", "fused_1"]
    assert mt.equal(fused(x, x), layered(x, x))
    single = CapabilityBasedPartitioner(fx.symbolic_trace(layered), operator_support.create_op_support(lambda m, node: node.name == "relu"))
    assert single.propose_partitions() == []


@pytest.mark.parametrize("least", [1, 3])
def test_a_splitter(least):
    traced, x = fx.symbolic_trace(layered), rand(3)
    supported = operator_support.create_op_support(lambda modules, node: "sigmoid" not in node.name)
    result = splitter_base._SplitterBase(traced, (x, x), supported, splitter_base._SplitterSettingBase(least)).generate_split_results()
    names = [node.target for node in result.split_module.graph.nodes if node.op == "call_module"]
    assert mt.equal(result.split_module(x, x), layered(x, x)) and set(names) == set(result.submodule_inputs)
    assert names == (["_run_on_acc_0", "_run_on_cpu_1", "_run_on_acc_2", "_run_on_cpu_3", "_run_on_acc_4"] if least == 1
                     else ["_run_on_cpu_0", "_run_on_acc_1"])  # fmt: skip


def test_settings_of_a_splitter():
    traced, x = fx.symbolic_trace(layered), rand(3)
    supported = operator_support.create_op_support(lambda modules, node: "sigmoid" not in node.name)
    with pytest.raises(ValueError, match="there are 3 parts for the accelerator, more than max_acc_splits=2"):
        splitter_base._SplitterBase(traced, (x, x), supported, splitter_base._SplitterSettingBase(max_acc_splits=2))()
    with pytest.raises(NotImplementedError, match="move_non_tensor"):
        splitter_base._SplitterSettingBase(move_non_tensor_nodes_on_boundary=True)
    with pytest.raises(TypeError):
        splitter_base._SplitterSettingBase(unknown=1)


def test_tags_and_comparison():
    traced, x = fx.symbolic_trace(layered), rand(3)
    for i, node in enumerate(traced.graph.nodes):
        node.tag = "first" if i < 5 else "second"
    parts, names = split_by_tags(traced, ["first", "second"], return_fqn_mapping=True)
    assert mt.equal(parts(x, x), layered(x, x)) and [name for name, _ in parts.named_children()] == ["first", "second"] and names == {}
    assert compare_graphs(fx.symbolic_trace(layered).graph, fx.symbolic_trace(layered).graph)
    assert not compare_graphs(fx.symbolic_trace(layered).graph, fx.symbolic_trace(lambda a, b: a + b).graph)
    with pytest.raises(AssertionError, match="not in the list"):
        split_by_tags(traced, ["first"])


def test_sources_and_attributes_of_layers():
    traced = fx.symbolic_trace(convnet())
    found = get_source_partitions(traced.graph, [nn.Conv2d, nn.Linear])
    assert {source: [[node.name for node in part.nodes] for part in parts] for source, parts in found.items()} == {
        nn.Conv2d: [["_0"]], nn.Linear: [["_5"]]}  # fmt: skip
    param_fetch.lift_lowering_attrs_to_nodes(traced)
    assert traced.graph.find_nodes(op="call_module")[0].attrs_for_lowering["kernel_size"] == (3, 3)
