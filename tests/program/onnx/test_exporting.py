"""`Program.to_onnx`: names, initializers, ties, external data, metadata, sizes with names, further conversions, and what is refused."""

import math
import os
import subprocess
import sys

import pytest

import metatensor as mt
from metatensor import nn

pytest.importorskip("metatensor_cpu")
pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx

from metatensor.program.onnx.dtypes import dtype_of, element_type, type_name
from metatensor.program.onnx.exporting import ExportError
from program.onnx.exports import array, assert_close, exported, model_of, run


def rand(*shape):
    return mt.rand(*shape, device="cpu")


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 4)
        self.head = nn.Linear(4, 10, bias=False)
        self.head.weight = self.embedding.weight
        self.unused = nn.Linear(3, 3)

    def forward(self, ids, *, scale=None):
        x = self.head(self.embedding(ids))
        return {"logits": x if scale is None else x * scale, "parts": (x.sum(), [x.mean()])}


def traced(fn, *args, **kwargs):
    return mt.program.trace(fn, *args, **kwargs)


def names(values):
    return [value.name for value in values]


# What a model has ---------------------------------------------------------------------------------------------


def test_names_and_tied_parameters():
    model = Tied().to("cpu")
    ids, scale = mt.tensor([[1, 2, 3]], device="cpu"), rand(1)
    program = traced(model, ids, scale=scale)
    made = model_of(program)
    assert names(made.graph.input) == ["ids", "scale"]
    assert names(made.graph.output) == ["logits", "parts_0", "parts_1_0"]
    parameters = [t for t in made.graph.initializer if "weight" in t.name]
    assert names(parameters) == ["embedding.weight"]                            # once, and what is not used is not there
    props = {p.key: p.value for p in made.metadata_props}
    assert set(props) == {"tied:head.weight", "metatensor.program"} and props["tied:head.weight"] == "embedding.weight"
    assert made.producer_name == "metatensor" and made.opset_import[0].version == 21
    made = exported(program, input_names=["ids"], output_names=["y"])
    loaded = onnx.load_from_string(made)
    assert names(loaded.graph.input) == ["ids", "scale"] and names(loaded.graph.output)[0] == "y"
    result = model(ids, scale=scale)
    for got, t in zip(run(made, ids, scale), (result["logits"], result["parts"][0], result["parts"][1][0])):
        assert_close(got, array(t))


def test_the_same_tensor_twice_is_one_input():
    x = rand(3)
    program = traced(lambda a, b: a + b, x, x)
    assert len(model_of(program).graph.input) == 1
    assert_close(run(exported(program), x)[0], array(x + x))


def test_metadata_of_nodes():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU()).to("cpu")
    program = traced(model, rand(2, 3))
    node = model_of(program).graph.node[0]
    found = {p.key: p.value for p in node.metadata_props}
    assert found["operator"] == "nn.functional.linear" and found["module"] == "0" and node.name == "0/Gemm"
    here = traced(lambda x: x.exp(), rand(3))
    source = {p.key: p.value for p in model_of(here).graph.node[0].metadata_props}["source"]
    assert source.startswith(__file__) and source.rpartition(":")[2].isdigit()
    assert "operator: exp" in model_of(here, opset=18).graph.node[0].doc_string
    assert not model_of(here, metadata=False).graph.node[0].metadata_props


def test_external_data(tmp_path):
    model = nn.Sequential(nn.Linear(30, 40), nn.Linear(40, 2)).to("cpu")
    x = rand(2, 30)
    path = tmp_path / "model.onnx"
    traced(model, x).to_onnx(path, external_data=True)
    assert sorted(os.listdir(tmp_path)) == ["model.onnx", "model.onnx.data"]
    onnx.checker.check_model(str(path), full_check=True)
    small = {t.name for t in onnx.load(path, load_external_data=False).graph.initializer if t.data_location != onnx.TensorProto.EXTERNAL}
    assert {"1.bias", "0.bias", "1.weight"} == {name for name in small if "." in name}
    assert_close(run(onnx.load(path).SerializeToString(), x)[0], array(model(x)))
    assert mt.checkpoint.load(path)["0.weight"].equal(model[0].weight)
    traced(model, x).to_onnx(path, external_data=False)
    assert path.stat().st_size > 40 * 30 * 4
    with pytest.raises(ValueError, match="external_data"), open(tmp_path / "other", "wb") as file:
        traced(model, x).to_onnx(file, external_data=True)


def test_parameters_without_data():
    with mt.device("meta"):
        model = nn.Linear(3, 4)
        program = traced(model, mt.empty(2, 3))
    with pytest.raises(ExportError, match="'weight' has no data.*parameters=False"):
        exported(program)
    made = exported(program, parameters=False)
    assert names(onnx.load_from_string(made).graph.input) == ["input", "weight", "bias"]
    own = nn.Linear(3, 4).to("cpu")
    x = rand(2, 3)
    assert_close(run(made, x, own.weight, own.bias)[0], array(own(x)))
    assert_close(run(exported(program.bind(own.state_dict())), x)[0], array(own(x)))


