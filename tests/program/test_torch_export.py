"""Exported programs in .pt2 files: stored ones run without PyTorch, and those that PyTorch writes give its values."""

import copy
import io
import json
import random
import time
import warnings
import zipfile
from pathlib import Path

import pytest

import metatensor as mt
from metatensor.checkpoint import CheckpointError
from metatensor.program import torch_export
from metatensor.program.torch_export.sizes import evaluated, name_of
from program.torch_archives import NAMES, converted, same

ARCHIVES = Path(__file__).parent / "archives"


def rewritten(name, change=None, members=None):
    """Return an archive in which the JSON of the model is changed by a function, and members are replaced."""
    data, out = zipfile.ZipFile(ARCHIVES / name), io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for entry in data.namelist():
            content = data.read(entry)
            if change is not None and entry.endswith("models/model.json"):
                made = json.loads(content)
                change(made)
                content = json.dumps(made).encode()
            content = (members or {}).get(entry.partition("/")[2], content)
            if content is not None:
                file.writestr(entry, content)
    out.seek(0)
    return out


def node(made, target):
    return next(one for one in made["graph_module"]["graph"]["nodes"] if one["target"] == target)


# Stored archives ---------------------------------------------------------------------------------------------------


def test_a_module_runs_and_moves():
    model = torch_export.load(ARCHIVES / "dictoutput_export.pt2")
    assert list(model.state_dict()) == ["layer.weight", "layer.bias"] and model.missing_operators == []
    assert all(isinstance(one, mt.nn.Parameter) for one in model.parameters())
    x = mt.randn(3, 4, device="cpu")
    found = model(x)
    assert list(found) == ["hidden", "logits", "best"]
    assert mt.allclose(found["logits"], mt.nn.functional.linear(x, model.layer.weight, model.layer.bias))
    found["logits"].sum().backward()
    assert mt.allclose(model.layer.weight.grad, x.sum(0).expand(2, 4))
    there = copy.deepcopy(model).to("meta")
    assert there(x.to("meta"))["best"].is_meta and not model.layer.weight.is_meta
    assert torch_export.load(ARCHIVES / "dictoutput_export.pt2", device="meta").layer.weight.is_meta


def test_sizes_vary_as_far_as_the_file_allows():
    model = torch_export.load(ARCHIVES / "sizes_export.pt2")
    assert sorted(model.range_constraints.values()) == [(3, 64), (3, 64)]
    x, y = mt.randn(7, 4, device="cpu"), mt.randn(4, 4, device="cpu")
    z, ones, numbers, part = model(x, y)
    assert mt.equal(z, mt.cat([x, y]).reshape(11, 2, 2) * 28)
    assert tuple(ones.shape) == (4,) and numbers.tolist() == [0, 1, 2, 3] and mt.equal(part, y[:3])
    assert model(x.to("meta"), y.to("meta"))[1].is_meta
    with pytest.raises(ValueError, match="argument 'x': size 0 must be between 3 and 64, and is 2"):
        model(x[:2], y)
    with pytest.raises(ValueError, match="argument 'y': size 1 must be 4, and is 5"):
        model(x, mt.ones(4, 5, device="cpu"))
    with pytest.raises(ValueError, match="expected .*float32"):
        model(x.double(), y)
    with pytest.raises(TypeError, match="the arguments must have 2 elements, got 1"):
        model(x)
    with pytest.raises(TypeError, match="must be a Tensor"):
        model(x, 1)


def test_branches_are_chosen_by_values():
    model = torch_export.load(ARCHIVES / "conditions_export.pt2")
    x = mt.ones(3, 4, device="cpu")
    assert mt.allclose(model(x), mt.nn.functional.linear(x, model.layer.weight, model.layer.bias))
    assert mt.equal(model(-x), -x - 1)
    with pytest.raises(mt.DataDependentError):
        model.to("meta")(x.to("meta"))


def test_a_program_that_depends_on_values_says_so():
    with pytest.warns(UserWarning, match=r"the graph reads values \(item of the result of gt"):
        program = mt.program.load(ARCHIVES / "conditions_export.pt2")
    assert program(mt.ones(3, 4, device="cpu")).shape == (3, 4)


@pytest.mark.parametrize("name", ["dictoutput_export.pt2", "sizes_export.pt2"])
def test_a_file_is_a_program_for_its_sizes(name, tmp_path):
    program = mt.program.load(ARCHIVES / name)
    model = torch_export.load(ARCHIVES / name)
    inputs = [mt.ones(v.shape, dtype=v.dtype, device="cpu") for v in program.inputs]
    found, expected = mt.utils._pytree.tree_leaves(program(*inputs)), mt.utils._pytree.tree_leaves(model(*inputs))
    assert all(map(mt.equal, found, expected))
    assert set(program.parameters) <= {name for name, _ in model.named_parameters()}
    program.save(tmp_path / "model.mtp")
    assert mt.program.equal(mt.program.load(tmp_path / "model.mtp"), program)


