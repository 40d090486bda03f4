"""``torch.export``: graphs, signatures, modules and files of exported programs."""

import copy
import io

import pytest

import metatensor as mt
from metatensor.torch_api import torch

pytest.importorskip("metatensor_cpu")


def network(torch):
    """Return a module of a library, and its arguments."""
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.line, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)
            self.register_buffer("count", torch.zeros(1))
            self.register_buffer("hidden", torch.zeros(1), persistent=False)
            self.scale, self.unused = torch.ones(4), nn.Parameter(torch.ones(1))

        def forward(self, x, *ys, d=None, k=2):
            self.count.add_(1)
            z = self.norm(self.line(x)) + self.scale * k + self.hidden + ys[1][0] * d["e"]
            return {"a": z, "b": [z.sum(), 3, None]}

    return Net(), (torch.rand(2, 4), torch.ones(1), [torch.ones(1)]), {"d": {"e": torch.ones(4)}, "k": 3}


@pytest.fixture(autouse=True)
def on_cpu():
    with mt.device("cpu"):
        yield


def same(a, b):
    a, b = mt.utils._pytree.tree_leaves(a), mt.utils._pytree.tree_leaves(b)
    assert len(a) == len(b) and all(mt.equal(x, y) if isinstance(x, mt.Tensor) else x == y for x, y in zip(a, b))


def described(exported):
    signature = exported.graph_signature
    return [
        signature.inputs_to_parameters, signature.inputs_to_buffers, signature.user_inputs, len(signature.user_outputs),
        signature.user_outputs[-2:], signature.parameters, signature.buffers, signature.non_persistent_buffers,
        signature.inputs_to_lifted_tensor_constants, signature.buffers_to_mutate, list(exported.state_dict), sorted(exported.constants),
        exported.range_constraints, [node.target for node in exported.graph.nodes if node.op == "placeholder"],
        [spec.kind.name for spec in signature.input_specs], [spec.kind.name for spec in signature.output_specs],
        sorted(exported.module().state_dict()), [name for name, _ in exported.named_buffers()],
    ]  # fmt: skip


@pytest.mark.torch
def test_signatures_are_those_of_pytorch():
    import torch as theirs

    model, args, kwargs = network(theirs)
    want = theirs.export.export(model, args, kwargs)
    model, args, kwargs = network(torch)
    for one, other in zip(described(torch.export.export(model, args, kwargs)), described(want)):
        assert one == other
    # Names of other nodes differ, because operators do.
    changed = want.run_decompositions().graph_signature.buffers_to_mutate
    ours = torch.export.export(model, args, kwargs).run_decompositions().graph_signature.buffers_to_mutate
    assert sorted(ours.values()) == sorted(changed.values())


def test_values():
    model, args, kwargs = network(torch)
    other, mean = copy.deepcopy(model), model.norm.running_mean.clone()
    state = mt.get_rng_state()
    exported = torch.export.export(model, args, kwargs)
    assert mt.equal(model.norm.running_mean, mean) and model.count.item() == 0 and mt.equal(state, mt.get_rng_state())
    assert exported.state_dict["line.weight"] is model.line.weight and exported.example_inputs == (args, kwargs)
    module = exported.module()
    for _ in range(2):
        same(module(*args, **kwargs), other(*args, **kwargs))
    same(module.norm.running_var, other.norm.running_var)
    assert module.count.item() == 2 and model.count.item() == 0
    flat = [*exported.program.tensors.values(), *mt.utils._pytree.tree_leaves((args, kwargs))]
    flat = [t.detach().clone() if isinstance(t, mt.Tensor) else t for t in flat]
    assert mt.equal(exported.graph_module(*flat)[0], model(*args, **kwargs)["a"])
    with pytest.raises(RuntimeError, match="module"):
        exported(*args, **kwargs)


def test_guards():
    model, args, kwargs = network(torch)
    module = torch.export.export(model, args, kwargs).module()
    with pytest.raises(AssertionError, match=r"float32\[2, 4\]"):
        module(mt.ones(3, 4), *args[1:], **kwargs)
    with pytest.raises(AssertionError, match="was 3"):
        module(*args, **{**kwargs, "k": 4})
    with pytest.raises(NotImplementedError, match="before export"):
        module.eval()


