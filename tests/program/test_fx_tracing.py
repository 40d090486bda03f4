"""Tracing: what other threads and later code see of it, wrapped functions, and tracers."""

import copy
import math
import pickle
import threading
from math import sqrt

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.nn._base import intercept_modules
from metatensor.program import fx

pytest.importorskip("metatensor_cpu")


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(mt.ones(3, device="cpu"))
        self.inner = nn.Linear(3, 3).to("cpu")

    def forward(self, x, *, hook=None):
        y = self.inner(x * self.weight)
        if hook is not None:
            hook()
        return mt.nn.functional.relu(y) * math.sqrt(x.shape[0])


def everything_else():
    """Use in another thread what a tracer may have changed."""
    layer = LAYER[0]
    x = mt.ones(2, 3, device="cpu")
    tracing = fx._symbolic_trace.is_fx_tracing()
    return type(layer), type(layer.weight), math.sqrt(4.0), mt.relu, nn.functional.relu, layer(x).tolist(), sqrt, tracing


LAYER = []


@pytest.mark.filterwarnings("ignore:fx")
def test_other_threads_do_not_notice_a_trace():
    layer = Layer()
    LAYER[:] = [layer]
    before = everything_else()
    assert not before[-1]
    inside, seen = threading.Event(), threading.Event()
    results = []

    def other():
        inside.wait(10)
        results.append(everything_else())
        results.append([(n.name, n.op) for n in fx.symbolic_trace(nn.Sequential(nn.ReLU(), Layer())).graph.nodes])
        seen.set()

    thread = threading.Thread(target=other)
    thread.start()
    dictionary = dict(vars(math))

    def hook():
        assert fx._symbolic_trace.is_fx_tracing() and isinstance(layer.weight, fx.Proxy)
        inside.set()
        assert seen.wait(10) and vars(math) == dictionary

    graph = fx.Tracer().trace(layer, {"hook": hook})
    thread.join()
    assert results[0] == before
    assert [name for name, _ in results[1]] == ["input_1", "_0", "_1_weight", "mul", "_1_inner", "relu", "getattr_1", "getitem", "sqrt",
                                                "mul_1", "output"]  # fmt: skip
    assert [n.name for n in graph.nodes][-5:] == ["getattr_1", "getitem", "sqrt", "mul_1", "output"]
    assert everything_else() == before


@pytest.mark.filterwarnings("ignore:fx")
@pytest.mark.parametrize("raised", [KeyError("oh"), KeyboardInterrupt()])
def test_an_exception_leaves_nothing_behind(raised):
    layer = Layer()
    LAYER[:] = [layer]
    before = everything_else()

    def hook():
        raise raised

    with pytest.raises(type(raised)):
        fx.Tracer().trace(layer, {"hook": hook})
    assert everything_else() == before and intercept_modules(None) is None


def test_tracers_inside_tracers():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Layer()

        def forward(self, x):
            y = self.inner.weight
            assert len(fx.symbolic_trace(nn.Sequential(nn.Linear(1, 1))).graph.nodes) == 3
            return self.inner(x) + y

    names = [node.name for node in fx.symbolic_trace(Outer()).graph.nodes]
    assert "inner_weight" in names and "inner_inner" in names and names[-2] == "add"


# Functions that are recorded ---------------------------------------------------------------------------------


fx.wrap("len")
fx.wrap("later")


@fx.wrap
def wrapped(x, k=1):
    return x * k if k > 0 else x


def later(x):
    return x + int(x.sum())


def helper(x):
    return recorded(x) + math.floor(x.shape[0] / 2)


def recorded(x):
    return x if float(x.sum()) > 0 else -x


class Through(nn.Module):
    def method(self, x):
        return helper(x)

    def forward(self, x):
        return self.method(x) + wrapped(x, k=2) + len(x) + later(x)


def test_wrapped_and_named_functions_are_nodes():
    graph = fx.Tracer(autowrap_functions=(recorded,)).trace(Through())
    calls = [(node.name, node.target) for node in graph.nodes if node.op == "call_function"]
    assert dict(calls)["recorded"] is recorded and dict(calls)["floor"] is math.floor
    names = "recorded getattr_1 getitem truediv floor add wrapped add_1 len_1 add_2 later add_3"
    assert [name for name, _ in calls] == names.split()
    targets = dict(calls)
    assert targets["wrapped"] is wrapped and targets["later"] is later and wrapped(3, k=0) == 3 and len([1]) == 1
    module = fx.GraphModule(Through(), graph)
    x = mt.ones(4, device="cpu")
    for one in (module, pickle.loads(pickle.dumps(module)), copy.deepcopy(module)):
        assert mt.equal(one(x), Through()(x))
    with pytest.raises(TypeError):
        fx.symbolic_trace(Through())  # `recorded` is traced through


