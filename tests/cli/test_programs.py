"""``metatensor trace``, and programs as arguments of ``inspect``, ``diff`` and ``run``."""

import json
import shutil
import zipfile
from pathlib import Path

import pytest

import metatensor as mt

ARCHIVES = Path(__file__).parent.parent / "program/archives"


@pytest.fixture
def traced(models, run):
    """The folder of the models with net.mtp, wide.mtp and step.mtp."""
    for name, *arguments in (("net.mtp", "models.py:Net"), ("wide.mtp", "models.py:Net", "--args", "depth=3"),
                             ("step.mtp", "models.py:Net", "--train", "--optimizer", "sgd")):  # fmt: skip
        result = run("trace", *arguments, "-i", "float32[3,8]", "-o", name)
        assert result.exit_code == 0, result.output
        assert result.stdout.startswith(f"{name}: ")
    return models


def with_data(name):
    """Save a program of a linear layer with data, and return the layer."""
    layer = mt.nn.Linear(8, 2, device="cpu")
    mt.program.trace(layer, mt.rand(3, 8, device="cpu")).save(name)
    return layer


def test_trace_writes_a_program_that_runs(traced):
    program = mt.program.load("net.mtp")
    assert program.operators() == {"nn.functional.linear": 2, "mul": 1}
    assert set(program.parameters) == {f"layers.{i}.{name}" for i in (0, 1) for name in ("weight", "bias")}
    assert not any(call.grad for call in program.calls)
    assert program(mt.empty(3, 8, device="meta")).shape == (3, 8)


def test_trace_of_a_training_step(traced):
    program = mt.program.load("step.mtp")
    assert {effect.kind for effect in program.effects} == {"grad"} and len(program.effects) == 4
    assert any(call.backward for call in program.calls) and program.outputs[0].shape == ()
    written = {value.storage for call in program.calls for value in call.writes}
    assert {value.storage for value in program.parameters.values()} <= written


def test_trace_writes_source(models, run):
    result = run("trace", "models.py:Net", "-i", "float32[3,8]", "-i", "scale=2.0", "-o", "net.py")
    assert result.exit_code == 0, result.output
    scope = {}
    with open("net.py") as file:
        exec(file.read(), scope)
    tensors = {f"layers.{i}.{name}": mt.empty(shape, device="meta") for i in (0, 1) for name, shape in (("weight", (8, 8)), ("bias", 8))}
    assert scope["forward"](tensors, mt.empty(3, 8, device="meta")).shape == (3, 8)


def test_trace_and_inspect_draw_the_graph(traced, run):
    result = run("trace", "models.py:Net", "-i", "float32[3,8]", "-o", "net.html")
    assert result.exit_code == 0 and result.stdout.startswith("net.html: Net, 3 calls"), result.output
    result = run("inspect", "net.mtp", "--html", "again.html")
    assert result.exit_code == 0 and "Net: 3 calls" in result.stdout, result.output
    for name in ("net.html", "again.html"):
        with open(name, encoding="utf-8") as file:
            assert "<h1>Net</h1>" in file.read()
    result = run("inspect", "models.py", "--html", "no.html")
    assert result.exit_code == 2 and "models.py is not a program; --html needs one" in result.stderr
    result = run("inspect", "net.mtp", "--html", "missing/graph.html")
    assert result.exit_code == 1 and "missing/graph.html: No such file" in result.stderr and "Traceback" not in result.output


def test_trace_writes_onnx_models(models, run):
    onnx = pytest.importorskip("onnx")
    result = run("trace", "models.py:Net", "-i", "float32[3,8]", "-o", "net.onnx")
    assert result.exit_code == 0 and result.stdout.startswith("net.onnx: "), result.output
    names = [value.name for value in onnx.load("net.onnx").graph.input]
    assert names[0] == "x" and len(names) == 5                                    # parameters are inputs
    with mt.device("cpu"):
        mt.checkpoint.save({name: mt.zeros(8, 8) if "weight" in name else mt.ones(8) for name in names[1:]}, "net.safetensors")
    result = run("trace", "models.py:Net", "-i", "float32[3,8]", "--weights", "net.safetensors", "-o", "full.onnx")
    assert result.exit_code == 0, result.output
    model = onnx.load("full.onnx")
    assert len(model.graph.input) == 1 and {t.name for t in model.graph.initializer} >= set(names[1:])
    for arguments, status, words in (
        (("models.py:Net", "-i", "float32[3,8]", "--train", "-o", "step.onnx"), 1, "sets the gradient of"),
        (("models.py:Net", "-i", "float32[3,8]", "--weights", "net.safetensors", "-o", "net.mtp"), 2, "--weights needs an ONNX model"),
        (("models.py:Net", "-i", "float32[3,8]", "-o", "no/such/net.onnx"), 2, "there is no folder 'no/such'"),
    ):
        result = run("trace", *arguments)
        assert result.exit_code == status and words in result.output, result.output


