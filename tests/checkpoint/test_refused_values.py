"""Invalid values in files raise `CheckpointError`, wherever they occur."""

import io
import struct

import numpy as np
import pytest

import metatensor as mt
from metatensor.checkpoint import CheckpointError, convert, load, load_into

from .costly import array, device_tensor, distributed, number, packed, part
from .hostile import P2, legacy, name, storage, tensor, text

META = name("torch._utils", "_rebuild_meta_tensor_no_storage") + b"(" + name("torch", "float32") + b"K\4\x85K\1\x85\x89tR"


def refused(pickle, words, where="cpu"):
    for content in (packed(pickle), legacy(pickle, () if b"FloatStorage" not in pickle else (("0", 4, bytes(16)),))):
        with pytest.raises(CheckpointError, match=words):
            load(io.BytesIO(content), where)


def test_values_of_device_tensors():
    arrays = ((">f4", [1.5, -2]), ("<f4", [1.5, -2]), ("f2", [0.5]), (">i8", [1, -3]), ("b1", [True]), (">c16", [1 + 2j]), ("<c8", [2j]))
    for code, values in arrays:
        data = np.array(values, code)
        pickle = P2 + device_tensor(array(code, data.tobytes(), b"K" + bytes([len(values)]) + b"\x85"), data.dtype.name, "numpy") + b"."
        for content in (packed(pickle), legacy(pickle, ())):
            assert load(io.BytesIO(content), "cpu").tolist() == values
            assert load(io.BytesIO(content), "meta").shape == (len(values),)
    for code in ("S16", "U4", "c32", "f16"):
        size = {"S16": 1, "U4": 1, "c32": 1, "f16": 1}[code]
        data = bytes(np.dtype(code).itemsize)
        refused(P2 + device_tensor(array(code, data, b"K" + bytes([size]) + b"\x85"), "float32", "numpy") + b".", "array of numbers")
    refused(P2 + device_tensor(META) + b".", "on meta has none")
    assert load(io.BytesIO(packed(P2 + device_tensor(META) + b".")), "meta").shape == (4,)
    refused(P2 + device_tensor(tensor(), "qint8") + b".", "cannot be filled with its stored values")


def test_bytes_that_are_none():
    dtype = name("numpy", "dtype") + b"(" + text("u1") + b"\x89\x88tR"
    pickle = P2 + name("numpy.core.numeric", "_frombuffer") + b"(" + number(1 << 40) + dtype + b"K\1\x85" + text("C") + b"tR."
    refused(pickle, "must be bytes")


def test_negatives_of_what_has_none():
    for kind, count in (("BoolStorage", 16), ("ByteStorage", 16), ("LongStorage", 2)):
        pickle = P2 + tensor(storage("0", count, ("torch", kind)), size=(2,), extra=b"}" + text("neg") + b"\x88s") + b"."
        with pytest.raises(CheckpointError, match="unknown metadata"):
            load(io.BytesIO(packed(pickle)), "meta")
    pickle = P2 + tensor(extra=b"}" + text("neg") + b"\x88s") + b"."
    assert load(io.BytesIO(packed(pickle)), "cpu").is_neg()


def test_numbers_of_many_bits_in_distributed_metadata(tmp_path):
    huge = 1 << 40_000
    for shape, *chunk in ((4, (huge,), (4,), 0, 4), (huge, (0,), (huge,), 0, 4), (4, (0,), (4,), huge, 4), (4, (0,), (4,), 0, huge)):
        tensors = {"t": ((shape,), [tuple(chunk)])}
        for file, content in distributed(tensors, part(4)).items():
            (tmp_path / file).write_bytes(content)
        with pytest.raises(CheckpointError):
            load(tmp_path)


def test_chunks_that_make_up_a_tensor_and_chunks_that_do_not(tmp_path):
    data = part(1, dims=2)
    good = [((i, j), (1, 1), 0, len(data)) for i in range(3) for j in range(3)]
    overlap = [*good[:-1], ((0, 0), (1, 1), 0, len(data))]
    for parts, words in ((overlap[:-1] + [((0, 1), (1, 1), 0, len(data))], "two locations|overlap"), (good[:-1], "hold 8 elements")):
        for file, content in distributed({"t": ((3, 3), parts)}, data).items():
            (tmp_path / file).write_bytes(content)
        with pytest.raises(CheckpointError, match=words):
            load(tmp_path, "meta")
    for file, content in distributed({"t": ((3, 3), good)}, data).items():
        (tmp_path / file).write_bytes(content)
    assert load(tmp_path, "cpu")["t"].tolist() == [[0.0] * 3] * 3


def test_surrogates_in_what_is_converted(tmp_path):
    header = b'{"__metadata__":{"a":"\\ud800"},"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}'
    (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(16))
    (tmp_path / "a.pt").write_bytes(packed(P2 + b"}" + text("\ud800") + tensor() + b"s."))
    for path in ("a.safetensors", "a.pt"):
        for target in ("b.safetensors", "b.npz"):
            with pytest.raises(CheckpointError, match="Unicode"):
                convert(tmp_path / path, tmp_path / target)


def test_what_repeats_its_elements_is_not_written_out(tmp_path):
    (tmp_path / "x.pt").write_bytes(packed(P2 + b"}" + text("w") + tensor(size=number(1 << 33) + b"\x85", stride=(0,)) + b"s."))
    with pytest.raises(CheckpointError, match="beyond the bound"):
        convert(tmp_path / "x.pt", tmp_path / "x.safetensors")
    (tmp_path / "y.pt").write_bytes(packed(P2 + b"}" + text("w") + tensor(size=(1000, 4), stride=(0, 1)) + b"s."))
    convert(tmp_path / "y.pt", tmp_path / "y.safetensors")
    assert load(tmp_path / "y.safetensors", "cpu")["w"].shape == (1000, 4)


@pytest.mark.parametrize("location", ["cuda:97", "xla:0", "weird", "weird:1", "a" * 90, "Ω", "cuda:0000"])
def test_a_device_that_is_not_here(location):
    content = packed(P2 + tensor(storage(location=location)) + b".")
    with pytest.raises(CheckpointError, match="map_location") as caught:
        load(io.BytesIO(content))
    assert isinstance(caught.value, RuntimeError)
    assert load(io.BytesIO(content), "cpu").tolist() == [0.0] * 4


def test_files_do_not_make_up_devices():
    with pytest.raises(CheckpointError, match="not a known device"):
        load(io.BytesIO(packed(P2 + name("torch", "device") + text("nobodys") + b"\x85R.")))
    assert load(io.BytesIO(packed(P2 + name("torch", "device") + text("cuda") + b"K\1\x86R."))) == mt.device("cuda:1")


def test_a_model_takes_no_negative_numbers_of_bits(tmp_path):
    (tmp_path / "x.pt").write_bytes(packed(P2 + b"}" + text("weight") + tensor(storage("0", 16, ("torch", "BoolStorage")), size=(16,),
                                                                               extra=b"}" + text("neg") + b"\x88s") + b"s."))  # fmt: skip
    model = mt.nn.Module()
    model.register_buffer("weight", mt.zeros(16, dtype=mt.bool, device="cpu"))
    with pytest.raises(CheckpointError):
        load_into(model, tmp_path / "x.pt")