def decorate(function):
    def called(*args):
        return function(*args)

    return called


@decorate
def decorated(x):
    return recorded(x) * COUNT


COUNT = 2


def counting(x):
    global COUNT
    COUNT = 3
    return decorated(x)


def test_decorated_functions_and_assigned_globals():
    global COUNT
    try:
        graph = fx.Tracer(autowrap_functions=(recorded,)).trace(counting)
        assert [node.name for node in graph.nodes] == ["x", "recorded", "mul", "output"] and COUNT == 3
        assert graph.find_nodes(op="call_function")[1].args[1] == 3
    finally:
        COUNT = 2


def test_a_class_that_makes_nodes():
    class Pair(metaclass=fx.ProxyableClassMeta):
        def __init__(self, left, right):
            self.left, self.right = left, right

        def add(self):
            return self.left + self.right

    constant = Pair(1, 2)
    traced = fx.symbolic_trace(lambda x, y: Pair(x, y).add() + constant.left)
    assert [node.name for node in traced.graph.nodes] == ["x", "y", "pair", "add", "add_1", "output"] and traced(3, 4) == 8


# Tracers -----------------------------------------------------------------------------------------------------


def test_assertions_and_stack_traces():
    class Custom(fx.Tracer):
        trace_asserts = True
        record_stack_traces = True

    scope = {}
    exec("def function(x):\n    assert x > 0, 'positive'\n    return x + 1", scope)  # pytest rewrites assertions in its files
    graph = Custom().trace(scope["function"])
    assert [node.name for node in graph.nodes] == ["x", "gt", "assert_fn", "add", "output"]
    assert "in function" in graph.find_nodes(op="call_function")[-1].stack_trace
    module = fx.GraphModule({}, graph)
    module.graph.eliminate_dead_code()
    module.recompile()
    assert module(1) == 2
    with pytest.raises(AssertionError):
        module(-1)


def test_attributes_of_placeholders():
    marked = fx._symbolic_trace.PHWithMeta("key")
    traced = fx.symbolic_trace(lambda x: x["a"] + 1, concrete_args={"x": {"a": marked}})
    assert traced.graph.find_nodes(op="placeholder")[0].ph_key == "key" and traced({"a": 2}) == 3


def test_scopes():
    tracer = fx.Tracer()
    tracer.trace(nn.Sequential(nn.Sequential(nn.ReLU()), Layer()))
    assert tracer.node_name_to_scope["_0_0"] == ("0.0", nn.ReLU) and tracer.node_name_to_scope["mul_1"] == ("1", Layer)


def test_hooks_of_a_graph():
    traced = fx.symbolic_trace(lambda x: x + 1)
    log = []
    traced._register_create_node_hook(lambda node: log.append(("new", node.name)))
    traced._register_erase_node_hook(lambda node: log.append(("gone", node.name)))
    with traced.graph.inserting_before(traced.graph.output_node()):
        node = traced.graph.call_function(mt.neg, (traced.graph.find_nodes(op="call_function")[0],))
    traced.graph.erase_node(node)
    assert log == [("new", "neg"), ("gone", "neg")]


def test_traced_on_meta_and_run_on_another_device():
    with mt.device("meta"):
        model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5)).eval()
    traced = fx.symbolic_trace(model)
    for node in traced.graph.nodes:
        if node.op == "call_module" and isinstance(traced.get_submodule(node.target), nn.ReLU):
            with traced.graph.inserting_after(node):
                node.replace_all_uses_with(traced.graph.call_function(mt.sigmoid, node.args))
            traced.graph.erase_node(node)
    traced.delete_all_unused_submodules()
    traced.recompile()
    assert traced(mt.empty(2, 3, 8, 8, device="meta")).shape == (2, 5)
    real = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Sigmoid(), nn.Flatten(), nn.Linear(144, 5)).eval().to("cpu")
    traced.load_state_dict(real.state_dict(), assign=True)
    x = mt.rand(2, 3, 8, 8, device="cpu")
    assert mt.equal(traced(x), real(x))


WRONG = [lambda x: mt.abs(x, x), lambda x: mt.bmm(x), lambda x: mt.relu(x, other=1), lambda x: mt.relu(x, input=x)]


@pytest.mark.parametrize("function", WRONG)
def test_a_call_with_wrong_arguments_is_no_node(function):
    with pytest.raises(TypeError):
        fx.symbolic_trace(function)