@pytest.mark.parametrize(("arguments", "status", "words"), [
    (("models.py:Net", "-o", "net.txt"), 2, "must end with .mtp"),
    (("models.py:Missing", "-o", "net.mtp"), 2, "has no 'Missing'"),
    (("models.py:Broken", "-i", "float32[1,8]", "-o", "net.mtp"), 1, "shapes cannot be multiplied"),
    (("models.py:cannot", "-o", "net.mtp"), 1, "no such configuration"),
    (("models.py:Net", "--loss", "models.py:squared", "-o", "net.mtp"), 2, "--loss needs --train"),
    (("models.py:Net", "--train", "--optimizer", "best", "-o", "net.mtp"), 2, "there is no optimizer 'best'"),
    (("models.py:make_product", "-i", "float32[2,2]", "-i", "float32[2,2]", "--train", "-o", "net.mtp"), 2, "--train needs a module"),
    (("models.py:Net", "-i", "float32[1,8]", "-o", "no/such/folder.mtp"), 2, "there is no folder 'no/such'"),
    (("models.py:Net",), 2, "--output"),
])  # fmt: skip
def test_trace_failures(models, run, arguments, status, words):
    result = run("trace", *arguments)
    assert result.exit_code == status and words in result.output, result.output
    assert not list(models.glob("*.mtp"))


def test_inspect(traced, run):
    result = run("inspect", "net.mtp")
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "input x: float32[3,8]" in lines and "nn.functional.linear 2" in lines
    assert "4 parameters, 144 elements, 576 B; none with data" in lines
    assert lines[-1].startswith("Net: 3 calls of 2 operators")
    step = run("inspect", "step.mtp").stdout
    assert "belong to a backward pass" in step and "layers.0.weight.grad" in step


def test_inspect_json_and_calls(traced, run):
    with_data("data.mtp")
    found = json.loads(run("inspect", "data.mtp", "--json").stdout)
    assert found["format"] == "metatensor program" and found["calls"] == 1 and found["operators"] == {"nn.functional.linear": 1}
    assert found["tensors"]["weight"] == {"kind": "parameter", "dtype": "float32", "shape": [2, 8], "bytes": 64, "data": True}
    assert found["inputs"] == [{"name": "input", "dtype": "float32", "shape": [3, 8], "bytes": 96}] and "listing" not in found
    assert not json.loads(run("inspect", "net.mtp", "--json").stdout)["tensors"]["layers.0.bias"]["data"]
    assert "nn.functional.linear(input, weight, bias)" in run("inspect", "data.mtp", "--calls").stdout
    assert any("linear(input" in line for line in json.loads(run("inspect", "data.mtp", "--calls", "--json").stdout)["listing"])


def test_a_program_is_told_by_its_content(traced, run):
    (traced / "net.mtp").rename("net.bin")
    assert "Net: 3 calls" in run("inspect", "net.bin").stdout
    layer = mt.nn.Linear(2, 2, device="cpu")
    mt.save(layer.state_dict(), "checkpoint.mtp")
    assert "2 tensors, 6 elements" in run("inspect", "checkpoint.mtp").stdout


def test_inspect_refuses(traced, run):
    (traced / "broken.mtp").write_bytes((traced / "net.mtp").read_bytes()[:-40])
    assert run("inspect", "broken.mtp").exit_code == 1
    result = run("inspect", "net.mtp", "--tree")
    assert result.exit_code == 2 and "net.mtp is a program" in result.output
    assert "not a program" in run("inspect", "models.py", "--calls").output


