"""Damaged and hostile ONNX models: clear errors or results, in bounded time and memory."""

import io
import random
import time

import pytest

onnx = pytest.importorskip("onnx")
np = pytest.importorskip("numpy")
pytest.importorskip("metatensor_cpu")

import metatensor as mt
from checkpoint.samples import field
from metatensor.checkpoint import CheckpointError
from metatensor.program import OnnxModel
from metatensor.program.onnx import OnnxError
from metatensor.program.onnx.importing import families
from metatensor.program.onnx.importing.operators import TABLE
from program.onnx import models, mutating, suite
from program.onnx.models import model, node


def examined(data):
    """Open a file and infer its shapes. Errors of other classes are mistakes, and so is a long time."""
    begin = time.monotonic()
    try:
        return OnnxModel(io.BytesIO(data), device="meta", limit=20_000).shapes()
    except (ValueError, NotImplementedError):  # CheckpointError and OnnxError are ValueErrors
        return None
    finally:
        assert time.monotonic() - begin < 10


def mutations(seed, count):
    families.load()
    kinds = sorted({kind for _, kind in TABLE})
    rng = random.Random(seed)
    cases = [case for _, case in sorted(suite.some_cases().items()) if not suite.is_text(case)]
    files = [suite.model_of(case).SerializeToString() for case in rng.sample(cases, 100)]
    files += [models.flattening().SerializeToString()] * 5
    for _ in range(count):
        data = rng.choice(files)
        yield mutating.fields_changed(data, rng, kinds) if rng.random() < 0.8 else mutating.bytes_changed(data, rng)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_mutated_models():
    found = [examined(data) for data in mutations(0, 60)]
    assert any(found) and not all(found)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(1, 6))
def test_many_mutated_models(seed):
    for data in mutations(seed, 2000):
        examined(data)


def on_meta(made, *inputs, **options):
    return OnnxModel(made, device="meta", **options)(*inputs)


@pytest.mark.slow
def test_large_constants_are_not_made_on_the_host():
    made = model([node("ConstantOfShape", "size", "y")], [], ["y"], size=np.array([1 << 20, 1 << 20]))
    assert on_meta(made).shape == (1 << 20, 1 << 20)
    nodes = [node("ConstantOfShape", "size", f"y{i}") for i in range(5000)]
    made = model(nodes, [], ["y4999"], size=np.array([1 << 14]))
    with mt.analysis.MemoryTracker():
        assert on_meta(made).shape == (1 << 14,)


def test_sparse_constants():
    values = onnx.numpy_helper.from_array(np.ones(1, np.float32), "v")
    indices = onnx.numpy_helper.from_array(np.zeros(1, np.int64), "i")
    sparse = onnx.helper.make_sparse_tensor(values, indices, [1 << 39])
    with pytest.raises(CheckpointError, match="sparse"):
        OnnxModel(model([onnx.helper.make_node("Constant", [], ["y"], sparse_value=sparse)], [], ["y"]))
    sparse = onnx.helper.make_sparse_tensor(values, onnx.numpy_helper.from_array(np.array([5]), "i"), [3])
    with pytest.raises(CheckpointError, match="out of range"):
        OnnxModel(model([onnx.helper.make_node("Constant", [], ["y"], sparse_value=sparse)], [], ["y"]))


def test_long_recurrent_layers():
    made = model([node("RNN", "x w r", "y", hidden_size=1, direction="reverse")], ["x[1099511627776,1,1]"], ["y"],
                 w=models.weights(1, 1, 1), r=models.weights(1, 1, 1))  # fmt: skip
    with pytest.raises(OnnxError, match="limit"):
        on_meta(made, mt.empty(1 << 40, 1, 1, device="meta"))


def test_long_scans_of_nothing():
    body = models.graph([], ["a[1]"], ["a[1]"])
    made = model([node("Scan", "x", "y", body=body, num_scan_inputs=1)], ["x[1099511627776,1]"], ["y"])
    with pytest.raises(OnnxError, match="limit"):
        on_meta(made, mt.empty(1 << 40, 1, device="meta"), limit=5000)


@pytest.mark.parametrize("depth", [20, 32, 33, 40, 5000])
def test_deep_graphs(depth):
    inputs = [models.value("c[]", models.BOOL), models.value("x[2]")]
    inner = field(1, models.node("Relu", "x", "y").SerializeToString())
    for _ in range(depth):
        branch = field(1, "then_branch") + field(6, inner) + field(20, 5)
        inner = field(1, field(1, "c") + field(2, "y") + field(4, "If") + field(5, branch))
    inner += b"".join(field(11, one.SerializeToString()) for one in inputs)
    found = examined(field(1, 9) + field(8, field(2, 18)) + field(7, inner))
    assert (found is None) == (depth > 32)


def test_functions_that_grow():
    """Each function calls the next one twice."""
    functions = [
        onnx.helper.make_function(
            "own", f"F{i}", ["x"], ["y"],
            [onnx.helper.make_node(f"F{i + 1}", [a], [b], domain="own") for a, b in (("x", "h"), ("h", "y"))] if i < 28 else
            [onnx.helper.make_node("Relu", ["x"], ["y"])],
            [onnx.helper.make_opsetid("own", 1), onnx.helper.make_opsetid("", 18)],
        ) for i in range(29)
    ]  # fmt: skip
    made = model([node("F0", "x", "y", domain="own")], ["x[2]"], ["y"], functions=functions)
    with pytest.raises(ValueError, match="nodes"):
        on_meta(made, mt.empty(2, device="meta"), limit=3000)
