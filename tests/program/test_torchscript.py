"""TorchScript archives: modules of stored archives run without PyTorch, and those that PyTorch writes give its values."""

import copy
import io
import random
import time
import zipfile
from pathlib import Path

import pytest

import metatensor as mt
from metatensor.checkpoint import CheckpointError
from metatensor.program import torchscript
from metatensor.program.torchscript import interpreter
from program.torch_archives import NAMES, converted, same

ARCHIVES = Path(__file__).parent / "archives"


def changed(name, member, *edits):
    """Return an archive in which a member, found by the end of its name, has other text."""
    data = zipfile.ZipFile(ARCHIVES / name)
    out, found = io.BytesIO(), 0
    with zipfile.ZipFile(out, "w") as file:
        for entry in data.infolist():
            content = data.read(entry)
            if entry.filename.endswith(member):
                for old, new in edits:
                    assert old in content
                    content = content.replace(old, new)
                found += 1
            file.writestr(entry.filename, content)
    assert found
    return io.BytesIO(out.getvalue())


def with_body(*lines):
    """Return a module whose method ``forward`` takes `x` and has the given statements."""
    body = "\n".join(f"    {line}" for line in lines)
    text = zipfile.ZipFile(ARCHIVES / "loops_script.pt").read("archive/code/__torch__/program/models_of_torch.py")
    head = "class Loops(Module):\n  __parameters__ = []\n  training : bool\n"
    code = f"{head}  def forward(self: __torch__.program.models_of_torch.Loops, x: Any) -> Any:\n{body}\n"
    return torchscript.load(changed("loops_script.pt", "models_of_torch.py", (text, code.encode())))


# Stored archives --------------------------------------------------------------------------------------------


def test_a_scripted_module_with_loops_runs():
    model = torchscript.load(ARCHIVES / "loops_script.pt")
    x = mt.tensor([[4.0, 8.0, 1.0, 2.0], [1.0, 1.0, 1.0, 1.0], [2.0, 2.0, 0.0, 0.0]], device="cpu")
    total, steps = model(x)
    halved = x / 2**7
    expected = halved.sum(0).expand(3, 4) + mt.tensor([0.0, 0.0, 2.0], device="cpu").reshape(3, 1) * halved
    assert steps == 7 and mt.allclose(total, expected)


def test_lists_dicts_and_strings():
    x = mt.arange(12.0, device="cpu").reshape(3, 4)
    stacked, last, names, keys, total, squares, text, count = torchscript.load(ARCHIVES / "lists_script.pt")(x)
    assert mt.equal(stacked, mt.stack([x[0], x[0] * 0, x[1]], 1)) and mt.equal(last, x[2] * 2)
    assert names == {"part0": 0, "part1": 1, "part2": 2} and keys == list(names) and total == 3
    assert squares == [1.0, 4.0] and text == "part0-3" and count == 3


def test_methods_attributes_and_constants():
    model = torchscript.load(ARCHIVES / "methods_script.pt")
    x = mt.ones(2, 4, device="cpu")
    assert model.scale == 3 and model.shapes == [1, 2] and model.table == {"a": 1.5}
    assert mt.allclose(model(x), model.layer(x) * 3 * 1.5 + 2)
    assert mt.equal(model.doubled(x), x * 6 + 2)
    assert "forward" in model.methods and "doubled" in model.methods
    with pytest.raises(AttributeError, match="triple"):
        model.triple(x)
    model.scale = 5
    assert mt.equal(model.doubled(x), x * 10 + 2)


def test_enumerations():
    x = mt.ones(2, device="cpu")
    model = torchscript.load(ARCHIVES / "enumerations_script.pt")
    assert model.color.name == "RED" and mt.equal(model(x), x)


def test_a_traced_module_has_parameters_and_runs():
    model = torchscript.load(ARCHIVES / "dictoutput_trace.pt")
    assert list(dict(model.named_parameters())) == ["layer.weight", "layer.bias"] == list(model.state_dict())
    assert [name for name, _ in model.named_modules()] == ["", "layer"] and model.original_name == "DictOutput"
    assert model.missing_operators == [] and model.operators["aten::linear"]
    x = mt.randn(3, 4, device="cpu")
    found = model(x)
    assert list(found) == ["hidden", "logits", "best"]
    assert mt.allclose(found["logits"], mt.nn.functional.linear(x, model.layer.weight, model.layer.bias))
    found["logits"].sum().backward()
    assert mt.allclose(model.layer.weight.grad, x.sum(0).expand(2, 4))
    assert model.code.startswith("def forward(self:") and "torch.relu(%x)" in model.graph
    assert "original_name=DictOutput" in repr(model)