def test_dtypes_both_ways():
    for dtype in (mt.float32, mt.bfloat16, mt.bool, mt.float8_e4m3fn, mt.complex64):
        assert dtype_of(element_type(dtype)) is dtype
    assert element_type(mt.float16) == onnx.TensorProto.FLOAT16 and type_name(8) == "STRING" and type_name(1000) == "number 1000"
    for wrong in (8, 22, 1000):
        with pytest.raises(TypeError, match="no dtype"):
            dtype_of(wrong)
    with pytest.raises(TypeError, match="complex32"):
        element_type(mt.complex32)


def test_other_dtypes_are_exported():
    weight = nn.Parameter(mt.rand(4, 3, device="cpu").to(mt.bfloat16))
    made = model_of(traced(lambda x: nn.functional.linear(x, weight), rand(2, 3).to(mt.bfloat16)))
    assert made.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16
    assert made.graph.initializer[0].raw_data == array(weight.detach().view(mt.uint8)).tobytes()


# Sizes with names -----------------------------------------------------------------------------------------------


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, ids):
        n, length = ids.shape
        x = self.embedding(ids) + mt.arange(length, device="cpu")[:, None] * 0.1
        q, k, v = self.qkv(x).view(n, length, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(n, length, 8)), x.mean(1)


def dims_of(made):
    graph = onnx.load_from_string(made).graph
    return [[d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in (*graph.input, *graph.output)]


@pytest.mark.slow
def test_sizes_with_names():
    model = Attention().to("cpu").eval()
    ids = mt.randint(0, 20, (2, 5), device="cpu")
    program = traced(model, ids, sizes={"batch": (1, 16), "length": (1, 64)}, dims=[["batch", "length"]])
    made = exported(program)
    assert dims_of(made) == [["batch", "length"], ["batch", "length", 8], ["batch", 8]]
    for shape in ((2, 5), (1, 1), (7, 3), (4, 13)):
        ids = mt.randint(0, 20, shape, device="cpu")
        for got, t in zip(run(made, ids), model(ids)):
            assert_close(got, array(t))


@pytest.mark.parametrize("fn", [
    lambda x: x.reshape(-1), lambda x: x.reshape(x.shape[0] * 2, -1), lambda x: x.new_zeros(x.shape[0], 3) + 1,
    lambda x: x.repeat(1, 2).view(x.shape[0], 2, -1), lambda x: mt.cat([x, x[:1]]).view(x.shape[0] + 1, 4), lambda x: x * x.shape[0],
    lambda x: x.unsqueeze(1).expand(x.shape[0], 3, 4).reshape(-1, 4), lambda x: x.chunk(2, 1), lambda x: x.softmax(0).sum(0),
    lambda x: x[: x.shape[0] - 1], lambda x: mt.ones(x.shape[0], x.shape[0], device="cpu").tril(), lambda x: x[mt.arange(x.shape[0]) // 2],
    lambda x: x.roll(1, 0), lambda x: x.select(0, x.shape[0] - 1), lambda x: nn.functional.pad(x, (0, 0, 1, 2)), lambda x: x.flip(0),
    lambda x: x.repeat_interleave(2, 0), lambda x: x.sort(0)[0], lambda x: mt.linspace(0, 1, 3) + x[:, :3], lambda x: x.cumsum(0),
])  # fmt: skip
def test_functions_of_a_size(fn):
    with mt.device("cpu"):
        made = exported(traced(fn, mt.rand(4, 4), sizes={"n": (1, 16)}, dims=[["n", None]]))
        for n in (3, 6, 11):
            x = mt.rand(n, 4)
            results = fn(x)
            for got, t in zip(run(made, x), results if isinstance(results, tuple) else (results,)):
                assert_close(got, array(t))


@pytest.mark.parametrize(("fn", "text"), [
    (lambda x: x[: x.shape[0] // 2 + 1], "n//2 + 1"), (lambda x: x[: int(x.shape[0] * 0.7)], "int(n * 0.7)"),
    (lambda x: x[: -(-x.shape[0] // 3)], "ceil(n/3)"), (lambda x: x[: x.shape[0] % 5 + 1], None),
    (lambda x: x[: round(x.shape[0] / 4) + 1], "round(n / 4) + 1"),
    (lambda x: x / x.shape[0] ** 0.5, "n"), (lambda x: x * math.sqrt(x.shape[0]) - math.log(x.shape[0]), "n"),
    (lambda x: nn.functional.pad(x, (0, 0, 0, -x.shape[0] % 8)), None),
])  # fmt: skip
def test_expressions_of_a_size(fn, text):
    program = traced(fn, rand(9, 4), sizes={"n": (2, 60)}, dims=[["n", None]])
    made = exported(program)
    assert text is None or dims_of(made)[1][0] == text
    for n in (2, 3, 7, 8, 16, 31, 60):
        x = rand(n, 4)
        got = run(made, x)[0]
        assert got.shape == tuple(fn(x).shape)
        assert_close(got, array(fn(x)))


def test_expressions_in_dimensions_of_inputs():
    program = traced(lambda x, y: x[: y.shape[0]] + y, rand(9, 4), rand(4, 4), sizes={"n": (2, 60)}, dims=[["2*n + 1", None], ["n", None]])
    assert dims_of(exported(program)) == [["2*n + 1", 4], ["n", 4], ["n", 4]]
    alone = traced(lambda x: x.sum(1) * (x.shape[0] // 2), rand(9, 4), sizes={"n": (2, 60)}, dims=[["2*n + 1", None]])
    x = rand(13, 4)
    assert_close(run(exported(alone), x)[0], array(x.sum(1) * 6))


def test_other_calls_at_other_sizes():
    program = traced(lambda x: x.exp() if x.shape[0] < 6 else x.sin(), rand(3, 4), sizes={"n": (1, 60)}, dims=[["n", None]])
    with pytest.warns(UserWarning, match="the calls for n <= 5, and is not that of n >= 6"):
        made = exported(program)
    x = rand(4, 4)
    assert_close(run(made, x)[0], array(x.exp()))


def test_views_of_some_sizes_are_the_same_model(recwarn):
    program = traced(lambda x: x.transpose(0, 1).reshape(-1) + 1, rand(3, 4), sizes={"a": (1, 60), "b": (1, 60)}, dims=[["a", "b"]])
    made = exported(program)
    assert len(program.pieces) > 1 and not [w for w in recwarn if w.category is UserWarning]
    for shape in ((1, 5), (5, 1), (3, 7)):
        x = rand(*shape)
        assert_close(run(made, x)[0], array(x.t().reshape(-1) + 1))


def test_what_depends_on_sizes_otherwise_is_refused():
    with mt.device("cpu"):
        program = traced(lambda x: nn.functional.avg_pool1d(x.t(), x.shape[0]), mt.rand(4, 4), sizes={"n": (2, 9)}, dims=[["n", None]])
    with pytest.raises(ExportError, match="a number in it depends on the sizes"):
        exported(program)


# Functions ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_modules_as_functions():
    layers = [nn.TransformerEncoderLayer(8, 2, 16, batch_first=True) for _ in range(2)]
    model = nn.Sequential(*layers, nn.Linear(8, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 3))).to("cpu").eval()
    x = rand(2, 5, 8)
    program = traced(model, x)
    made = model_of(program, functions=True)
    assert [node.op_type for node in made.graph.node][:2] == ["m_0", "m_0"]             # the layers share a function
    assert len(made.graph.node) == 4 and {node.domain for node in made.graph.node} == {"metatensor.modules"}
    assert {p.value for node in made.graph.node for p in node.metadata_props if p.key == "module"} == {"0", "1", "2", "3"}
    assert_close(run(exported(program, functions=True), x)[0], array(model(x)))
    assert_close(run(exported(program, functions=True, opset=18, metadata=False), x)[0], array(model(x)))


def test_functions_of_a_module_that_is_called_twice():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))

        def forward(self, x):
            y = self.inner(x)
            return self.inner(y + x).exp(), y

    model, x = Twice().to("cpu"), rand(2, 3)
    made = model_of(traced(model, x), functions=True)
    assert len(made.functions) == 1 and [node.op_type for node in made.graph.node] == ["inner", "Add", "inner", "Exp"]
    for got, t in zip(run(exported(traced(model, x), functions=True), x), model(x)):
        assert_close(got, array(t))


# What is refused ------------------------------------------------------------------------------------------------


def test_all_operators_without_a_form_are_listed():
    def fn(x):
        y = mt.rand(3, device="cpu")
        z = mt.linalg.eigh(x).eigenvalues
        return x[x > 0], y + z, mt.linalg.eigh(x * 2).eigenvalues

    with pytest.raises(ExportError) as error:
        exported(traced(fn, rand(3, 3)))
    text = str(error.value)
    assert text.startswith("fn: these calls cannot be converted to ONNX:\n")
    for name in ("rand ", "linalg.eigh ", "nonzero "):
        assert f"  {name}" in text
    assert f"{__file__}:" in text and {one.operator for one in error.value.unsupported} >= {"rand", "linalg.eigh"}
    places = [one.place for one in error.value.unsupported if one.operator == "linalg.eigh"]
    assert len(set(places)) == 2 and all(line.count(":") >= 1 for line in text.split("\n")[:-1])
    assert text.split("\n")[-1].startswith("Replace them in the model, or pass to_onnx() conversions of linalg.eigh, ")


@pytest.mark.parametrize(("fn", "words"), [
    (lambda x: x.add_(1), "add_ .a write to an argument|copy_ .a write to an argument"),
    (lambda x: mt.complex(x, x).abs(), "complex numbers"),
    (lambda x: nn.functional.dropout(x, 0.5), "random numbers"),
    (lambda x: x.view(mt.int32), "a view of another dtype"),
    (lambda x: mt.fft.fft(x).real, "complex"),
])  # fmt: skip
def test_refusals(fn, words):
    with pytest.raises(ExportError, match=words):
        exported(traced(fn, rand(3, 4)))


def test_a_training_step_is_refused():
    model = nn.Linear(3, 1).to("cpu")

    def step(x):
        model(x).sum().backward()

    with pytest.raises(ExportError, match="sets the gradient of"):
        exported(traced(step, rand(2, 3)))
    norm = nn.BatchNorm1d(3).to("cpu")
    with pytest.raises(ExportError, match="a write to buffer 'running_mean'"):
        exported(traced(norm, rand(2, 3)))


def test_writes_that_are_ignored():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", mt.ones(3))
            self.register_buffer("table", mt.zeros(3))
            self.norm = nn.BatchNorm1d(3)

        def forward(self, x):
            before = self.n + 0
            self.n[1:] += 2
            self.table = self.table + x.mean(0)
            x.add_(1)
            return self.norm(x) + self.n, before, self.n[1:], self.table, x

    model, x = Counter().to("cpu"), rand(4, 3)
    program = traced(model, x.clone())
    with pytest.raises(ExportError, match="replaces 'table'"):
        exported(program)
    made = exported(program, ignore_writes=True)
    state = {name: t.clone() for name, t in program.tensors.items()}
    outputs = run(made, x.clone())
    for got, t in zip(outputs, program.bind(state)(x.clone())):
        assert_close(got, array(t))


@pytest.mark.parametrize("options", [{"opset": 17}, {"opset": 1000}, {"input_names": ["a", "b"]}, {"output_names": ["a", "b"]},
                                     {"input_names": ["weight"]}, {"input_names": [""]}])  # fmt: skip
def test_wrong_options(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        exported(traced(nn.Linear(3, 4).to("cpu"), rand(2, 3)), **options)


@pytest.mark.slow
def test_without_the_package():
    code = ("import sys; sys.modules['onnx'] = None\nimport metatensor as mt\n"
            "p = mt.program.trace(lambda x: x + 1, mt.empty(3, device='meta'))\n"
            "try: p.to_onnx('x.onnx')\nexcept ImportError as error: print(error)")  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert "metatensor-device[onnx]" in done.stdout, done.stderr


def test_nothing_is_written_if_the_export_fails(tmp_path):
    with pytest.raises(ExportError):
        traced(lambda x: x[x > 0], rand(3)).to_onnx(tmp_path / "model.onnx", external_data=True)
    assert not os.listdir(tmp_path)


# Operators of the user's own -----------------------------------------------------------------------------------


@mt.op("onnxtests::twice")
def twice(x: mt.Tensor, factor: float = 1.0) -> mt.Spec:
    return mt.Spec(x.shape, x.dtype)


@twice.kernel("cpu")
def twice_cpu(out, x, factor=1.0):
    out.copy_(x * 2 * factor)


@mt.op("onnxtests::thrice")
def thrice(x: mt.Tensor) -> mt.Spec:
    return mt.Spec(x.shape, x.dtype)


@thrice.decomposition
def thrice_decomposed(x):
    return x * 3


def test_custom_operators():
    program = traced(lambda x: twice(x, 2.0) + 1, rand(3))
    with pytest.raises(ExportError, match="onnxtests"):
        exported(program)

    def plain(graph, arguments, result):
        return graph.op("Mul", arguments.x, graph.number(2 * arguments.factor, result.dtype))

    def own(graph, arguments, result):
        return graph.op("Twice", arguments.x, domain="my.domain", factor=arguments.factor)

    name = next(name for name in program.operators() if "twice" in name)
    x = rand(3)
    assert_close(run(exported(program, conversions={name: plain}), x)[0], array(x * 4 + 1))
    made = model_of(program, conversions={name: own})
    assert made.graph.node[0].domain == "my.domain" and {o.domain for o in made.opset_import} == {"", "my.domain"}


def test_custom_operators_with_a_decomposition():
    x = rand(3)
    assert_close(run(exported(traced(lambda x: thrice(x), mt.empty(3, device="meta"))), x)[0], array(x * 3))