def test_diff(traced, run):
    result = run("diff", "net.mtp", "wide.mtp")
    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert "+ nn.functional.linear(float32[3, 8], float32[8, 8], float32[8]) -> float32[3, 8]  (in layers.2)" in lines
    assert lines[-1] == "3 calls before, 4 after: 0 removed, 1 added, 2 parameters, buffers and constants differ"
    same = run("diff", "net.mtp", "net.mtp", "--json")
    assert json.loads(same.stdout) == {"before": "net.mtp", "after": "net.mtp", "comparison": "programs", "equal": True, "changes": []}
    assert "```diff" in run("diff", "net.mtp", "wide.mtp", "--markdown").stdout
    assert run("diff", "net.mtp", "net.mtp").stdout.endswith("; the programs are equal\n")
    assert run("trace", "models.py:wide", "-i", "float32[3,64]", "-o", "large.mtp").exit_code == 0
    lines = run("diff", "net.mtp", "large.mtp").stdout.replace("\n", " ")
    assert "~ layers.0.weight: float32[8, 8] -> float32[64, 64]" in lines
    assert "float32[64, 64], float32[64]) -> float32[3, 64]  (2 times, in layers.0, layers.1)" in lines
    assert lines.strip().endswith("both call the same operators in the same order")
    mixed = run("diff", "net.mtp", "models.py")
    assert mixed.exit_code == 2 and "net.mtp is a program, but models.py is a text file" in mixed.output
    assert run("diff", "net.mtp", "net.mtp", "--fail-on", "peak>1%").exit_code == 2


def test_run_on_meta(traced, run):
    result = run("run", "net.mtp", "-i", "float32[3,8]")
    assert result.exit_code == 0, result.output
    assert "output: float32[3,8]" in result.stdout and "768 FLOPs" in result.stdout
    assert json.loads(run("run", "net.mtp", "--json").stdout)["flops"] == 768
    assert run("run", "step.mtp").exit_code == 0


def test_run_on_cpu(traced, run):
    pytest.importorskip("metatensor_cpu")
    layer = with_data("data.mtp")
    result = run("run", "--device", "cpu", "data.mtp", "--seed", "3", "-o", "out.safetensors")
    assert result.exit_code == 0, result.output
    mt.manual_seed(3)
    want = layer(mt.randn(3, 8, device="cpu"))
    assert mt.equal(mt.load("out.safetensors")["output"], want.detach())
    assert f"max {want.max().item():.6g}" in result.stdout
    other = mt.nn.Linear(8, 2, device="cpu")
    mt.save(other.state_dict(), "other.safetensors")
    found = json.loads(run("run", "data.mtp", "--device", "cpu", "--seed", "3", "--json", "--weights", "other.safetensors").stdout)
    mt.manual_seed(3)
    assert found["outputs"]["output"]["mean"] == pytest.approx(other(mt.randn(3, 8, device="cpu")).mean().item(), rel=1e-5)


@pytest.mark.parametrize(("arguments", "status", "words"), [
    (("net.mtp", "--device", "cpu"), 1, "has no data for 4 of 4"),
    (("net.mtp", "-i", "float32[4,8]"), 2, "argument 'x': expected metatensor.float32[3, 8]"),
    (("net.mtp", "-i", "float32[3,8]", "-i", "scale=2.0"), 2, "no keyword arguments"),
    (("net.mtp", "-i", "float32["), 2, "cannot be read"),
    (("net.mtp", "-o", "x.safetensors"), 2, "needs a device with data"),
    (("net.mtp", "--weights", "models.py"), 1, "not a checkpoint"),
    (("--device", "meta", "--steps", "3", "--profile", "net.mtp"), 2, "is for scripts"),
    (("net.mtp", "--device", "nowhere"), 2, "nowhere"),
])  # fmt: skip
def test_run_failures(traced, run, arguments, status, words):
    result = run("run", *arguments)
    assert result.exit_code == status and words in result.output, result.output


