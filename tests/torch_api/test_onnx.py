"""torch.onnx.export: names, sizes that vary, files, modes, registered functions."""

import inspect
import io
import os

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.program.structure import leaves
from metatensor.torch_api.torch import onnx

pytest.importorskip("metatensor_cpu")
pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import load, load_from_string


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.drop, self.head = nn.Embedding(20, 8), nn.Dropout(), nn.Linear(8, 5)

    def forward(self, ids, weights=None, *, states=None):
        self.seen = onnx.is_in_onnx_export()
        x = self.drop(self.embedding(ids))
        x = x if weights is None else x * weights[..., None]
        return {"logits": self.head(x), "states": x.mean(1) if states is None else states[0] + x.mean(1)}


@pytest.fixture
def model():
    return Net().to("cpu").eval()


def ids(*shape):
    return mt.randint(0, 20, shape, device="cpu")


def names(values):
    return [value.name for value in values]


def dims(values):
    return [[d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim] for value in values]


def assert_right(made, model, *args, **kwargs):
    wanted = list(leaves(mt.Tensor, model(*args, **kwargs)))
    got = made(*args, **kwargs)
    assert len(got) == len(wanted) and all(mt.allclose(a, b, atol=1e-5) for a, b in zip(got, wanted))


def test_names_and_files(model, tmp_path):
    made = onnx.export(model, (ids(2, 3),), tmp_path / "a.onnx", kwargs={"states": [mt.rand(2, 8, device="cpu")]})
    assert isinstance(made, onnx.ONNXProgram) and model.seen and not onnx.is_in_onnx_export()
    assert names(made.model_proto.graph.input) == ["ids", "states"] and names(made.model_proto.graph.output) == ["logits", "states_1"]
    assert sorted(os.listdir(tmp_path)) == ["a.onnx", "a.onnx.data"]
    assert_right(made, model, ids(2, 3), states=[mt.rand(2, 8, device="cpu")])
    onnx.export(model, (ids(2, 3),), tmp_path / "b.onnx", external_data=False, input_names=["x"], output_names=["y"], opset_version=20)
    loaded = load(tmp_path / "b.onnx")
    assert names(loaded.graph.input) == ["x"] and names(loaded.graph.output) == ["y", "states"] and loaded.opset_import[0].version == 20
    file = io.BytesIO()
    made = onnx.export(model, (ids(2, 3),), file, verify=True)
    assert load_from_string(file.getvalue()).graph.node and "nodes=" in repr(made)


def test_programs_are_saved_in_several_ways(model, tmp_path):
    made = onnx.export(model, (ids(2, 3),))
    made.save(tmp_path / "a.onnx", include_initializers=False)
    assert "head.weight" in names(load(tmp_path / "a.onnx").graph.input)
    made.save(tmp_path / "b.onnx", keep_initializers_as_inputs=True)
    loaded = load(tmp_path / "b.onnx")
    assert "head.weight" in names(loaded.graph.input) and "head.weight" in names(loaded.graph.initializer)
    kept = onnx.export(model, (ids(2, 3),), tmp_path / "c.onnx", keep_initializers_as_inputs=True)
    assert "head.weight" in names(load(tmp_path / "c.onnx").graph.input)
    kept.save(io.BytesIO())
    with pytest.raises(NotImplementedError, match="external data"):
        kept.save(tmp_path / "d.onnx", external_data=True)
    other = Net().to("cpu").eval()
    made.initialize_inference_session()
    made.apply_weights(other.state_dict())
    assert_right(made, other, ids(2, 3))
    made.optimize()
    made.release()
    with pytest.raises(TypeError, match="expected 1 tensors"):
        made(ids(2, 3), ids(2, 3))


@pytest.mark.slow
def test_dynamic_axes(model):
    made = onnx.export(model, (ids(2, 3),), input_names=["x"], output_names=["y"], dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}})
    assert dims(made.model_proto.graph.input) == [["batch", 3]]
    for n in (1, 2, 5):
        assert_right(made, model, ids(n, 3))
    listed = onnx.export(model, (ids(2, 3),), dynamic_axes={"ids": [0, 1]})
    assert dims(listed.model_proto.graph.input) == [["ids_dynamic_axes_1", "ids_dynamic_axes_2"]]
    assert_right(listed, model, ids(4, 7))
    with pytest.raises(ValueError, match="names 'z'"):
        onnx.export(model, (ids(2, 3),), dynamic_axes={"z": {0: "batch"}})


@pytest.mark.parametrize("shapes", [
    {"ids": {0: "batch", 1: "length"}, "weights": None}, ({0: "batch", 1: "length"},), {"ids": ["batch", "length"]},
])  # fmt: skip
def test_dynamic_shapes(model, shapes):
    made = onnx.export(model, (ids(2, 3),), dynamic_shapes=shapes)
    assert dims(made.model_proto.graph.input) == [["batch", "length"]]
    assert_right(made, model, ids(6, 4))


