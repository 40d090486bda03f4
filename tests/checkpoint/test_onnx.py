"""Initialisers in ONNX files: built here, written by the onnx package, and one from PyPI."""

import io
import struct

import pytest

from checkpoint import samples
from checkpoint.samples import field, onnx, onnx_tensor, varint
from metatensor.checkpoint import CheckpointError, inspect, load
from metatensor.checkpoint.onnx import TYPES

np = pytest.importorskip("numpy")


def read(content, location="cpu"):
    return load(io.BytesIO(content), location)


def refuse(content, *words):
    with pytest.raises(CheckpointError) as caught:
        read(content)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert len(str(caught.value)) < 500


def test_raw_data():
    raw = np.arange(6, dtype="<f4").tobytes()
    content = onnx([onnx_tensor(raw=raw), onnx_tensor("b", (), 7, struct.pack("<q", -5))])
    found = read(content)
    assert found["w"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found["b"].item() == -5
    assert read(content, "meta")["w"].is_meta
    listed = inspect(io.BytesIO(content))
    assert listed.metadata["producer_name"] == "samples"
    offset = listed.tensors["w"].offset
    assert content[offset : offset + 24] == raw


@pytest.mark.parametrize("packed", [True, False])
def test_typed_fields(packed):
    floats = np.array([1.5, -2.5], "<f4").tobytes()
    ints = [3, -1, 300]
    encoded = b"".join(varint(i & (1 << 64) - 1) for i in ints)
    number = 5
    content = onnx([
        onnx_tensor("f", (2,), 1, None, f4=floats),
        onnx_tensor("i32", (3,), 6, None, f5=encoded if packed else ints),
        onnx_tensor("i64", (3,), 7, None, f7=encoded if packed else ints),
        onnx_tensor("f16", (1,), 10, None, f5=varint(0x3C00) if packed else 0x3C00),
        onnx_tensor("bool", (2,), 9, None, f5=b"\1\0" if packed else [1, 0]),
        onnx_tensor("i8", (1,), 3, None, f5=varint((1 << 64) - 5) if packed else -number),
        onnx_tensor("u64", (1,), 13, None, f11=varint(1 << 63) if packed else 1 << 63),
        onnx_tensor("d", (1,), 11, None, f10=struct.pack("<d", 2.25)),
    ])  # fmt: skip
    found = {name: tensor.tolist() for name, tensor in read(content).items()}
    assert found == {"f": [1.5, -2.5], "i32": ints, "i64": ints, "f16": [1.0], "bool": [True, False], "i8": [-5],
                     "u64": [1 << 63], "d": [2.25]}  # fmt: skip


def test_constants_and_subgraphs_are_named_after_their_nodes():
    inner = field(5, onnx_tensor("w")) + field(1, samples.onnx_constant("c", onnx_tensor("ignored", (1,), 1, bytes(4))))
    node = field(3, "If_0") + field(4, "If") + field(5, field(1, "then_branch") + field(6, inner))
    content = onnx([onnx_tensor("w")], [node, samples.onnx_constant("k", onnx_tensor(""))])
    assert list(read(content)) == ["If_0.then_branch.w", "If_0.then_branch.c", "k", "w"]


def test_small_types_are_bytes():
    content = onnx([onnx_tensor("u4", (5,), 21, b"\x12\x34\x05")])
    assert inspect(io.BytesIO(content)).tensors["u4"][:3] == ("UINT4", (5,), 3)
    assert read(content)["u4"].tolist() == [0x12, 0x34, 5]


def test_texts_are_left_out():
    assert read(onnx([onnx_tensor("s", (1,), 8, None, f6="x"), onnx_tensor()])).keys() == {"w"}


def test_external_data(tmp_path):
    raw = np.arange(6, dtype="<f4").tobytes()
    (tmp_path / "weights.bin").write_bytes(b"1234" + raw)

    def model(location="weights.bin", offset="4", length="24"):
        entries = [field(1, "location") + field(2, location), field(1, "offset") + field(2, offset), field(1, "length") + field(2, length)]
        content = onnx([onnx_tensor("w", raw=None, f13=entries, f14=1)])
        (tmp_path / "m.onnx").write_bytes(content)
        return content

    model()
    assert load(tmp_path / "m.onnx", "cpu")["w"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert inspect(tmp_path / "m.onnx").tensors["w"].file == "weights.bin"
    refuse(model(), "open file")
    for wrong in ({"location": "../weights.bin"}, {"location": "/etc/passwd"}, {"location": ""}, {"location": "a/b"}, {"location": ".."},
                  {"location": "none.bin"}, {"offset": "8"}, {"offset": "-4"}, {"offset": "x"}, {"length": "20"}):  # fmt: skip
        model(**wrong)
        with pytest.raises(CheckpointError):
            load(tmp_path / "m.onnx", "meta")


def test_what_is_refused():
    refuse(onnx([onnx_tensor(raw=bytes(23))]), "needs 24 bytes")
    refuse(onnx([onnx_tensor(dims=(-1, 3))]), "-1")
    refuse(onnx([onnx_tensor(dims=(1 << 40, 1 << 40))]), "2**63")
    refuse(onnx([onnx_tensor(dims=(1,) * 65, raw=bytes(4))]), "65 dimensions")
    refuse(onnx([onnx_tensor(kind=77)]), "type 77")
    refuse(onnx([onnx_tensor(), onnx_tensor()]), "twice")
    refuse(onnx([onnx_tensor(raw=None)]), "needs 24 bytes")
    refuse(onnx([onnx_tensor("i", (1 << 40,), 6, None, f5=b"\1\1")]), "needs")
    refuse(onnx([onnx_tensor("i", (2,), 6, None, f5=b"\1\1\1")]), "needs")
    refuse(onnx([onnx_tensor("i", (1,), 6, None, f5=b"\x80")]), "cut off")
    refuse(onnx([onnx_tensor("i", (11,), 9, None, f5=b"\x80" * 10 + b"\1")]), "10 bytes")
    refuse(onnx([onnx_tensor()]) + field(7, b""), "two graphs")
    refuse(b"\x08\x08\x12\x01a", "no graph")
    refuse(onnx([onnx_tensor()])[:-3], "truncated")
    refuse(b"\x08\x08\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "more than its message has")
    refuse(b"\x08\x08\x3a" + b"\xff" * 11, "10 bytes")
    graph = b""
    for _ in range(40):
        graph = field(1, field(5, field(1, "b") + field(6, graph)))
    refuse(field(1, 8) + field(7, graph), "deeply")


def test_meta_reads_no_data(tmp_path):
    path = tmp_path / "huge.onnx"
    size = 1 << 40
    tensor = field(1, size // 4) + field(2, 1) + field(8, "w")
    raw = varint(9 << 3 | 2) + varint(size)
    body = varint(5 << 3 | 2) + varint(len(tensor) + len(raw) + size) + tensor + raw
    with open(path, "wb") as file:
        file.write(field(1, 8) + varint(7 << 3 | 2) + varint(len(body) + size) + body)
        file.truncate(file.tell() + size)
    assert load(path, "meta")["w"].shape == (size // 4,)


@pytest.mark.parametrize("raw", [True, False])
def test_against_the_package(raw):
    package = pytest.importorskip("onnx")
    helper = package.helper
    arrays = {"f4": np.arange(6, dtype="f4").reshape(2, 3), "f8": np.ones(2), "i8": np.array([-3, 4], "i1"), "u2": np.array([7], "u2"),
              "b": np.array([True, False]), "f2": np.array([1.5, -2], "f2"), "c": np.array([1 + 2j], "c8"),
              "i64": np.array([[-(2**40)]])}  # fmt: skip
    tensors = []
    for name, array in arrays.items():
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        values = array.tobytes() if raw else array
        tensors.append(helper.make_tensor(name, kind, array.shape, values, raw=raw))
    bf16 = helper.make_tensor("bf16", package.TensorProto.BFLOAT16, (2,), [1.0, -2.5])
    graph = helper.make_graph([], "g", [], [], [*tensors, bf16])
    content = helper.make_model(graph, producer_name="test").SerializeToString()
    found = read(content)
    for name, array in arrays.items():
        assert np.array_equal(found[name].numpy(), array), name
    assert found["bf16"].tolist() == [1.0, -2.5]
    names = package.TensorProto.DataType
    for number, (name, _, _) in TYPES.items():
        assert names.Name(number) == name if number in names.values() else True