def test_torch_export_loads_it():
    torch = pytest.importorskip("metatensor.torch_api.torch")
    exported = torch.export.load(ARCHIVES / "sizes_export.pt2")
    assert exported.graph_signature.user_inputs == ("x", "y") and sorted(exported.range_constraints.values()) == [(3, 64), (3, 64)]
    x = mt.randn(5, 4, device="cpu")
    assert exported.module()(x, x)[0].shape == (10, 2, 2)
    with pytest.raises(AssertionError, match="size 0 must be between 3 and 64"):
        exported.module()(x[:1], x)
    with pytest.raises(NotImplementedError, match="train"):
        exported.module().train()
    exported = torch.export.load(ARCHIVES / "dictoutput_export.pt2")
    assert list(exported.state_dict) == ["layer.weight", "layer.bias"]
    assert exported.graph_signature.parameters == ("layer.weight", "layer.bias")
    assert tuple(exported.example_inputs[0][0].shape) == (3, 4)
    copied = exported.module()
    with mt.no_grad():
        copied.layer.weight.zero_()
    assert exported.state_dict["layer.weight"].abs().sum() > 0
    file = io.BytesIO()
    torch.export.save(exported, file)
    file.seek(0)
    x = mt.ones(3, 4, device="cpu")
    assert mt.equal(torch.export.load(file).module()(x)["logits"], exported.module()(x)["logits"])


def test_the_layout_of_earlier_versions():
    """Until PyTorch 2.8 the graph and the tensors were members of other names, and inputs did not say how they are passed."""
    data, out = zipfile.ZipFile(ARCHIVES / "dictoutput_export.pt2"), io.BytesIO()
    model = torch_export.load(ARCHIVES / "dictoutput_export.pt2")
    made = json.loads(data.read("archive/models/model.json"))
    for one in made["graph_module"]["graph"]["nodes"]:
        for given in one["inputs"]:
            del given["kind"]
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("serialized_exported_program.json", json.dumps(made))
        for name, tensors in (("state_dict", model.state_dict()), ("constants", {}), ("example_inputs", ((mt.ones(3, 4),), {}))):
            member = io.BytesIO()
            mt.save(tensors, member)
            file.writestr(f"serialized_{name}.pt", member.getvalue())
        file.writestr("version", "8.5")
    x = mt.randn(3, 4, device="cpu")
    old = torch_export.load(io.BytesIO(out.getvalue()))
    assert mt.equal(old(x)["logits"], model(x)["logits"])
    assert mt.equal(mt.program.load(io.BytesIO(out.getvalue()))(x)["logits"], model(x)["logits"])


def test_unknown_operators_are_listed():
    def change(made):
        node(made, "torch.ops.aten.relu.default")["target"] = "torch.ops.mine.relu.default"
        node(made, "torch.ops.aten.argmax.default")["target"] = "os.system"

    model = torch_export.load(rewritten("dictoutput_export.pt2", change))
    assert sorted(model.missing_operators) == ["os.system", "torch.ops.mine.relu.default"]
    with pytest.raises(NotImplementedError, match=r"torch.ops.mine.relu.default"):
        model(mt.ones(3, 4, device="cpu"))
    with pytest.raises(NotImplementedError, match=r"os.system"):
        mt.program.load(rewritten("dictoutput_export.pt2", change))


# Hostile files -----------------------------------------------------------------------------------------------------


def _without(key):
    return lambda made: made["graph_module"]["graph"].pop(key)


def _set(path, value):
    def change(made):
        for key in path[:-1]:
            made = made[key]
        made[path[-1]] = value

    return change


GRAPH = ("graph_module", "graph")


@pytest.mark.parametrize(("change", "message"), [
    (_without("nodes"), "nodes"),
    (_without("inputs"), "inputs"),
    (_set(("schema_version", "major"), 99), "version of its schema"),
    (_set(("graph_module", "signature", "input_specs"), []), "signature does not have the inputs"),
    (_set((*GRAPH, "nodes", 0, "inputs", 0, "arg"), {"as_tensor": {"name": "nothing"}}), "before it is defined"),
    (_set((*GRAPH, "nodes", 0, "inputs", 0, "arg"), {"as_int": "1"}), "of class str"),
    (_set((*GRAPH, "outputs", 0), {"as_tensor": {"name": "nothing"}}), "does not define"),
    (_set(("graph_module", "module_call_graph", 0, "signature", "in_spec"), "[1, {}]"), "structure"),
    (_set(("graph_module", "module_call_graph", 0, "signature", "out_spec"), "[" * 10000), "structure"),
    (_set((*GRAPH, "nodes", 0, "inputs", 0, "arg"), {"as_custom_obj": {"name": "x", "class_fqn": "y"}}), "as_custom_obj"),
])  # fmt: skip
def test_damaged_files_are_refused(change, message):
    with pytest.raises(CheckpointError, match=message):
        torch_export.load(rewritten("dictoutput_export.pt2", change))


@pytest.mark.parametrize(("members", "message"), [
    ({"models/model.json": b"{"}, "no JSON"),
    ({"models/model.json": b"[" * 100000}, "no JSON"),
    ({"models/model.json": b"[]"}, "schema"),
    ({"data/weights/weight_0": b"123"}, "needs 32 bytes"),
    ({"data/weights/weight_0": None}, "no member"),
    ({"data/weights/model_weights_config.json": None}, "no tensor"),
])  # fmt: skip
def test_damaged_members_are_refused(members, message):
    with pytest.raises(CheckpointError, match=message):
        torch_export.load(rewritten("dictoutput_export.pt2", members=members))