def test_trace_with_named_sizes(models, run):
    inputs = ("-i", "float32[batch,8]", "-i", "scale=2.0", "--where", "batch in 1..64")
    result = run("trace", "models.py:Net", *inputs, "-o", "sized.mtp")
    assert result.exit_code == 0, result.output
    program = mt.program.load("sized.mtp")
    assert program(mt.empty(5, 8, device="meta"), scale=2.0).shape == program.at(batch=5).outputs[0].shape == (5, 8)
    shown = run("inspect", "sized.mtp")
    assert "size batch: 1..64" in shown.stdout and "input x: float32[batch,8]" in shown.stdout
    facts = json.loads(run("inspect", "sized.mtp", "--json").stdout)
    assert facts["sizes"] == {"batch": [1, 64, 1]} and facts["inputs"][0]["shape"] == ["batch", 8]
    assert run("run", "sized.mtp").exit_code == 0


@pytest.mark.parametrize(("inputs", "where", "words"), [
    ("float32[batch,8]", "batch in 1,2,7", "one range"), ("float32[batch,8]", "batch of 7", "not of the form"),
    ("float32[other,8]", "batch in 1..7", "other"),
])  # fmt: skip
def test_named_sizes_that_are_refused(models, run, inputs, where, words):
    result = run("trace", "models.py:Net", "-i", inputs, "--where", where, "-o", "sized.mtp")
    assert result.exit_code == 2 and words in result.stderr


def test_models_with_named_sizes(models, run):
    onnx = pytest.importorskip("onnx")
    result = run("trace", "models.py:Net", "-i", "float32[batch,8]", "--where", "batch in 1..7", "-o", "sized.onnx")
    assert result.exit_code == 0, result.stderr
    graph = onnx.load("sized.onnx").graph
    assert [d.dim_param or d.dim_value for d in graph.input[0].type.tensor_type.shape.dim] == ["batch", 8]
    assert graph.output[0].type.tensor_type.shape.dim[0].dim_param == "batch"


def test_files_that_pytorch_exported(models, run):
    shutil.copy(ARCHIVES / "dictoutput_export.pt2", "model.pt2")
    result = run("inspect", "model.pt2")
    assert result.exit_code == 0 and "input x: float32[3,4]" in result.stdout and "40 B; all with data" in result.stdout
    result = run("run", "model.pt2", "--device", "cpu")
    assert result.exit_code == 0 and "output['best']: int64[3]" in result.stdout
    assert run("diff", "model.pt2", "model.pt2").exit_code == 0
    text = Path("model.pt2").read_bytes()
    Path("model.pt2").write_bytes(text[:-200])
    assert run("inspect", "model.pt2").exit_code == 1


# Names of arguments, files of wrong kinds, wrong arguments -----------------------------------------------------


def test_arguments_are_called_like_the_parameters_of_forward(models, run):
    assert run("trace", "models.py:Net", "-i", "float32[3,8]", "-o", "net.mtp").exit_code == 0
    assert "x: float32[3, 8]" in run("inspect", "net.mtp", "--calls").stdout
    assert run("run", "net.mtp", "-i", "x=float32[3,8]").exit_code == 0
    result = run("run", "net.mtp", "-i", "y=float32[3,8]")
    assert result.exit_code == 2 and "expected 1 positional argument (x), got 0 and the keyword arguments y" in result.output
    assert run("trace", "models.py:Net", "-i", "float32[3,8]", "--train", "-o", "step.mtp").exit_code == 0
    program = mt.program.load("step.mtp")
    assert program.name == "Net training step" and program.names == ("x",)
    assert "def forward(tensors, x):" in program.code


@pytest.mark.parametrize(("inputs", "words"), [
    ((), "missing a required argument: 'x'"), (("float32[3,8]", "1.0", "2.0", "3.0"), "too many positional arguments"),
    (("float32[3,8]", "y=1.0"), "'y'"), (("float33[3,8]",), "is not a dtype"),
])  # fmt: skip
def test_inputs_that_forward_does_not_take(models, run, inputs, words):
    result = run("trace", "models.py:Net", *(one for text in inputs for one in ("-i", text)), "-o", "net.mtp")
    assert result.exit_code == 2 and words in result.stderr and "Traceback" not in result.output