def test_a_module_moves_is_copied_and_becomes_a_program():
    model = torchscript.load(ARCHIVES / "dictoutput_trace.pt")
    x = mt.randn(3, 4, device="cpu")
    there = copy.deepcopy(model).to("meta")
    assert there(x.to("meta"))["logits"].is_meta and not model.layer.weight.is_meta
    assert torchscript.load(ARCHIVES / "dictoutput_trace.pt", device="meta").layer.weight.is_meta
    program = mt.program.trace(there, x.to("meta"))
    assert list(program.parameters) == ["layer.weight", "layer.bias"]
    assert mt.equal(program.bind(model.state_dict())(x)["logits"], model(x)["logits"])
    assert model.double()(x.double())["logits"].dtype is mt.float64


def test_values_on_which_code_depends_are_not_on_meta():
    model = torchscript.load(ARCHIVES / "loops_script.pt", device="meta")
    with pytest.raises(mt.DataDependentError):
        model(mt.ones(3, 4, device="meta"))


def test_wrong_arguments_are_named():
    model = torchscript.load(ARCHIVES / "methods_script.pt")
    with pytest.raises(RuntimeError, match="missing a value for argument 'x'"):
        model()
    with pytest.raises(RuntimeError, match="at most 2 arguments, got 3"):
        model(1, 2)
    with pytest.raises(RuntimeError, match="unknown keyword argument 'y'"):
        model(mt.ones(2, 4), y=1)
    with pytest.raises(RuntimeError, match="expected a value of type Tensor for argument 'x', got int"):
        model(3)


def test_a_program_file_is_asked_for():
    with pytest.raises(CheckpointError, match="TorchScript archive, which has no sizes"):
        mt.program.load(ARCHIVES / "loops_script.pt")


# Code ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("lines", "expected"), [
    (["return torch.floordiv(-7, 2)"], -4),
    (["return torch.remainder(-7, 3)"], 2),
    (["return torch.div(7, 2)"], 3.5),
    (["return torch.div(1, 0)"], float("inf")),
    (["return torch.add(9223372036854775807, 1)"], -9223372036854775808),
    (["return torch.mul([1, 2], 2)"], [1, 2, 1, 2]),
    (["return torch.pow(2, 3)"], 8.0),
    (["return torch.__lshift__(1, 70)"], 0),
    (["return torch.format(\"{} {}\", 1.0, \"a\")"], "1.0 a"),
    (["return torch.percentFormat(\"%d%% %.2f %s\", 3, 1.5, \"x\")"], "3% 1.50 x"),
    (["return torch.join(\"-\", [\"a\", \"b\"])"], "a-b"),
    (["return torch.slice([1, 2, 3, 4], 1, 4, 2)"], [2, 4]),
    (["return torch.slice(\"abcdef\", 1, 3, 1)"], "bc"),
    (["a = annotate(Dict[str, int], {\"a\": 1})", "torch._set_item(a, \"b\", 2)", "return torch.items(a)"], [("a", 1), ("b", 2)]),
    (["a = [3, 1, 2]", "torch.sort(a, True)", "return a"], [3, 2, 1]),
    (["a = [3, 1, 2]", "b = torch.pop(a, 0)", "return (a, b)"], ([1, 2], 3)),
    (["return isinstance(1, int), isinstance(\"a\", Optional[str]), isinstance([1], List[str])"], (True, True, False)),
    (["return [inf, -inf, float(\"2.5\"), int(3.9), bool(0), str(2)]"], [float("inf"), -float("inf"), 2.5, 3, False, "2"]),
    (["a, b, = (1, 2)", "a, b = b, a", "return (a, b)"], (2, 1)),
    (["a = 0", "for i in range(5):", "  if torch.eq(i, 3):", "    return a", "  a = torch.add(a, i)", "return -1"], 3),
    (["return ops.prim.max([1, 5, 2])"], 5),
    (["return torch.__is__(None, None)"], True),
    (["def inner():", "  y = torch.add(x, 1)", "  return y", "f = fork(inner)", "return torch.wait(f)"], 8),
])  # fmt: skip
def test_statements_and_functions(lines, expected):
    found = with_body(*lines)(7)
    assert found == expected and type(found) is type(expected)


def test_raised_errors_have_their_class_and_place():
    model = with_body("ops.prim.RaiseException(\"too long\", \"builtins.ValueError\")", "return x")
    with pytest.raises(ValueError, match="too long") as caught:
        model(1)
    assert not hasattr(caught.value, "__notes__") or "Loops.forward, line 5" in caught.value.__notes__[0]


def test_unknown_operators_are_listed_and_named():
    model = with_body("if torch.gt(x, 3):", "  return torch.sparse_thing(x)", "return ops.mine.kernel(x)")
    assert model.missing_operators == ["aten::sparse_thing", "mine::kernel"]
    with pytest.raises(NotImplementedError, match="no operator aten::sparse_thing"):
        model(5)
    with pytest.raises(NotImplementedError, match="no operator mine::kernel"):
        model(1)


