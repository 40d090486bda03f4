"""``torch.jit``: traced, scripted, saved and frozen functions and modules."""

import copy
import io
import pickle
import warnings

import pytest

import metatensor as mt
from metatensor.torch_api import torch

pytest.importorskip("metatensor_cpu")
nn = torch.nn


@pytest.fixture(autouse=True)
def on_cpu():
    with mt.device("cpu"):
        yield


def network():
    return nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.BatchNorm1d(4))


class Counter(nn.Module):
    """Replaces a buffer, has a constant, a hidden buffer and an unused parameter."""

    def __init__(self):
        super().__init__()
        self.register_buffer("n", mt.zeros(1))
        self.register_buffer("hidden", mt.ones(1), persistent=False)
        self.scale, self.unused = mt.full((2,), 3.0), nn.Parameter(mt.ones(1))

    def forward(self, x):
        self.n = self.n + 1
        return x * self.n * self.scale * self.hidden

    def twice(self, x):
        return x * 2


def halved(x):
    return x / 2 if x.shape[0] < 4 else x / 4


@torch.jit.script
def gated(x, y):
    return x * y.sigmoid()


@torch.jit.script
def branching(x):
    if x.sum() > 0:
        return x * 2
    return x


def reloaded(made, **options):
    file = io.BytesIO()
    torch.jit.save(made, file)
    return torch.jit.load(io.BytesIO(file.getvalue()), **options)


def test_a_traced_module():
    model, x = network(), mt.rand(3, 4)
    traced = torch.jit.trace(model, x)
    other = copy.deepcopy(model)
    assert isinstance(traced, (torch.jit.ScriptModule, nn.Module)) and model[2].num_batches_tracked == 0
    assert list(traced.state_dict()) == list(model.state_dict()) and next(traced.parameters()) is model[0].weight
    assert traced.original_name == "Sequential" and traced.get_submodule("0").original_name == "Linear"
    assert [name for name, _ in traced.named_modules()] == [name for name, _ in model.named_modules()]
    for rows in (3, 5):  # other shapes are traced again
        mt.manual_seed(1)
        got = traced(mt.ones(rows, 4))
        mt.manual_seed(1)
        assert mt.equal(got, other(mt.ones(rows, 4)))
    assert mt.equal(model[2].running_mean, other[2].running_mean) and model[2].num_batches_tracked == 2
    assert "linear" in traced.code and "linear" in traced.graph and "linear" in str(traced.program)
    traced(x).sum().backward()
    assert model[0].weight.grad is not None
    with pytest.raises(NotImplementedError):
        traced.get_submodule("0")(x)


def test_the_mode_is_that_of_the_trace():
    model = network()
    traced = torch.jit.trace(model, mt.ones(2, 4), check_trace=False)
    traced.eval()
    assert not traced.training and model.training and not mt.equal(traced(mt.ones(2, 4)), traced(mt.ones(2, 4)))
    model.eval()
    assert not mt.equal(traced(mt.ones(5, 4)), traced(mt.ones(5, 4))) and not model.training
    traced = torch.jit.trace(model, mt.ones(2, 4))
    traced.train()
    assert mt.equal(traced(mt.ones(2, 4)), traced(mt.ones(2, 4)))


def test_new_parameters_and_buffers():
    model, x = Counter(), mt.ones(2)
    traced = torch.jit.trace(model, x)
    assert [traced(x)[0].item() for _ in range(2)] == [3, 6] and traced.n.item() == 2 and model.n.item() == 0
    traced.load_state_dict({"n": mt.full((1,), 9.0), "unused": mt.zeros(1)})
    assert traced(x)[0].item() == 30 and traced.unused.item() == 0
    loaded = reloaded(traced)
    assert loaded(x)[0].item() == 33 and set(loaded.state_dict()) == {"n", "unused"} and loaded.hidden.item() == 1
    again = copy.deepcopy(traced)
    assert again(x)[0].item() == 33 and traced.n.item() == 10
    assert torch.jit.trace(traced, x) is traced


def test_a_traced_function():
    traced = torch.jit.trace(halved, mt.ones(2, 2))
    assert isinstance(traced, torch.jit.ScriptFunction) and torch.ScriptFunction is torch.jit.ScriptFunction and traced.name == "halved"
    assert traced(mt.ones(3, 2))[0, 0].item() == 0.5 and traced(mt.ones(5, 2))[0, 0].item() == 0.25
    loaded = reloaded(traced)
    assert isinstance(loaded, torch.jit.ScriptFunction) and loaded.name == "halved" and loaded(mt.ones(2, 2))[0, 0].item() == 0.5
    with pytest.raises(ValueError, match="trace again"):
        loaded(mt.ones(3, 2))
    traced = torch.jit.trace(lambda x, y: x - y, example_kwarg_inputs={"y": mt.ones(1), "x": mt.zeros(1)})
    assert traced(x=mt.ones(1), y=mt.ones(1)).item() == 0


