"""Networks in the ``onnx`` package whose weights are constants made at run time, compared with onnxruntime."""

from pathlib import Path

import pytest

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
np = pytest.importorskip("numpy")
pytest.importorskip("metatensor_cpu")

import metatensor as mt
from metatensor.program import OnnxModel

FOLDER = Path(onnx.__file__).parent / "backend/test/data/light"
MODELS = sorted(FOLDER.glob("*.onnx"))


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_shapes(path):
    rows = OnnxModel(path, device="meta").shapes()
    assert not [row for row in rows if row.reason]
    found = {row.name: row.shape for row in rows}
    inferred = onnx.shape_inference.infer_shapes(onnx.load(path))
    for one in (*inferred.graph.value_info, *inferred.graph.output):
        for size, dim in zip(found[one.name], one.type.tensor_type.shape.dim, strict=True):
            assert not dim.HasField("dim_value") or dim.dim_value == size


@pytest.mark.slow
@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_values(path):
    net = OnnxModel(path, device="cpu")
    (one,) = net.inputs
    x = np.random.default_rng(0).standard_normal(one.shape).astype(np.float32)
    wanted = runtime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {one.name: x})
    with mt.no_grad():
        found = net(mt.from_numpy(x))
    np.testing.assert_allclose(found.numpy(), wanted[0], rtol=1e-3, atol=1e-4)