def test_functional_programs():
    model, args, kwargs = network(torch)
    exported = torch.export.export(model, args, kwargs)
    decomposed = exported.run_decompositions()
    changed = decomposed.graph_signature.buffers_to_mutate
    assert set(changed.values()) == {"count", "norm.running_mean", "norm.running_var", "norm.num_batches_tracked"}
    assert not [node for node in decomposed.graph.nodes if node.op == "call_function" and node.meta.get("writes")]
    flat = [*exported.program.tensors.values(), *mt.utils._pytree.tree_leaves((args, kwargs))]
    results = decomposed.graph_module(*flat)
    assert model.count.item() == 0 and results[list(changed.values()).index("count")].item() == 1
    same(results[len(changed)], exported.module()(*args, **kwargs)["a"])


def test_decompositions():
    model, x = mt.nn.Sequential(mt.nn.Linear(4, 3), mt.nn.ReLU()), mt.rand(2, 4)
    linear = torch.ops.aten.linear.default
    exported = torch.export.export(model, (x,))
    made = exported.run_decompositions({linear: lambda x, weight, bias=None: torch.addmm(bias, x, weight.t())})
    targets = [node.target for node in made.graph.nodes if node.op == "call_function"]
    assert targets == [torch.ops.aten.t.default, torch.ops.aten.addmm.default, torch.ops.aten.relu.default]
    assert made.graph_signature.parameters == ("0.weight", "0.bias")
    same(made.module()(x), model(x))


def test_a_replaced_buffer():
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", torch.zeros(1))

        def forward(self, x):
            self.n = self.n + 1
            return x * self.n

    model = Counter()
    exported = torch.export.export(model, (mt.ones(2),))
    module = exported.module()
    assert model.n.item() == 0 and [module(mt.ones(2))[0].item() for _ in range(2)] == [1, 2]
    assert list(exported.run_decompositions().graph_signature.buffers_to_mutate.values()) == ["n"]
    assert exported.graph_module(mt.zeros(1), mt.ones(2))[0].tolist() == [1, 1]


def test_files():
    model, args, kwargs = network(torch)
    exported = torch.export.export(model, args, kwargs)
    file = io.BytesIO()
    torch.export.save(exported, file, extra_files={"note": "hello"})
    extra = {"note": ""}
    loaded = torch.export.load(io.BytesIO(file.getvalue()), extra_files=extra)
    assert extra == {"note": "hello"} and str(loaded) == str(exported)
    same(loaded.module()(*args, **kwargs), exported.module()(*args, **kwargs))
    functional = exported.run_decompositions()
    file = io.BytesIO()
    torch.export.save(functional, file)
    assert str(torch.export.load(io.BytesIO(file.getvalue()))) == str(functional)
    with pytest.raises(TypeError):
        torch.export.save(model, file)
    with pytest.raises(mt.checkpoint.CheckpointError):
        torch.export.load(io.BytesIO(b"nothing"))
    plain = io.BytesIO()
    exported.program.save(plain)
    same(torch.export.load(io.BytesIO(plain.getvalue())).module()(*args, **kwargs), exported.module()(*args, **kwargs))


def test_damaged_files():
    from metatensor.program import saving

    program = torch.export.export(torch.nn.Linear(2, 2), (mt.ones(1, 2),)).program
    for head in ("[]", '{"names": 3}', '{"names": []}', '{"names": ["a", "b"]}', "{", '{"names": ["a"], "non_persistent": [1]}'):
        file = io.BytesIO()
        saving.save(program, file, extra={"torch.export.json": head})
        with pytest.raises(mt.checkpoint.CheckpointError):
            torch.export.load(io.BytesIO(file.getvalue()))


def test_tied_parameters():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    model[1].weight = model[0].weight
    exported = torch.export.export(model, (mt.ones(1, 3),))
    assert exported.graph_signature.parameters == ("0.weight", "0.bias", "1.bias")
    assert set(exported.state_dict) == set(model.state_dict())


def test_what_is_refused():
    class Branch(torch.nn.Module):
        def forward(self, x):
            return x * 2 if x.sum() > 0 else x

    with pytest.raises(RuntimeError, match=r"item of the result of gt .*test_export.py"):
        torch.export.export(Branch(), (mt.ones(2),))
    with pytest.raises(ValueError, match="Module"):
        torch.export.export(lambda x: x, (mt.ones(2),))
    with pytest.raises(RuntimeError, match="tuple"):
        torch.export.export(torch.nn.ReLU(), mt.ones(2))
    with pytest.raises(TypeError, match="Dim objects"):
        torch.export.export(torch.nn.ReLU(), (mt.ones(2),), dynamic_shapes={"input": {0: "batch"}})
    torch.export.export(torch.nn.ReLU(), (mt.ones(2),), dynamic_shapes={"input": {0: torch.export.Dim.STATIC}})