def test_methods():
    made = torch.jit.trace_module(Counter(), {"forward": mt.ones(2), "twice": (mt.ones(2),)})
    assert made.twice(mt.ones(2)).tolist() == [2, 2] and made(mt.ones(2)).tolist() == [3, 3]
    with pytest.raises(NotImplementedError, match="twice"):
        made.save(io.BytesIO())
    with pytest.raises(AttributeError, match="trace_module"):
        torch.jit.trace(Counter().twice, mt.ones(2))
    assert torch.jit.trace(nn.Linear(2, 2).forward, mt.ones(1, 2)).original_name == "Linear"


def test_warnings_of_a_trace():
    with pytest.warns(torch.jit.TracerWarning, match="item of the result of gt"):
        torch.jit.trace(branching._function, mt.ones(2))
    state = []

    def unsteady(x):
        state.append(1)
        return x * len(state)

    with pytest.warns(torch.jit.TracerWarning, match="differs"):
        torch.jit.trace(unsteady, mt.ones(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.jit.trace(lambda x: x + mt.rand(2), mt.ones(2))
        torch.jit.trace(unsteady, mt.ones(2), check_trace=False)


def test_what_a_trace_refuses():
    for result in (lambda x: 5, lambda x: (x, 5), lambda x: None, lambda x: {"a": x}):
        with pytest.raises(RuntimeError, match="torch.jit.trace"):
            torch.jit.trace(result, mt.ones(1))
    assert torch.jit.trace(lambda x: {"a": x}, mt.ones(1), strict=False)(mt.ones(1))["a"].item() == 1
    with pytest.raises(RuntimeError, match="example"):
        torch.jit.trace(halved)


def test_private_names_that_libraries_use():
    assert torch.jit._script_if_tracing(halved) is halved is torch.jit.script_if_tracing(halved)


def test_is_tracing():
    seen = []

    def function(x):
        seen.append(torch.jit.is_tracing() and torch._C._get_tracing_state() is not None)
        return x + 1

    torch.jit.trace(function, mt.ones(1))
    function(mt.ones(1))
    assert seen[0] and not seen[-1] and not torch.jit.is_tracing() and torch._C._get_tracing_state() is None


def test_a_scripted_function():
    x = mt.rand(3)
    assert mt.equal(gated(x, x), x * x.sigmoid()) and gated.__name__ == "gated"
    assert "sigmoid" in gated.code and reloaded(gated)(mt.ones(3), mt.zeros(3)).tolist() == [0.5] * 3
    assert pickle.loads(pickle.dumps(gated)) is gated and copy.deepcopy(gated) is gated and torch.jit.script(gated) is gated
    with pytest.raises(torch.jit.Error, match="first call"):
        torch.jit.script(halved).graph
    assert "div" in torch.jit.script(halved, example_inputs=[(mt.ones(2),)]).graph


def test_branches_that_depend_on_values():
    assert branching(mt.ones(2)).tolist() == [2, 2] and branching(-mt.ones(2)).tolist() == [-1, -1]
    for use in (lambda: branching.graph, lambda: branching.code, lambda: torch.jit.save(branching, io.BytesIO())):
        with pytest.raises(torch.jit.Error, match=r"depends on values: item of the result of gt .*test_jit.py:\d+"):
            use()


def test_a_scripted_module():
    model, x = network(), mt.rand(3, 4)
    scripted = torch.jit.script(model)
    assert isinstance(scripted, torch.jit.RecursiveScriptModule) and scripted.original_name == "Sequential"
    assert list(scripted.state_dict()) == list(model.state_dict()) and scripted.eval() is scripted and not model.training
    want = model(x)
    assert mt.equal(scripted(x), want) and mt.equal(reloaded(scripted)(x), want) and "linear" in scripted.code
    assert mt.equal(copy.deepcopy(scripted)(x), want)
    counter = torch.jit.script(Counter())
    assert counter.twice(mt.ones(1)).item() == 2 and set(counter.state_dict()) == {"n", "unused"}
    with pytest.raises(AttributeError):
        scripted.missing
    scripted.train()
    assert model[1].training and "_batch_norm_forward" in scripted.code
    assert torch.jit.script(nn.Linear) is nn.Linear


def test_frozen_modules():
    model, x = network().eval(), mt.rand(3, 4)
    frozen = torch.jit.freeze(torch.jit.trace(model, x))
    want = model(x)
    with mt.no_grad():
        model[0].weight.zero_()
    assert not frozen.state_dict() and mt.equal(frozen(x), want) and mt.equal(reloaded(frozen)(x), want) and not frozen.training
    assert isinstance(torch.jit.optimize_for_inference(torch.jit.trace(model, x)), torch.jit.RecursiveScriptModule)
    with pytest.raises(RuntimeError, match="training mode"):
        torch.jit.freeze(torch.jit.trace(network(), x))
    with pytest.raises(RuntimeError, match="expected a module"):
        torch.jit.freeze(model)


def test_files(tmp_path):
    traced, x = torch.jit.trace(network().eval(), mt.ones(2, 4)), mt.rand(2, 4)
    path = tmp_path / "model.pt"
    traced.save(path, _extra_files={"labels": "a b"})
    extra = {"labels": ""}
    loaded = torch.jit.load(path, _extra_files=extra)
    assert extra == {"labels": b"a b"} and mt.equal(loaded(x), traced(x)) and not loaded.eval().training
    assert loaded.get_submodule("0").original_name == "Linear" and mt.equal(mt.program.load(path)(x), traced(x))
    assert torch.jit.load(str(path), map_location="meta")(x.to("meta")).is_meta
    assert mt.equal(torch.jit.load(io.BytesIO(traced.save_to_buffer()))(x), traced(x))
    with pytest.raises(ValueError, match="no file"):
        torch.jit.load(tmp_path / "none.pt")
    with pytest.raises(RuntimeError):
        torch.jit.load(io.BytesIO(b"abc"))
    with pytest.raises(AttributeError, match="torch.jit.save"):
        torch.jit.save(network(), path)
    with pytest.raises(RuntimeError, match="cannot be created"):
        torch.jit.RecursiveScriptModule()


@pytest.mark.parametrize("name", ["", "a..b", "weight.deeper", "forward"])
def test_impossible_names_in_files(name):
    program = torch.jit.trace(nn.Linear(2, 2), mt.ones(1, 2)).program
    names = {"weight": "weight", "bias": name}
    renamed = program.replace(
        held={names[n]: v for n, v in program.held.items()}, kinds={names[n]: k for n, k in program.kinds.items()},
        tensors={names[n]: t for n, t in program.tensors.items()},
    )  # fmt: skip
    file = io.BytesIO()
    renamed.save(file)
    with pytest.raises(RuntimeError, match="invalid names"):
        torch.jit.load(io.BytesIO(file.getvalue()))


@pytest.mark.torch
def test_archives_of_pytorch(tmp_path):
    import torch as theirs

    path = tmp_path / "model.pt"
    model = theirs.jit.trace(theirs.nn.Linear(2, 2), theirs.ones(1, 2))
    theirs.jit.save(model, path, {"notes.txt": "hello"})
    extra = {"notes.txt": None, "other": 1}
    loaded = torch.jit.load(path, _extra_files=extra)
    assert isinstance(loaded, torch.jit.RecursiveScriptModule) and extra == {"notes.txt": b"hello", "other": 1}
    x = mt.ones(3, 2, device="cpu")
    assert mt.allclose(loaded(x), mt.from_numpy(model(theirs.ones(3, 2)).detach().numpy()))
    assert torch.jit.load(path, map_location="meta")(torch.ones(3, 2, device="meta")).is_meta
    frozen = torch.jit.optimize_for_inference(torch.jit.freeze(loaded.eval()))
    assert mt.equal(frozen(x), loaded(x)) and not frozen(x).requires_grad
    with pytest.raises(NotImplementedError, match="does not write TorchScript"):
        loaded.save(path)
    with pytest.raises(NotImplementedError, match="trace the module"):
        loaded.program
    assert set(mt.checkpoint.load(path)) == {"weight", "bias"}


def test_methods_are_checked_with_the_given_inputs():
    class Growing(nn.Module):
        def forward(self, x):
            return x

        def scaled(self, x):
            return x * x.sum().item()

    examples, checks = {"forward": mt.ones(2), "scaled": mt.ones(2)}, [{"scaled": mt.full((2,), 3.0)}]
    with pytest.warns(torch.jit.TracerWarning) as found:
        torch.jit.trace_module(Growing(), examples, check_inputs=checks)
    assert sum("differs from that of its trace" in str(one.message) for one in found) == 1
    with pytest.warns(torch.jit.TracerWarning) as found:
        torch.jit.trace_module(Growing(), examples)
    assert not any("differs from that of its trace" in str(one.message) for one in found)
    with pytest.raises(TypeError, match="check_input"):
        torch.jit.trace_module(Growing(), examples, check_input=checks)