@pytest.mark.parametrize("edit", [
    {"sizes": [{"as_int": 1 << 40}], "strides": [{"as_int": 1}]}, {"sizes": [{"as_int": -1}], "strides": [{"as_int": 1}]},
    {"storage_offset": {"as_int": 1 << 61}}, {"dtype": 99}, {"strides": []},
])  # fmt: skip
def test_impossible_layouts_are_refused(edit):
    config = json.loads(zipfile.ZipFile(ARCHIVES / "dictoutput_export.pt2").read("archive/data/weights/model_weights_config.json"))
    next(iter(config["config"].values()))["tensor_meta"].update(edit)
    members = {"data/weights/model_weights_config.json": json.dumps(config).encode()}
    with pytest.raises((CheckpointError, NotImplementedError)):
        torch_export.load(rewritten("dictoutput_export.pt2", members=members))


@pytest.mark.slow
def test_members_that_expand_far_are_refused():
    data, out = zipfile.ZipFile(ARCHIVES / "dictoutput_export.pt2"), io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for entry in data.namelist():
            file.writestr(entry, bytes(80 << 20) if entry.endswith("weight_0") else data.read(entry))
    out.seek(0)
    with pytest.raises(CheckpointError, match="83,886,080 bytes"):
        torch_export.load(out)


def test_loops_and_powers_are_bounded():
    def change(made):
        nodes = made["graph_module"]["graph"]["nodes"]
        inputs = [{"name": "", "kind": 1, "arg": {"as_int": n}} for n in (10, 10**9)]
        nodes.insert(0, {"target": "_operator.pow", "metadata": {}, "outputs": [{"as_sym_int": {"as_name": "big"}}], "inputs": inputs})

    start = time.perf_counter()
    with pytest.raises(OverflowError):
        torch_export.load(rewritten("dictoutput_export.pt2", change))(mt.ones(3, 4, device="cpu"))
    assert time.perf_counter() - start < 10


@pytest.mark.parametrize(("text", "expected"), [
    ("s0", 5), ("2*s0 + 1", 11), ("Symbol('s0', positive=True, integer=True)", 5), ("Add(Mul(Integer(2), Symbol('s0')), Integer(-1))", 9),
    ("FloorDiv(s0, 2)", 2), ("s1", None), ("__import__('os')", None), ("s0 ** 10 ** 10", None), ("s0 //", None),
    ("Max(s0, 9)", 9), ("s0 // 0", None),
])  # fmt: skip
def test_expressions_of_sizes(text, expected):
    assert evaluated(text, {"s0": 5}) == expected
    assert name_of("Symbol('s0', integer=True)") == "s0" and name_of("s0 + 1") is None


WORDS = ("as_int", "as_tensor", "as_none", "name", "x", "null", "-1", "1e999", "9223372036854775808", "[]", "{}", '""', "true")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dictoutput_export.pt2", "sizes_export.pt2", "conditions_export.pt2"])
def test_mutated_files_are_refused_or_run(name):
    original = zipfile.ZipFile(ARCHIVES / name)
    members = [entry for entry in original.namelist() if entry.endswith(".json")]
    for seed in range(150):
        r = random.Random(seed)
        target, out = r.choice(members), io.BytesIO()
        with zipfile.ZipFile(out, "w") as file:
            for entry in original.namelist():
                content = original.read(entry)
                if entry == target:
                    text = bytearray(content)
                    for _ in range(r.choice([1, 1, 2])):
                        at = r.randrange(len(text))
                        word = r.choice(WORDS).encode()
                        text[at : at + r.choice([0, 1, len(word), 8])] = word if r.random() < 0.7 else bytes([r.randrange(256)])
                    content = bytes(text)
                file.writestr(entry, content)
        try:
            model = torch_export.load(io.BytesIO(out.getvalue()))
        except (CheckpointError, NotImplementedError):
            continue
        try:
            model(*[mt.ones(3, 4, device="cpu")] * (2 if "sizes" in name else 1))
        except (RuntimeError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError):
            pass
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                mt.program.load(io.BytesIO(out.getvalue()))
            except (CheckpointError, NotImplementedError):
                pass


# PyTorch -------------------------------------------------------------------------------------------------------------


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["export", pytest.param("core", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [name for name, kinds in NAMES.items() if "export" in kinds])
def test_modules_of_pytorch_give_its_values(name, kind):
    import torch

    from program import models_of_torch

    data, original, inputs = models_of_torch.written(name, kind)
    with torch.no_grad():
        expected = original(*[x.clone() for x in inputs])
    model = torch_export.load(io.BytesIO(data))
    assert {key for key, _ in model.named_parameters()} == {key for key, _ in original.named_parameters()}
    with mt.no_grad():
        same(model(*map(converted, inputs)), expected)
        same(mt.program.load(io.BytesIO(data))(*map(converted, inputs)), expected)