def test_numbers_of_constants_are_allowed():
    class Rates(torch.nn.Module):
        def forward(self, x):
            return x * sum(rate.item() for rate in torch.linspace(0, 1, 3))

    exported = torch.export.export(Rates(), (mt.ones(2),))
    assert exported.module()(mt.ones(2)).tolist() == [1.5, 1.5]


def test_on_meta():
    with mt.device("meta"):
        model, args, kwargs = network(torch)
        exported = torch.export.export(model, args, kwargs)
        assert exported.module()(*args, **kwargs)["a"].shape == (2, 4) and len(exported.graph_signature.parameters) == 5


class Sized(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(8, 8)

    def forward(self, x, other=None):
        b, s, c = x.shape
        if s > 100:
            x = x * 2
        if other is not None:
            x = x + other["a"]
        return self.line(x).view(b * s, c) / s, s + 1


@pytest.mark.slow
def test_sizes_that_vary():
    model, Dim = Sized(), torch.export.Dim
    exported = torch.export.export(model, (torch.rand(2, 7, 8),), dynamic_shapes={"x": {0: Dim("batch", min=1, max=64), 1: Dim.AUTO}})
    assert {name: tuple(r)[0] for name, r in exported.range_constraints.items()} == {"batch": 1, "s1": 1}
    file = io.BytesIO()
    torch.export.save(exported, file)
    file.seek(0)
    for one in (exported, torch.export.load(file), exported.run_decompositions()):
        module = one.module()
        for shape in ((2, 7, 8), (64, 100, 8), (5, 2, 8)):
            x = torch.rand(*shape)
            (y, n), (z, m) = module(x), model(x)
            assert mt.equal(y, z) and n == m
        x = torch.rand(2, 101, 8)
        assert mt.equal(module(x)[0], model(x)[0])  # other calls than those of the graph
        with pytest.raises(AssertionError, match="batch=65 is not in 1..64"):
            module(torch.rand(65, 10, 8))
    assert [node.name for node in exported.graph.nodes].count("sym_size_int") == 1


def test_other_calls_change_the_buffers_of_the_module():
    class Counts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", torch.zeros(1))

        def forward(self, x):
            self.n = self.n + (2 if x.shape[0] > 5 else 1)
            return torch.nn.functional.interpolate(x, size=x.shape[2] + 1) + self.n

    module = torch.export.export(Counts(), (torch.zeros(2, 3, 4),), dynamic_shapes=({0: torch.export.Dim.AUTO},)).module()
    assert [module(torch.zeros(n, 3, 4)).max().item() for n in (2, 6, 3, 9)] == [1, 3, 4, 6]


def test_derived_sizes_and_nested_arguments():
    half = torch.export.Dim("half", min=1, max=20)
    shapes = {"x": {1: 2 * half + 1}, "other": {"a": {1: 2 * half + 1, 0: None}}}
    x = torch.rand(2, 9, 8)
    exported = torch.export.export(Sized(), (x, {"a": torch.rand(2, 9, 8)}), dynamic_shapes=shapes)
    assert exported.module()(torch.rand(2, 5, 8), {"a": torch.rand(2, 5, 8)})[1] == 6
    with pytest.raises(AssertionError):
        exported.module()(torch.rand(2, 6, 8), {"a": torch.rand(2, 6, 8)})


def test_a_size_that_cannot_vary():
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 2))
    with pytest.raises(RuntimeError, match="the size length cannot vary: the module needs length == 4"):
        torch.export.export(model, (torch.rand(2, 3, 4),), dynamic_shapes=({2: torch.export.Dim("length")},))


@pytest.mark.slow
def test_automatic_sizes_over_which_a_loop_runs_are_fixed():
    class Loop(mt.nn.Module):
        def forward(self, x):
            y = x[0]
            for i in range(1, x.shape[0]):
                y = y * 2 + x[i]
            return y

    from metatensor.torch_api.torch.export import Dim, export

    model, x = Loop(), mt.rand(4, 5, device="cpu")
    for dims, names in (({0: Dim.AUTO}, []), ({0: Dim.AUTO, 1: Dim.AUTO}, ["s1"])):
        exported = export(model, (x,), dynamic_shapes=(dims,))
        assert list(exported.range_constraints) == names
        assert mt.equal(exported.module()(x), model(x))
    other = mt.rand(4, 9, device="cpu")
    assert mt.equal(exported.module()(other), model(other))
    with pytest.raises(AssertionError, match="expected"):
        exported.module()(mt.rand(5, 9, device="cpu"))
    with pytest.raises(RuntimeError, match="the size n cannot vary: the module needs n == 4"):
        export(model, (x,), dynamic_shapes=({0: Dim("n")},))
