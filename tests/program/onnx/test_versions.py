"""Operators as they were in older operator sets, compared with onnxruntime."""

import pytest

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
np = pytest.importorskip("numpy")
pytest.importorskip("metatensor_cpu")

import metatensor as mt
from metatensor.program import OnnxModel

RNG = np.random.default_rng(0)
CODES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9, "float64": 11}


def f32(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def i64(*values):
    return np.array(values, np.int64)


def number(value, dtype=np.float32):
    return np.array(value, dtype)


X = f32(2, 3, 4, 5)
# Version, operator, attributes, inputs, number of outputs. Inputs of integers are initializers.
CASES = [
    (11, "Softmax", {}, [X], 1), (11, "Softmax", {"axis": 2}, [X], 1), (12, "LogSoftmax", {"axis": -1}, [X], 1),
    (11, "Hardmax", {"axis": 1}, [X], 1), (13, "Softmax", {"axis": 1}, [X], 1), (13, "Hardmax", {"axis": 1}, [X], 1),
    (10, "Clip", {"min": -0.5, "max": 0.5}, [X], 1), (11, "Clip", {}, [X, number(-0.5), None], 1),
    (10, "Pad", {"pads": [0, 0, 1, 2, 0, 0, 0, 1], "mode": "reflect"}, [X], 1), (10, "Pad", {"pads": [0, 1] * 4, "value": 2.0}, [X], 1),
    (11, "Pad", {"mode": "edge"}, [X, i64(0, 0, 1, 2, 0, 0, 0, 1)], 1), (11, "Pad", {}, [X, i64(0, 0, 1, -1, 0, 0, 0, 1), number(3)], 1),
    (18, "Pad", {}, [X, i64(1, 2), None, i64(-1)], 1), (19, "Pad", {"mode": "wrap"}, [X, i64(0, 0, 3, 2, 0, 0, 1, 4)], 1),
    (9, "Slice", {"starts": [1, -3], "ends": [9, -1], "axes": [2, 3]}, [X], 1),
    (10, "Slice", {}, [X, i64(-1, 4), i64(-9, 0), i64(2, 3), i64(-1, -2)], 1), (13, "Slice", {}, [X, i64(0, 1), i64(1, 3)], 1),
    (10, "Resize", {}, [X, np.array([1, 1, 2, 1.5], np.float32)], 1),
    (10, "Resize", {"mode": "linear"}, [X, np.array([1, 1, 2, 0.5], np.float32)], 1),
    (9, "Upsample", {"mode": "nearest"}, [X, np.array([1, 1, 2, 3], np.float32)], 1),
    (7, "Upsample", {"mode": "linear", "scales": [1.0, 1.0, 2.0, 2.0]}, [X], 1),
    (11, "Resize", {"mode": "cubic", "coordinate_transformation_mode": "pytorch_half_pixel"}, [X, np.zeros(0, np.float32),
                                                                                              np.array([1, 1, 1.7, 2], np.float32)], 1),
    (13, "Resize", {"mode": "linear", "coordinate_transformation_mode": "align_corners"}, [X, None, None, i64(2, 3, 7, 3)], 1),
    (13, "Resize", {"mode": "linear"}, [X, None, None, i64(2, 3, 7, 3)], 1),
    (13, "Resize", {"mode": "nearest", "nearest_mode": "ceil"}, [X, None, None, i64(2, 3, 3, 9)], 1),
    (9, "TopK", {"k": 2, "axis": 2}, [X], 2), (10, "TopK", {}, [X, i64(3)], 2), (11, "TopK", {"largest": 0}, [X, i64(3)], 2),
    (7, "Dropout", {"ratio": 0.5}, [X], 1), (12, "Dropout", {}, [X, number(0.3)], 2),
    (11, "Squeeze", {"axes": [0, 2]}, [f32(1, 3, 1)], 1), (11, "Unsqueeze", {"axes": [0, -1]}, [X], 1),
    (13, "Squeeze", {}, [f32(1, 3, 1), i64(-1)], 1), (13, "Unsqueeze", {}, [X, i64(1, -1)], 1),
    (11, "ReduceSum", {"axes": [1, -1], "keepdims": 0}, [X], 1), (13, "ReduceSum", {}, [X, i64(1)], 1),
    (13, "ReduceSum", {"noop_with_empty_axes": 1}, [X], 1), (17, "ReduceMean", {"axes": [2]}, [X], 1),
    (18, "ReduceMean", {}, [X, i64(2)], 1),
    (13, "ReduceLogSumExp", {"axes": [1]}, [X], 1), (18, "ReduceL2", {"keepdims": 0}, [X, i64(1, 2)], 1), (13, "ReduceProd", {}, [X], 1),
    (11, "Split", {"axis": 3, "split": [2, 3]}, [X], 2), (13, "Split", {"axis": 3}, [X, i64(1, 4)], 2),
    (18, "Split", {"axis": 3, "num_outputs": 3}, [X], 3), (11, "Split", {"axis": 2}, [X], 2),
    (8, "BatchNormalization", {}, [X, f32(3), f32(3), f32(3), abs(f32(3))], 1),
    (14, "BatchNormalization", {"epsilon": 0.1}, [X, f32(3), f32(3), f32(3), abs(f32(3))], 1),
    (9, "Gemm", {"alpha": 0.5, "beta": 2.0, "transA": 1}, [f32(4, 3), f32(4, 5), f32(5)], 1), (11, "Gemm", {}, [f32(3, 4), f32(4, 5)], 1),
    (9, "PRelu", {}, [X, f32(3, 1, 1)], 1), (9, "OneHot", {"axis": 0}, [i64(0, 2, 1), i64(3), f32(2)], 1),
    (10, "Scatter", {"axis": 1}, [f32(2, 3), np.array([[0, 2]]), f32(1, 2)], 1),
    (13, "GatherND", {"batch_dims": 1}, [X, np.array([[[0, 1]], [[2, 3]]])], 1), (13, "Gather", {"axis": 2}, [X, np.array([[0, -1]])], 1),
    (8, "MaxPool", {"kernel_shape": [2, 3], "strides": [1, 2], "pads": [1, 0, 0, 1]}, [X], 2),
    (12, "MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1, "dilations": [1, 2]}, [X], 1),
    (12, "MaxPool", {"kernel_shape": [3, 3], "auto_pad": "SAME_LOWER", "strides": [2, 2]}, [X], 1),
    (11, "AveragePool", {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER", "strides": [2, 2]}, [X], 1),
    (11, "AveragePool", {"kernel_shape": [2, 2], "pads": [1, 1, 0, 0], "count_include_pad": 1}, [X], 1),
    (19, "AveragePool", {"kernel_shape": [2, 2], "dilations": [2, 2], "ceil_mode": 1}, [X], 1),
    (11, "LpPool", {"kernel_shape": [2, 2], "p": 3}, [X], 1), (11, "GlobalLpPool", {}, [X], 1),
    (11, "Conv", {"auto_pad": "SAME_UPPER", "strides": [2, 2], "group": 3}, [X, f32(6, 1, 3, 3), f32(6)], 1),
    (11, "Conv", {"pads": [1, 0, 2, 1], "dilations": [2, 1]}, [X, f32(4, 3, 2, 2)], 1),
    (11, "ConvTranspose", {"strides": [2, 2], "pads": [1, 0, 0, 1], "output_padding": [1, 0]}, [X, f32(3, 4, 3, 3), f32(4)], 1),
    (11, "ConvTranspose", {"strides": [2, 2], "output_shape": [9, 10], "group": 3}, [X, f32(3, 2, 3, 3)], 1),
    (11, "ConvTranspose", {"strides": [3, 2], "auto_pad": "SAME_UPPER"}, [X, f32(3, 2, 3, 3)], 1),
    (10, "QuantizeLinear", {}, [X, number(0.1), number(5, np.uint8)], 1),
    (13, "QuantizeLinear", {"axis": 1}, [X, abs(f32(3)), np.zeros(3, np.int8)], 1),
    (10, "DequantizeLinear", {}, [RNG.integers(0, 255, (2, 3)).astype(np.uint8), number(0.1), number(5, np.uint8)], 1),
    (11, "DynamicQuantizeLinear", {}, [X], 3), (11, "CumSum", {"exclusive": 1, "reverse": 1}, [X, number(2, np.int32)], 1),
    (12, "ArgMax", {"axis": 2, "keepdims": 0, "select_last_index": 1}, [X], 1), (12, "Einsum", {"equation": "bchw,bcij->bhj"}, [X, X], 1),
    (10, "ThresholdedRelu", {"alpha": 0.3}, [X], 1), (9, "Shrink", {"bias": 0.1, "lambd": 0.3}, [X], 1), (13, "LRN", {"size": 3}, [X], 1),
    (13, "LpNormalization", {"p": 1, "axis": 1}, [X], 1), (13, "MeanVarianceNormalization", {}, [X], 1),
    (17, "LayerNormalization", {"axis": 2}, [X, f32(4, 5), f32(4, 5)], 2), (13, "InstanceNormalization", {}, [X, f32(3), f32(3)], 1),
    (14, "GRU", {"hidden_size": 4, "direction": "bidirectional"}, [f32(5, 2, 3), f32(2, 12, 3), f32(2, 12, 4), f32(2, 24)], 2),
    (14, "GRU", {"hidden_size": 4, "linear_before_reset": 1, "direction": "reverse"}, [f32(5, 2, 3), f32(1, 12, 3), f32(1, 12, 4)], 2),
    (14, "GRU", {"hidden_size": 4, "linear_before_reset": 1}, [f32(5, 2, 3), f32(1, 12, 3), f32(1, 12, 4), f32(1, 24)], 2),
    (14, "LSTM", {"hidden_size": 4, "direction": "bidirectional"}, [f32(5, 2, 3), f32(2, 16, 3), f32(2, 16, 4), f32(2, 32),
                                                                  np.array([5, 3], np.int32)], 3),
    (14, "LSTM", {"hidden_size": 4, "direction": "bidirectional"}, [f32(5, 2, 3), f32(2, 16, 3), f32(2, 16, 4), f32(2, 32)], 3),
    (14, "LSTM", {"hidden_size": 4, "clip": 0.2}, [f32(5, 2, 3), f32(1, 16, 3), f32(1, 16, 4), None, None, None, None, f32(1, 12)], 3),
    (14, "RNN", {"hidden_size": 4, "activations": ["Relu"]}, [f32(5, 2, 3), f32(1, 4, 3), f32(1, 4, 4)], 2),
    (16, "RoiAlign", {"output_height": 2, "output_width": 3, "spatial_scale": 0.7},
     [X, np.array([[0, 0, 3, 3], [1, 0, 4, 2.5]], np.float32), i64(0, 1)], 1),
    (10, "RoiAlign", {"output_height": 2, "output_width": 2, "sampling_ratio": 2, "mode": "max"},
     [X, np.array([[0, 0, 3, 3]], np.float32), i64(1)], 1),
    (1, "MaxRoiPool", {"pooled_shape": [2, 2]}, [X, np.array([[0, 0, 0, 3, 3], [1, 1, 0, 4, 2]], np.float32)], 1),
    (16, "GridSample", {"mode": "bicubic", "padding_mode": "border"}, [X, np.clip(f32(2, 3, 3, 2), -1, 1)], 1),
    (17, "DFT", {"axis": 1, "onesided": 1}, [f32(2, 6, 1)], 1), (20, "DFT", {"inverse": 1}, [f32(2, 6, 2), None, i64(1)[0]], 1),
    (17, "STFT", {}, [f32(2, 20, 1), i64(4)[0], f32(8)], 1), (13, "DepthToSpace", {"blocksize": 2, "mode": "CRD"}, [f32(1, 8, 2, 3)], 1),
    (13, "SpaceToDepth", {"blocksize": 2}, [f32(1, 2, 4, 6)], 1), (14, "Trilu", {"upper": 0}, [X, i64(1)[0]], 1),
    (18, "Col2Im", {"pads": [1, 0, 0, 1]}, [f32(1, 8, 16), i64(4, 4), i64(2, 2)], 1), (13, "Tile", {}, [X, i64(1, 2, 1, 3)], 1),
    (13, "Mod", {"fmod": 1}, [X, abs(f32(5)) + 1], 1), (13, "Pow", {}, [abs(X), i64(2)], 1),
    (11, "Unique", {"sorted": 0}, [np.array([2.0, 1, 2, 3, 1], np.float32)], 4),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda n: f"{CASES[n][1]}-{CASES[n][0]}-{n}")
def test_like_onnxruntime(number):
    version, op, attributes, inputs, count = CASES[number]
    names = [f"x{i}" if value is not None else "" for i, value in enumerate(inputs)]
    outputs = [f"y{i}" for i in range(count)]
    given = {n: value for n, value in zip(names, inputs, strict=True) if n}
    held = {n: v for n, v in given.items() if n != "x0" and (v.dtype.kind == "i" or op in ("Resize", "Upsample", "Clip", "Pad", "Dropout"))}
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(op, names, outputs, **attributes)], "one",
        [onnx.helper.make_tensor_value_info(n, CODES[v.dtype.name], v.shape) for n, v in given.items() if n not in held],
        [onnx.helper.make_empty_tensor_value_info(n) for n in outputs], [onnx.numpy_helper.from_array(v, n) for n, v in held.items()],
    )  # fmt: skip
    opset = max(version, 7)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=9)
    free = {n: v for n, v in given.items() if n not in held}
    wanted = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, free)
    net = OnnxModel(model, device="cpu")
    found = net(**{n: mt.from_numpy(v) for n, v in free.items()})
    for got, value in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
        assert got.numpy().dtype == value.dtype
        np.testing.assert_allclose(got.numpy(), value, rtol=1e-4, atol=1e-5)
    if op == "Unique":
        return  # its sizes depend on values
    meta = net(**{n: mt.from_numpy(v).to("meta") if n == "x0" or v.dtype.kind == "f" else mt.from_numpy(v) for n, v in free.items()}) \
        if op not in ("RoiAlign", "MaxRoiPool") else found
    for got, value in zip(meta if isinstance(meta, tuple) else (meta,), wanted, strict=True):
        assert tuple(got.shape) == value.shape


@pytest.mark.parametrize("centred", [0, 1])
def test_many_boxes(centred):
    rng = np.random.default_rng(0)
    first, second = rng.random((2, 300, 2)), rng.random((2, 300, 2)) * 0.3
    boxes = np.concatenate([first, second if centred else first + second], 2).astype(np.float32)
    scores = rng.random((2, 3, 300)).astype(np.float32)
    node = onnx.helper.make_node("NonMaxSuppression", ["b", "s", "most", "share", "least"], ["y"], center_point_box=centred)
    held = {"most": i64(20), "share": np.array([0.4], np.float32), "least": np.array([0.3], np.float32)}
    graph = onnx.helper.make_graph(
        [node], "boxes", [onnx.helper.make_tensor_value_info(n, 1, None) for n in "bs"], [onnx.helper.make_tensor_value_info("y", 7, None)],
        [onnx.numpy_helper.from_array(v, n) for n, v in held.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 11)], ir_version=9)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"b": boxes, "s": scores})
    found = OnnxModel(model, device="cpu")(mt.from_numpy(boxes), mt.from_numpy(scores))
    assert len(wanted) == 120 and (found.numpy() == wanted).all()