@pytest.mark.parametrize(("content", "kind"), [
    (b"not a program\n", "a text file"), (b"", "an empty file"), (b"\xff\0\1\2" * 9, "a binary file of no known format"),
    (None, "a checkpoint (safetensors)"), ("zip", "a zip file without a program or a checkpoint"),
])  # fmt: skip
def test_files_of_other_kinds(traced, run, content, kind):
    if content is None:
        mt.checkpoint.save({"a": mt.ones(2, device="cpu")}, "other.mtp", format="safetensors")
    elif content == "zip":
        with zipfile.ZipFile("other.mtp", "w") as archive:
            archive.writestr("a.txt", "text")
    else:
        Path("other.mtp").write_bytes(content)
    result = run("run", "other.mtp")
    assert result.exit_code == 2 and f"other.mtp is {kind}; expected a Python script, a program" in result.stderr
    result = run("diff", "net.mtp", "other.mtp")
    assert result.exit_code == 2 and f"net.mtp is a program, but other.mtp is {kind}" in result.stderr
    result = run("inspect", "other.mtp")
    assert result.exit_code == 0 if content is None else f"other.mtp is {kind}, not a program" in result.stderr
    assert "is a folder" in run("run", ".").stderr


def test_onnx_models_run_and_are_described(models, run):
    pytest.importorskip("onnx")
    layer = mt.nn.Linear(8, 2, device="cpu")
    sized = mt.program.trace(layer, mt.rand(3, 8, device="cpu"), sizes={"batch": (1, 9)}, dims=[["batch", None]])
    sized.to_onnx("linear.onnx")
    result = run("run", "linear.onnx", "--device", "cpu")
    assert result.exit_code == 2 and "the sizes batch vary" in result.stderr and "input: FLOAT[batch, 8]" in result.stderr
    result = run("run", "linear.onnx", "-i", "input=float32[4,8]", "--device", "cpu", "--json")
    assert json.loads(result.stdout)["outputs"]["output"]["shape"] == [4, 2]
    assert "Linear: 1 calls on meta" in run("run", "linear.onnx", "-i", "float32[4,8]").stdout
    result = run("run", "linear.onnx", "-i", "int64[4,8]")
    assert result.exit_code == 2 and "must be of type FLOAT" in result.stderr
    shown = run("inspect", "linear.onnx").stdout
    for line in ("input input: FLOAT[batch, 8]", "output output: FLOAT[batch, 2]", "1 nodes of 1 operators; opset ai.onnx 21", "weight"):
        assert line in shown
    graph = json.loads(run("inspect", "linear.onnx", "--json").stdout)["graph"]
    assert graph["operators"] == {"Gemm": 1} and graph["inputs"][0]["shape"] == ["batch", 8]
    result = run("diff", "linear.onnx", "linear.onnx")
    assert result.exit_code == 2 and "linear.onnx is an ONNX model" in result.stderr and "metatensor trace linear.onnx" in result.stderr
    Path("broken.onnx").write_bytes(Path("linear.onnx").read_bytes()[:40])
    assert run("run", "broken.onnx").exit_code == 1
    assert "or an ONNX model (.onnx)" in " ".join(run("run", "--help").output.split())


MASKED = """
import metatensor as mt
class Masked(mt.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = mt.nn.Linear(4, 2)
        self.register_buffer("mask", mt.ones(4), persistent=False)
        self.register_buffer("noise", mt.rand(4), persistent=False)
    def forward(self, hidden):
        return self.fc(hidden * self.mask + self.noise)
"""


def test_buffers_without_data_are_named(models, run):
    Path("masked.py").write_text(MASKED)
    assert run("trace", "masked.py:Masked", "-i", "float32[3,4]", "-o", "masked.mtp").exit_code == 0
    result = run("run", "masked.mtp", "--device", "cpu")
    assert result.exit_code == 1 and "buffer 'noise', parameter 'fc.weight'" in result.stderr and "'mask'" not in result.stderr
    tensors = {"fc.weight": mt.ones(2, 4, device="cpu"), "fc.bias": mt.ones(2, device="cpu")}
    mt.checkpoint.save(tensors, "part.safetensors")
    result = run("run", "masked.mtp", "--device", "cpu", "--weights", "part.safetensors")
    assert result.exit_code == 1 and "buffer 'noise'; part.safetensors lacks" in result.stderr and "named_buffers" in result.stderr
    mt.checkpoint.save({**tensors, "noise": mt.zeros(4, device="cpu")}, "all.safetensors")
    assert run("run", "masked.mtp", "--device", "cpu", "--weights", "all.safetensors").exit_code == 0