@pytest.mark.slow
def test_dimensions_of_export(model):
    from metatensor.torch_api.torch.export import Dim

    made = onnx.export(model, (ids(2, 3),), dynamic_shapes={"ids": {0: Dim("n", max=8), 1: Dim.STATIC}})
    assert dims(made.model_proto.graph.input) == [["n", 3]]
    made = onnx.export(model, (ids(2, 3), mt.rand(2, 3, device="cpu")), dynamic_shapes={"ids": {0: "n"}, "weights": {0: "n", 1: None}})
    assert_right(made, model, ids(5, 3), mt.rand(5, 3, device="cpu"))
    made = onnx.export(model, (ids(2, 3),), dynamic_shapes={"ids": {0: Dim.DYNAMIC}})
    assert dims(made.model_proto.graph.input) == [["ids_dim_0", 3]]
    nested = onnx.export(model, (ids(2, 3),), kwargs={"states": [mt.rand(2, 8, device="cpu")]},
                         dynamic_shapes={"ids": {0: "n"}, "states": [{0: "n"}]})  # fmt: skip
    assert dims(nested.model_proto.graph.input) == [["n", 3], ["n", 8]]
    made = onnx.export(model, (ids(4, 3),), dynamic_shapes={"ids": {0: 2 * Dim("n")}})
    assert dims(made.model_proto.graph.input) == [["2*n", 3]]
    assert_right(made, model, ids(6, 3))
    with pytest.raises(NotImplementedError, match="Dim.STATIC"):
        onnx.export(model, (ids(2, 3),), dynamic_shapes={"ids": {0: 2.5}})
    with pytest.raises(ValueError, match="'other'.*no arguments"):
        onnx.export(model, (ids(2, 3),), dynamic_shapes={"other": {0: "n"}})


def test_models_that_run_at_multiples_only():
    model = nn.Sequential(nn.Unflatten(1, (-1, 4)), nn.Linear(4, 2)).to("cpu")
    made = onnx.export(model, (mt.rand(2, 8, device="cpu"),), dynamic_axes={"input": {1: "n"}})
    assert_right(made, model, mt.rand(2, 20, device="cpu"))
    fixed = nn.Linear(8, 2).to("cpu")
    with pytest.raises(onnx.errors.UnsupportedOperatorError, match="the size n cannot vary: the module needs n == 8"):
        onnx.export(fixed, (mt.rand(2, 8, device="cpu"),), dynamic_axes={"input": {1: "n"}})


def test_modes(model):
    model.train()
    with pytest.raises(onnx.errors.UnsupportedOperatorError, match=r"dropout \(.*random numbers\) at"):
        onnx.export(model, (ids(2, 3),))
    made = onnx.export(model, (ids(2, 3),), dynamo=False)
    assert model.training and model.drop.training
    assert_right(made, model.eval(), ids(2, 3))
    with pytest.raises(onnx.OnnxExporterError):
        onnx.export(model, (ids(2, 3),), dynamo=False, training=onnx.TrainingMode.TRAINING)
    onnx.export(model, (ids(2, 3),), dynamo=False, training=onnx.TrainingMode.PRESERVE)


def test_programs_and_exported_programs(model):
    from metatensor.torch_api.torch.export import Dim, export

    assert_right(onnx.export(export(model, (ids(2, 3),))), model, ids(2, 3))
    assert_right(onnx.export(mt.program.trace(model, ids(2, 3))), model, ids(2, 3))
    exported = export(model, (ids(2, 3),), dynamic_shapes=({0: Dim("batch")},))
    made = onnx.export(exported)
    assert dims(made.model_proto.graph.input) == [["batch", 3]]
    assert_right(made, model, ids(5, 3))
    with pytest.raises(NotImplementedError, match="pass the module"):
        onnx.export(mt.program.trace(model, ids(2, 3)), dynamic_axes={"input_0": {0: "n"}})


def test_models_on_meta():
    with mt.device("meta"):
        model, x = Net().eval(), mt.empty(2, 3, dtype=mt.int64)
    with pytest.raises(onnx.OnnxExporterError, match="has no data"):
        onnx.export(model, (x,))
    made = onnx.export(model, (x,), export_params=False)
    assert names(made.model_proto.graph.input) == ["ids", "embedding.weight", "head.weight", "head.bias"]


@mt.op("torchonnx::scaled")
def scaled(x: mt.Tensor, factor: float = 2.0) -> mt.Spec:
    return mt.Spec(x.shape, x.dtype)


def test_registered_functions():
    x = mt.empty(3, device="meta")
    with pytest.raises(onnx.errors.UnsupportedOperatorError, match="torchonnx"):
        onnx.export(lambda x: scaled(x), (x,))
    onnx.register_custom_op_symbolic("torchonnx::scaled", lambda g, x, factor: g.op("mine::Scaled", x, factor_f=factor), 11)
    try:
        node = onnx.export(lambda x: scaled(x, 3.0), (x,)).model_proto.graph.node[0]
    finally:
        onnx.unregister_custom_op_symbolic("torchonnx::scaled", 11)
    assert (node.domain, node.op_type, node.attribute[0].f) == ("mine", "Scaled", 3.0)
    inner = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3)).to("meta")
    made = onnx.export(nn.Sequential(inner), (x,), export_params=False, export_modules_as_functions=True)
    assert len(made.model_proto.graph.node) == 1 and made.model_proto.functions
    with pytest.raises(NotImplementedError, match="conversions"):
        onnx.export(lambda x: x, (x,), custom_translation_table={1: 2})


@pytest.mark.torch
def test_the_signature_is_pytorchs():
    torch = pytest.importorskip("torch")
    theirs, ours = (inspect.signature(f).parameters for f in (torch.onnx.export, onnx.export))
    assert list(theirs) == list(ours) and [p.kind for p in theirs.values()] == [p.kind for p in ours.values()]


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [None, {"x": {0: "batch"}}])
def test_export_leaves_the_module_as_it_was(dynamic):
    norm = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).to("cpu").train()
    before = {name: t.clone() for name, t in norm.state_dict().items()}
    made = onnx.export(norm, (mt.rand(4, 3, device="cpu"),), input_names=["x"], dynamic_axes=dynamic, verify=False)
    assert all(mt.equal(t, before[name]) for name, t in norm.state_dict().items())
    assert all(mt.equal(t, before[name]) for name, t in made.program.tensors.items() if name in before)
