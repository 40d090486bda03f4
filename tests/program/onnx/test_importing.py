"""`OnnxModel` and `from_onnx`."""

import copy
import io
import subprocess
import sys

import pytest

onnx = pytest.importorskip("onnx")
np = pytest.importorskip("numpy")
pytest.importorskip("metatensor_cpu")

import metatensor as mt
from metatensor.checkpoint import CheckpointError
from metatensor.program import OnnxModel, from_onnx
from metatensor.program.onnx import OnnxError
from program.onnx import models
from program.onnx.models import BOOL, INT64, graph, model, node, value, weights


def ones(*shape, device="cpu"):
    return mt.ones(*shape, device=device)


def saved(tmp_path, made, **options):
    path = tmp_path / "model.onnx"
    onnx.save(made, path, **options)
    return path


def expected(x):
    return np.maximum(x @ weights(6, 4).T + weights(6), 0)


def test_a_module(tmp_path):
    net = OnnxModel(saved(tmp_path, models.flattening()), device="cpu")
    assert [str(one) for one in net.inputs] == ["x: FLOAT[batch, 4]"]
    assert list(net.state_dict()) == ["fc.weight", "fc.bias"]  # integers that shapes depend on are constants
    assert [name for name, _ in net.named_parameters()] == ["fc.weight", "fc.bias"]
    np.testing.assert_allclose(net(ones(2, 4)).numpy(), expected(np.ones((2, 4))), rtol=1e-5)
    assert net(x=ones(3, 4)).shape == (3, 6)
    net.load_state_dict({"fc.weight": mt.zeros(6, 4), "fc.bias": mt.full((6,), 2.0)})
    assert net(ones(1, 4)).tolist() == [[2.0] * 6]
    on_meta = net.to("meta")
    assert on_meta(ones(5, 4, device="meta")).shape == (5, 6)
    assert not OnnxModel(models.flattening(), device="cpu").requires_grad_(False)(ones(1, 4)).requires_grad


def test_copies_have_their_own_parameters():
    net = OnnxModel(models.flattening(), device="cpu")
    other = copy.deepcopy(net)
    other.load_state_dict({"fc.weight": mt.zeros(6, 4), "fc.bias": mt.zeros(6)})
    assert other(ones(2, 4)).sum().item() == 0
    np.testing.assert_allclose(net(ones(2, 4)).numpy(), expected(np.ones((2, 4))), rtol=1e-5)


def test_gradients():
    net = OnnxModel(models.flattening(), device="cpu").requires_grad_(True)
    net(ones(2, 4)).sum().backward()
    assert net.fc.weight.grad.shape == (6, 4)


def test_meta_reads_no_data(tmp_path):
    path = saved(tmp_path, models.flattening(), save_as_external_data=True, location="data.bin", size_threshold=50)
    (tmp_path / "data.bin").write_bytes(b"")  # the bytes are not there
    assert OnnxModel(path, device="meta")(ones(2, 4, device="meta")).shape == (2, 6)
    with pytest.raises(CheckpointError, match="data.bin"):
        OnnxModel(path, device="cpu")


def test_external_data(tmp_path):
    path = saved(tmp_path, models.flattening(), save_as_external_data=True, location="data.bin", size_threshold=0)
    np.testing.assert_allclose(OnnxModel(path, device="cpu")(ones(2, 4)).numpy(), expected(np.ones((2, 4))), rtol=1e-5)
    np.testing.assert_allclose(from_onnx(path, sizes={"batch": 2})(ones(2, 4)).numpy(), expected(np.ones((2, 4))), rtol=1e-5)
    with pytest.raises(CheckpointError, match="path of the model"):
        OnnxModel(onnx.load(path, load_external_data=False), device="cpu")


@pytest.mark.parametrize("place", ["../data.bin", "/etc/passwd", "a/data.bin", "..", ""])
def test_external_data_elsewhere(tmp_path, place):
    made = models.flattening()
    (tmp_path / "in").mkdir()
    (tmp_path / "data.bin").write_bytes(bytes(96))
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=place)
    path = tmp_path / "in" / "model.onnx"
    path.write_bytes(made.SerializeToString())
    with pytest.raises(CheckpointError):
        OnnxModel(path, device="cpu")