# Hostile archives ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", [
    "return __import__(\"os\")", "return open(\"x\")", "return eval(\"1\")", "return getattr(x, \"__class__\")", "return (x).__class__",
    "return (self).__dict__", "return getattr(self, \"_interpreter\")", "return self._class", "return (\"{0.__class__}\").format(x)",
    "return torch.__class__(x)", "return ops.prim.__class__(x)", "return (lambda: 1)()", "return [i for i in x]", "import os",
    "return (self)._call_method(\"forward\")", "return (self)._apply(x)", "global x", "return f\"{x}\"", "x @= 1",
    "return __torch__.os.system(1)",
    "return CONSTANTS.c99999999999", "return CONSTANTS.__class__", "raise x", "del x", "return x[...]", "return {**x}",
    "return (yield)",
])  # fmt: skip
def test_code_reaches_nothing_of_python(line):
    with pytest.raises((RuntimeError, AttributeError, TypeError, KeyError, CheckpointError)):
        with_body(line)(mt.ones(2, device="cpu"))


@pytest.mark.parametrize("lines", [
    ["while True:", "  pass", "return 1"],
    ["a = [1]", "while True:", "  a = torch.add(a, a)", "return 1"],
    ["a = \"a\"", "while True:", "  a = torch.add(a, a)", "return 1"],
    ["return torch.mul([1], 1000000000000)"],
    ["return torch.center(\"a\", 100000000000)"],
    ["return ops.prim.rangelist(1000000000000)"],
    ["return torch.replace(torch.mul(\"a\", 10000), \"a\", torch.mul(\"b\", 100000))"],
    ["for i in range(1000000000000):", "  pass", "return 1"],
    ["return (self).forward(x, )"],
])  # fmt: skip
def test_code_is_bounded(lines, monkeypatch):
    monkeypatch.setattr(interpreter, "MAX_STEPS", 200_000)
    model = with_body(*lines)
    start = time.perf_counter()
    with pytest.raises(RuntimeError, match="more than|nested too deeply"):
        model(7)
    assert time.perf_counter() - start < 10


@pytest.mark.parametrize(("edits", "message"), [
    ([(b"class Loops(Module)", b"class Other(Module)")], "no class"),
    ([(b"def forward(", b"def forward(((")], "no TorchScript"),
    ([(b"x: Tensor", b"*x: Tensor")], "parameters that TorchScript does not have"),
])  # fmt: skip
def test_damaged_code_is_refused(edits, message):
    with pytest.raises(CheckpointError, match=message):
        torchscript.load(changed("loops_script.pt", "models_of_torch.py", *edits))


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"PK\5\6" + bytes(18))
    with pytest.raises(CheckpointError):
        torchscript.load(path)
    with pytest.raises(CheckpointError, match="no TorchScript archive"):
        torchscript.load(ARCHIVES / "sizes_export.pt2")


WORDS = (b"None", b"-1", b"9223372036854775807", b"self", b"x", b"[]", b"()", b"{}", b"torch.add", b"(", b"while", b"range", b"1000000000")


def mutated(data, r):
    data = bytearray(data)
    for _ in range(r.choice([1, 1, 2, 4])):
        at = r.randrange(len(data)) if data else 0
        kind = r.random()
        if kind < 0.4 and data:
            data[at] = r.randrange(256)
        elif kind < 0.6:
            del data[at : at + r.randrange(20)]
        else:
            word = r.choice(WORDS)
            data[at : at + r.choice([0, len(word)])] = word
    return bytes(data)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["loops_script.pt", "lists_script.pt", "methods_script.pt", "dictoutput_trace.pt"])
def test_mutated_archives_are_refused_or_run(name, monkeypatch):
    monkeypatch.setattr(interpreter, "MAX_STEPS", 20_000)
    original = zipfile.ZipFile(ARCHIVES / name)
    members = [entry for entry in original.namelist() if entry.endswith((".py", ".pkl"))]
    for seed in range(150):
        r = random.Random(seed)
        target = r.choice(members)
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as file:
            for entry in original.namelist():
                file.writestr(entry, mutated(original.read(entry), r) if entry == target else original.read(entry))
        out.seek(0)
        try:
            model = torchscript.load(out)
        except (CheckpointError, NotImplementedError):
            continue
        model.operators
        try:
            model(mt.ones(3, 4, device="cpu"))
        except (RuntimeError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError):
            pass


# PyTorch -----------------------------------------------------------------------------------------------------------


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, kinds in NAMES.items() for kind in kinds if kind in ("script", "trace")])
def test_modules_of_pytorch_give_its_values(name, kind):
    import torch

    from program import models_of_torch

    data, original, inputs = models_of_torch.written(name, kind)
    with torch.no_grad():
        expected = original(*[x.clone() for x in inputs])
    model = torchscript.load(io.BytesIO(data))
    assert list(model.state_dict()) == list(original.state_dict())
    with mt.no_grad():
        same(model(*map(converted, inputs)), expected)
    assert len(mt.program.trace(model, *map(converted, inputs)))


@pytest.mark.torch
def test_the_names_are_those_of_the_models():
    from program import models_of_torch

    assert {name: tuple(entry[2]) for name, entry in models_of_torch.MODELS.items()} == NAMES
