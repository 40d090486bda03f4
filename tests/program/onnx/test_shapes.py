"""Dtypes and shapes of the values of a model, also where the onnx package's inference leaves some unknown."""

import json

import pytest

onnx = pytest.importorskip("onnx")
np = pytest.importorskip("numpy")
pytest.importorskip("metatensor_cpu")

import metatensor as mt
from metatensor.program import OnnxModel
from metatensor.program.onnx.importing.expressions import expression, points
from program.onnx import models
from program.onnx.models import INT64, model, node, value, weights


def shapes(made, **options):
    return {row.name: row for row in OnnxModel(made, device="meta").shapes(**options)}


def test_numbers_and_expressions():
    found = shapes(models.flattening(), sizes={"batch": 5})
    assert found["y"].shape == (5, 6) and found["y"].kind == "FLOAT" and str(found["y"]) == "y: FLOAT[5,6]"
    assert found["shape"] == ("shape", "INT64", (2,), None)
    assert shapes(models.flattening())["y"].shape == ("batch", 6)


def patches():
    """Return a model that cuts images into patches, with arithmetic on sizes."""
    nodes = [
        node("Conv", "x w", "c", strides=[2, 2], pads=[1, 1, 1, 1]), node("Shape", "c", "s"), node("Slice", "s two four", "hw"),
        node("ReduceProd", "hw", "n", keepdims=0), node("Cast", "n", "nf", to=1), node("Sqrt", "nf", "root"),
        node("Slice", "s zero two", "bc"), node("Unsqueeze", "n zero", "n1"), node("Concat", "bc n1", "flat", axis=0),
        node("Reshape", "c flat", "tokens"), node("Transpose", "tokens", "t", perm=[0, 2, 1]), node("Div", "t root", "y"),
        node("Range", "i0 n i1", "places"), node("Mul", "hw twice", "wide"), node("Slice", "s zero two", "head"),
        node("Concat", "head wide", "size", axis=0), node("Resize", "c - - size", "up"),
    ]  # fmt: skip
    held = {"zero": np.array([0]), "two": np.array([2]), "four": np.array([4]), "i0": np.int64(0), "i1": np.int64(1)}
    return model(nodes, ["x[batch,3,h,16]"], ["y", "up", value("places", INT64)], w=weights(8, 3, 3, 3), twice=np.array([2, 2]), **held)


def test_arithmetic_on_sizes():
    made = patches()
    found = shapes(made)
    assert found["c"].shape == ("batch", 8, "(h + 1)//2", 8)
    assert not [row for row in found.values() if row.reason]
    found = shapes(made, sizes={"h": 10})
    assert found["y"].shape == ("batch", 40, 8) and found["up"].shape == ("batch", 8, 10, 16) and found["places"].shape == (40,)
    fixed = shapes(made, sizes={"h": 10, "batch": 2})
    assert fixed["y"].shape == (2, 40, 8)
    missing = set(found) - models.inferred(made) - {"x"}
    assert {"y", "up", "places"} <= missing  # onnx.shape_inference does not find them
    net = OnnxModel(made, device="cpu")
    for got, name in zip(net(mt.ones(2, 3, 10, 16, device="cpu")), ("y", "up", "places"), strict=True):
        assert tuple(got.shape) == fixed[name].shape


def test_all_values_of_known_models():
    """With sizes given, nothing is unknown, and what the onnx package finds is the same."""
    for made, sizes in ((patches(), {"batch": 2, "h": 9}), (models.flattening(), {"batch": 3})):
        found = shapes(made, sizes=sizes)
        assert not [row for row in found.values() if row.reason]
        other = onnx.shape_inference.infer_shapes(made, data_prop=True)
        for one in (*other.graph.value_info, *other.graph.output):
            dims = [d.dim_value if d.HasField("dim_value") else sizes.get(d.dim_param) for d in one.type.tensor_type.shape.dim]
            if one.type.tensor_type.HasField("shape"):
                assert all(a is None or a == b for a, b in zip(dims, found[one.name].shape, strict=True))


def test_reasons():
    made = model([node("NonZero", "x", "n"), node("Neg", "n", "m"), node("Abs", "m", "z"), node("Relu", "x", "y")], ["x[4]"],
                 ["y", value("z", INT64)])  # fmt: skip
    found = shapes(made)
    assert found["y"].shape == (4,)
    assert "node 'n' (NonZero) of float32[4]" in found["n"].reason and found["n"].shape is None
    assert found["m"].reason == found["z"].reason == "depends on n"
    assert {row.name: row.shape for row in OnnxModel(made, device="meta").shapes(mt.ones(4, device="cpu"))}["z"] == (1, 4)


def test_a_model_that_takes_some_sizes_only():
    made = model([node("Reshape", "x shape", "y")], ["x[n]"], ["y"], shape=np.array([-1, 64]))
    assert shapes(made)["y"].shape == ("n/64", 64)  # evaluated at multiples
    made = model([node("Reshape", "x shape", "y")], ["x[n]"], ["y"], shape=np.array([7, 3]))
    assert "(Reshape)" in shapes(made)["y"].reason
    assert shapes(made, sizes={"n": 21})["y"].shape == (7, 3)


@pytest.mark.parametrize("text", [
    "4", "n", "3*n", "n*m", "2*n*m", "n + 1", "3*n - 2", "n + m", "n*m + n", "n//2", "(n + 1)//2", "(n - 3)//4",
])  # fmt: skip
def test_expressions(text):
    at = points(["m", "n"])
    found = expression(at, [eval(text, {}, point) for point in at])
    assert all(eval(str(found), {}, point) == eval(text, {}, point) for point in points(["m", "n"], 3))


def test_no_expression():
    at = points(["n"])
    assert expression(at, [point["n"] ** 3 % 101 for point in at]) is None


# The command --------------------------------------------------------------------------------------------


def test_commands_for_models(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(models.flattening(), path)
    found = command(path, "-i", "float32[3,4]", "-o", tmp_path / "model.mtp", name="trace")
    assert found.exit_code == 0, found.output
    assert mt.program.load(tmp_path / "model.mtp").outputs[0].shape == (3, 6)
    found = command(path, "-i", "float32[3,4]", "--json", name="estimate")
    assert found.exit_code == 0 and json.loads(found.output)["parameters"] == 30


def command(*args, name="inspect"):
    pytest.importorskip("rich")
    testing = pytest.importorskip("click.testing")
    from metatensor.cli.app import app

    return testing.CliRunner().invoke(app, [name, *map(str, args)])


def test_the_command(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(models.flattening(), path)
    found = command(path, "--shapes")
    assert found.exit_code == 0, found.output
    assert "y: FLOAT[batch,6]" in found.output and found.output.endswith("8 values\n")
    found = command(path, "--shapes", "--size", "batch=4", "--json")
    assert {"name": "y", "type": "FLOAT", "shape": [4, 6]} in json.loads(found.output)["values"]
    for args, words in ((("--size", "batch=4"), "needs --shapes"), (("--shapes", "--size", "batch"), "NAME=NUMBER"),
                        (("--shapes", "--size", "rows=1"), "it has batch"), (("--shapes", "--tree"), "cannot be combined")):  # fmt: skip
        found = command(path, *args)
        assert found.exit_code == 2 and words in found.output
    path.write_bytes(b"\x08\x07nothing")
    assert command(path, "--shapes").exit_code == 1