def test_a_program(tmp_path):
    path = saved(tmp_path, models.flattening())
    program = from_onnx(path, sizes={"batch": 2})
    assert [call.op.name for call in program.calls] == ["nn.functional.linear", "nn.functional.relu", "view"]
    assert program.name == "sample" and program.kinds == {"fc.weight": "parameter", "fc.bias": "parameter"}
    x = mt.rand(2, 4, device="cpu")
    np.testing.assert_allclose(program(x).numpy(), expected(x.numpy()), rtol=1e-5)
    on_meta = from_onnx(path, sizes={"batch": 2}, device="meta")
    assert mt.program.equal(program, on_meta) and all(t.is_meta for t in on_meta.tensors.values())
    of_inputs = from_onnx(path, x)
    assert mt.equal(of_inputs(x), program(x)) and len(of_inputs) == 3


@pytest.mark.slow
def test_a_program_without_the_onnx_package(tmp_path):
    from_onnx(models.flattening(), sizes={"batch": 2}).save(tmp_path / "model.mtp")
    script = f"""
import sys
sys.modules["onnx"] = None
import metatensor as mt
program = mt.program.load({str(tmp_path / "model.mtp")!r})
assert program(mt.ones(2, 4, device="cpu")).shape == (2, 6)
try:
    mt.program.OnnxModel("model.onnx")
except ImportError as error:
    assert "metatensor-device[onnx]" in str(error)
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_constants_of_a_program_have_values():
    made = model([node("Shape", "x", "s"), node("Cast", "s", "f", to=1), node("ReduceProd", "f", "n", keepdims=0), node("Div", "x n", "y"),
                  node("Resize", "y - - sizes", "z", mode="linear", coordinate_transformation_mode="half_pixel_symmetric")],
                 ["x[1,1,2,n]"], ["z"], sizes=np.array([1, 1, 4, 5]))  # fmt: skip
    x = mt.arange(6.0, device="cpu").reshape(1, 1, 2, 3)
    program = from_onnx(made, sizes={"n": 3})
    assert mt.equal(program(x), OnnxModel(made, device="cpu")(x))
    assert not any(t.is_meta for t in program.tensors.values())


def test_sizes():
    with pytest.raises(ValueError, match="give sizes for 'batch'"):
        from_onnx(models.flattening())
    with pytest.raises(ValueError, match="'rows'"):
        from_onnx(models.flattening(), sizes={"batch": 1, "rows": 2})
    unnamed = model([node("Relu", "x", "y")], ["x[?,3]"], ["y"])
    assert from_onnx(unnamed, sizes={"x[0]": 4}).inputs[0].shape == (4, 3)


def test_values_of_inputs_are_fixed_visibly():
    """A program of a run on meta is told apart if values of inputs decided its shapes."""
    made = model([node("Reshape", "x shape", "y")], ["x[2,3]", value("shape[2]", INT64)], ["y"])
    x, shape = ones(2, 3), mt.tensor([3, 2], device="cpu")
    with pytest.raises(ValueError, match="one device, got cpu, meta"):
        from_onnx(made, x.to("meta"), shape)
    program = from_onnx(made, x, shape)
    assert program(x, shape).shape == (3, 2) and [read[1] for read in program.reads] == ["tolist"]
    net = OnnxModel(made, device="meta")
    program = mt.program.trace(net, x.to("meta"), shape)
    assert [read[1] for read in program.reads] == ["tolist"]
    assert all(t.is_meta for t in from_onnx(models.flattening(), ones(2, 4), device="meta").tensors.values())
    long = model([node("Add", "x n", "y")], ["x[m]", "n[m]"], ["y"])
    program = mt.program.trace(OnnxModel(long, device="meta"), mt.empty(20_000, device="meta"), ones(20_000))
    assert "add" in program.operators() and not program.held


def test_inputs_that_do_not_fit():
    net = OnnxModel(models.flattening(), device="cpu")
    with pytest.raises(TypeError, match="is missing"):
        net()
    with pytest.raises(TypeError, match="no input 'z'"):
        net(ones(1, 4), z=ones(1))
    with pytest.raises(TypeError, match="given twice"):
        net(ones(1, 4), x=ones(1, 4))
    with pytest.raises(TypeError, match="takes 1 inputs"):
        net(ones(1, 4), ones(1, 4))
    with pytest.raises(TypeError, match="must be a Tensor"):
        net(1.0)
    with pytest.raises(ValueError, match="float64"):
        net(ones(1, 4).double())
    with pytest.raises(ValueError, match=r"\[1, 5\]"):
        net(ones(1, 5))


def test_unsupported_operators_are_listed():
    net = OnnxModel(model([node("Own", "x", "y", domain="own"), node("ImageDecoder", "y", "z")], ["x"], ["z"], opset=20), device="cpu")
    assert net.missing == ("ImageDecoder", "own.Own")
    with pytest.raises(NotImplementedError, match=r"ImageDecoder, own\.Own"):
        net(ones(1))


def test_errors_name_the_node():
    net = OnnxModel(model([node("MatMul", "x w", "y", name="product")], ["x[2,n]"], ["y"], w=weights(3, 4)), device="cpu")
    with pytest.raises(OnnxError, match=r"node 'product' \(MatMul\) of float32\[2,5\], float32\[3,4\]"):
        net(ones(2, 5))
    with pytest.raises(OnnxError, match="uses 'q', which nothing before it makes"):
        OnnxModel(model([node("Relu", "q", "y")], ["x[2]"], ["y"]), device="cpu")(ones(2))


def branches(shape="n,2"):
    then = graph([node("Relu", "x", "a")], [], ["a"])
    other = graph([node("Neg", "x", "n"), node("Reshape", "n shape", "b")], [], ["b"], shape=np.array([int(n) for n in shape.split(",")]))
    return model([node("If", "flag", "y", then_branch=then, else_branch=other)], [value("flag[]", BOOL), "x[4,2]"], ["y"])


def test_a_branch_that_is_not_known():
    flag, x = mt.empty((), dtype=mt.bool, device="meta"), ones(4, 2, device="meta")
    net = OnnxModel(branches("4,2"), device="meta")
    assert net(flag, x).shape == (4, 2)  # both branches agree
    assert OnnxModel(branches("4,2"), device="cpu")(mt.tensor(False, device="cpu"), ones(4, 2)).sum().item() == -8
    net = OnnxModel(branches("2,4"), device="meta")
    with pytest.raises(mt.DataDependentError, match="condition"):
        net(flag, x)
    assert net(mt.tensor(False, device="cpu"), x).shape == (2, 4)  # an input on cpu keeps its value
    (_, _, row) = net.shapes()
    assert row.shape is None and "float32[4,2] or float32[2,4]" in row.reason


def test_graphs_of_nodes_with_equal_names():
    def branch(sign):
        return graph([node("Mul", "x w", "a")], [], ["a"], w=np.full(2, sign, np.float32))

    made = model([node("If", "flag", "y", name="same", then_branch=branch(1), else_branch=branch(2)),
                  node("If", "flag", "z", name="same", then_branch=branch(3), else_branch=branch(4))],
                 [value("flag[]", BOOL), "x[2]"], ["y", "z"])  # fmt: skip
    net = OnnxModel(io.BytesIO(made.SerializeToString()), device="cpu")
    y, z = net(mt.tensor(True, device="cpu"), ones(2))
    assert y.tolist() == [1.0, 1.0] and z.tolist() == [3.0, 3.0]
    assert {"same.then_branch.w", "same.then_branch.w_1"} < {name for name, _ in net.named_parameters()}
    twice = model([node("Add", "w w", "y")], [], ["y"], w=weights(2))
    twice.graph.initializer.append(twice.graph.initializer[0])
    with pytest.raises(CheckpointError, match="occurs twice"):
        OnnxModel(io.BytesIO(twice.SerializeToString()))
    with pytest.raises(CheckpointError, match="occurs twice"):
        OnnxModel(twice)


def looped():
    body = graph([node("Add", "sum x", "next"), node("Identity", "next", "row"), node("Identity", "go", "on")],
                 [value("i[]", INT64), value("go[]", BOOL), "sum[2]"], [value("on[]", BOOL), "next[2]", "row[2]"])  # fmt: skip
    return model([node("Loop", "count - start", "total rows", body=body)], [value("count[]", INT64), "start[2]", "x[2]"],
                 ["total[2]", "rows[k,2]"])  # fmt: skip


@pytest.mark.parametrize("count", [3, 1, 0])
def test_loops(count):
    net = OnnxModel(looped(), device="cpu")
    total, rows = net(mt.tensor(count, device="cpu"), mt.zeros(2, device="cpu"), ones(2))
    assert total.tolist() == [count] * 2 and rows.tolist() == [[i + 1.0] * 2 for i in range(count)]
    total, rows = net(mt.tensor(count, device="cpu"), mt.zeros(2, device="meta"), ones(2, device="meta"))
    assert total.shape == (2,) and rows.shape == (count, 2)


def test_a_loop_of_unknown_length():
    net = OnnxModel(looped(), device="meta")
    rows = {row.name: row for row in net.shapes()}
    assert rows["total"].shape == (2,) and "number of iterations" in rows["rows"].reason


def test_long_loops_end():
    net = OnnxModel(looped(), device="meta", limit=500)
    with pytest.raises(OnnxError, match="more than 500 nodes"):
        net(mt.tensor(1 << 60, device="cpu"), mt.zeros(2, device="meta"), ones(2, device="meta"))


def test_functions_of_a_model():
    function = onnx.helper.make_function(
        "own", "Scaled", ["x"], ["y"], [onnx.helper.make_node("LeakyRelu", ["x"], ["y"])], [onnx.helper.make_opsetid("", 18)], ["slope"]
    )
    attribute = onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    function.node[0].attribute.append(attribute)
    made = model([node("Scaled", "x", "y", domain="own", slope=0.5)], ["x[2]"], ["y"], functions=[function])
    assert OnnxModel(made, device="cpu")(mt.tensor([-2.0, 2.0], device="cpu")).tolist() == [-1.0, 2.0]
    endless = onnx.helper.make_function(
        "own", "Again", ["x"], ["y"], [onnx.helper.make_node("Again", ["x"], ["y"], domain="own")], [onnx.helper.make_opsetid("own", 1)]
    )
    made = model([node("Again", "x", "y", domain="own")], ["x[2]"], ["y"], functions=[endless])
    with pytest.raises(CheckpointError, match="nested too deeply"):
        OnnxModel(made, device="cpu")(ones(2))


def test_old_models_list_initializers_as_inputs():
    made = model([node("Add", "x w", "y")], ["x[2]", "w[2]"], ["y"], w=np.array([1.0, 2.0], np.float32))
    net = OnnxModel(made, device="cpu")
    assert [one.name for one in net.inputs] == ["x"]
    assert net(ones(2)).tolist() == [2.0, 3.0]
    assert net(ones(2), w=ones(2)).tolist() == [2.0, 2.0]


def test_memory_of_a_run_is_that_of_a_module():
    """Values are released after their last use."""
    made = model([node("Relu", "x" if i == 0 else f"h{i - 1}", f"h{i}") for i in range(8)], ["x[1000]"], ["h7"])
    with mt.analysis.MemoryTracker() as tracker:
        OnnxModel(made, device="meta")(mt.empty(1000, device="meta"))
    assert tracker.peak <= 3 * 4000


def test_files_that_are_no_models():
    for content in (b"", b"abc", b"\x08\x07\x12", models.flattening().SerializeToString()[:-7]):
        with pytest.raises(CheckpointError):
            OnnxModel(io.BytesIO(content))
