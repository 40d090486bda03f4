"""Operators of onnxruntime's own domain, compared with onnxruntime."""

import pytest

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
np = pytest.importorskip("numpy")
pytest.importorskip("metatensor_cpu")

import metatensor as mt
from metatensor.program.onnx import OnnxModel

RNG = np.random.default_rng(0)
CODES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9}


def f32(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def u8(*shape):
    return RNG.integers(0, 255, shape).astype(np.uint8)


def one(value, dtype=np.float32):
    return np.array(value, dtype)


# Operator, attributes, inputs, number of outputs
CASES = {
    "gelu": ("Gelu", {}, [f32(2, 5)], 1),
    "fast gelu": ("FastGelu", {}, [f32(2, 5), f32(5)], 1),
    "bias gelu": ("BiasGelu", {}, [f32(2, 5), f32(5)], 1),
    "quick gelu": ("QuickGelu", {"alpha": 1.5}, [f32(2, 5)], 1),
    "matmul": ("FusedMatMul", {"transA": 1, "transB": 1, "alpha": 0.5}, [f32(2, 4, 3), f32(2, 5, 4)], 1),
    "gemm": ("FusedGemm", {"transB": 1, "activation": "Relu"}, [f32(3, 4), f32(5, 4), f32(5)], 1),
    "conv": ("FusedConv", {"activation": "Relu", "pads": [1, 1, 1, 1]}, [f32(1, 2, 5, 5), f32(3, 2, 3, 3), f32(3)], 1),
    "skip": ("SkipLayerNormalization", {"epsilon": 1e-5}, [f32(2, 3, 8), f32(2, 3, 8), f32(8), f32(8), f32(8)], 1),
    "skip rms": ("SkipSimplifiedLayerNormalization", {"epsilon": 1e-5}, [f32(2, 3, 8), f32(2, 3, 8), f32(8)], 1),
    "attention": ("Attention", {"num_heads": 2}, [f32(2, 3, 8), f32(8, 24), f32(24)], 1),
    "attention, lengths": ("Attention", {"num_heads": 2}, [f32(2, 3, 8), f32(8, 24), f32(24), one([3, 2], np.int32)], 1),
    "attention, causal": ("Attention", {"num_heads": 2, "unidirectional": 1}, [f32(2, 3, 8), f32(8, 24), f32(24)], 1),
    "multi head": ("MultiHeadAttention", {"num_heads": 2}, [f32(2, 3, 8), f32(2, 4, 8), f32(2, 4, 8)], 1),
    "multi head, bias": ("MultiHeadAttention", {"num_heads": 2}, [f32(2, 3, 8), f32(2, 4, 8), f32(2, 4, 8), f32(24)], 1),
    "group query": (
        "GroupQueryAttention", {"num_heads": 4, "kv_num_heads": 2},
        [f32(1, 3, 32), f32(1, 3, 16), f32(1, 3, 16), None, None, one([2], np.int32), one(3, np.int32)], 3,
    ),
    "group query, past": (
        "GroupQueryAttention", {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1},
        [f32(1, 1, 64), f32(1, 1, 32), f32(1, 1, 32), f32(1, 2, 3, 16), f32(1, 2, 3, 16), one([3], np.int32), one(4, np.int32),
         f32(10, 8), f32(10, 8)], 3,
    ),
    "rotary": ("RotaryEmbedding", {}, [f32(2, 3, 4, 8), one([[0, 1, 2, 3], [2, 3, 4, 5]], np.int64), f32(9, 4), f32(9, 4)], 1),
    "rotary, pairs": ("RotaryEmbedding", {"interleaved": 1}, [f32(2, 3, 4, 8), one([1], np.int64), f32(9, 4), f32(9, 4)], 1),
    "add": ("QLinearAdd", {}, [u8(2, 3), one(0.1), one(3, np.uint8), u8(2, 3), one(0.2), one(4, np.uint8), one(0.3), one(5, np.uint8)], 1),
    "n bits": ("MatMulNBits", {"K": 32, "N": 3, "bits": 4, "block_size": 16}, [f32(2, 32), u8(3, 2, 8), f32(6)], 1),
    "n bits, zeros": ("MatMulNBits", {"K": 32, "N": 3, "bits": 4, "block_size": 16}, [f32(2, 32), u8(3, 2, 8), f32(6), u8(3)], 1),
    "to float": ("MatMulIntegerToFloat", {}, [u8(2, 4), u8(4, 3), one(0.1), one(0.2), one(3, np.uint8), one(4, np.uint8)], 1),
    "dynamic": ("DynamicQuantizeMatMul", {}, [f32(2, 4), u8(4, 3), one(0.2), one(4, np.uint8)], 1),
    "embedding": (
        "EmbedLayerNormalization", {"epsilon": 1e-5},
        [one([[1, 2], [3, 0]], np.int32), one([[0, 1], [1, 1]], np.int32), f32(5, 8), f32(4, 8), f32(2, 8), f32(8), f32(8)], 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_like_onnxruntime(name):
    op, attributes, inputs, count = CASES[name]
    names = [f"x{i}" if value is not None else "" for i, value in enumerate(inputs)]
    outputs = [f"y{i}" for i in range(count)]
    more = ["mask"] if op == "EmbedLayerNormalization" else []  # an output that onnxruntime wants to be there
    node = onnx.helper.make_node(op, names, outputs + more, domain="com.microsoft", **attributes)
    given = {n: value for n, value in zip(names, inputs, strict=True) if n}
    graph = onnx.helper.make_graph(
        [node], "one", [onnx.helper.make_tensor_value_info(n, CODES[v.dtype.name], v.shape) for n, v in given.items()],
        [onnx.helper.make_tensor_value_info(n, CODES["uint8" if op.startswith("QLinear") else "float32"], None) for n in outputs],
    )
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9)
    wanted = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, given)
    net = OnnxModel(model, device="cpu")
    found = net(**{n: mt.from_numpy(v) for n, v in given.items()})
    found = found if isinstance(found, tuple) else (found,)
    for got, value in zip(found, wanted, strict=True):
        assert got.numpy().dtype == value.dtype
        np.testing.assert_allclose(got.numpy(), value, rtol=2e-3 if "gelu" in name or "dynamic" in name else 1e-4, atol=1e-4)
    meta = net(**{n: mt.from_numpy(v).to("meta") if v.dtype == np.float32 else mt.from_numpy(v) for n, v in given.items()})
    for got, value in zip(meta if isinstance(meta, tuple) else (meta,), wanted, strict=True):
        assert tuple(got.shape) == value.shape
