"""Loading data onto the cpu device, compared with files that NumPy and the reference implementation wrote."""

import io

import pytest

import metatensor as mt
from metatensor.checkpoint import CheckpointError, inspect
from metatensor.plugins import device_types

np = pytest.importorskip("numpy")
reference = pytest.importorskip("safetensors.numpy")

if "cpu" not in device_types():
    pytest.skip("the cpu plugin is not installed", allow_module_level=True)


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    return {
        "a.weight": rng.standard_normal((3, 5)).astype(np.float32),
        "a.bias": rng.standard_normal(7),
        "ids": np.arange(10, dtype=np.int64).reshape(2, 5),
        "half": rng.standard_normal((2, 2, 2)).astype(np.float16),
        "mask": np.array([True, False, True]),
        "byte": np.arange(5, dtype=np.uint8),
        "one": np.array(3.5, dtype=np.float32),
        "none": np.zeros((0, 4), dtype=np.float32),
    }


def same(tensors, arrays):
    assert set(tensors) == set(arrays)
    for name, array in arrays.items():
        assert tensors[name].dtype.name == array.dtype.name
        assert tuple(tensors[name].shape) == array.shape
        assert tensors[name].device.type == "cpu"
        assert np.array_equal(tensors[name].numpy(), array), name


def test_values_from_a_path(tmp_path, arrays):
    path = tmp_path / "model.safetensors"
    reference.save_file(arrays, path, metadata={"format": "np"})
    same(mt.load(path), arrays)
    same(mt.load(path, map_location="cpu"), arrays)
    assert inspect(path).metadata == {"format": "np"}


def test_values_from_memory_and_from_a_place_within_a_file(tmp_path, arrays):
    content = reference.save(arrays)
    same(mt.load(io.BytesIO(content), "cpu"), arrays)
    path = tmp_path / "after.bin"
    path.write_bytes(b"12345" + content)
    with open(path, "rb") as file:
        file.seek(5)
        same(mt.load(file, "cpu"), arrays)


def test_the_file_can_be_deleted_afterwards(tmp_path, arrays):
    path = tmp_path / "model.safetensors"
    reference.save_file(arrays, path)
    tensors = mt.load(path, "cpu")
    path.write_bytes(b"")
    path.unlink()
    same(tensors, arrays)


def test_data_at_odd_places(arrays):
    # Other writers may not align: a name of odd length shifts all data.
    import json
    import struct

    values = np.arange(4, dtype=np.float64)
    text = json.dumps({"abc": {"dtype": "F64", "shape": [4], "data_offsets": [0, 32]}}).encode()
    text += b" " * (1 - len(text) % 2)
    content = struct.pack("<Q", len(text)) + text + values.tobytes()
    assert np.array_equal(mt.load(io.BytesIO(content), "cpu")["abc"].numpy(), values)


def test_bfloat16(tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    import json
    import struct

    values = np.array([1.0, -2.5, 3.25], dtype=ml_dtypes.bfloat16)
    text = json.dumps({"x": {"dtype": "BF16", "shape": [3], "data_offsets": [0, 6]}}).encode()
    content = struct.pack("<Q", len(text)) + text + values.tobytes()
    assert mt.load(io.BytesIO(content), "cpu")["x"].tolist() == [1.0, -2.5, 3.25]


def test_a_loaded_state_dict_fits_a_module(tmp_path):
    path = tmp_path / "linear.safetensors"
    weight = np.arange(6, dtype=np.float32).reshape(2, 3)
    reference.save_file({"weight": weight, "bias": np.ones(2, dtype=np.float32)}, path)
    with mt.device("meta"):
        layer = mt.nn.Linear(3, 2)
    layer.load_state_dict(mt.load(path, map_location="meta"), assign=True)
    assert layer.weight.is_meta
    layer.to_empty(device="cpu")
    layer.load_state_dict(mt.load(path))
    assert np.array_equal(layer.weight.detach().numpy(), weight)


def test_a_damaged_file_allocates_nothing(tmp_path):
    path = tmp_path / "cut.safetensors"
    path.write_bytes(reference.save({"x": np.zeros(100, dtype=np.float32)})[:-1])
    with pytest.raises(CheckpointError, match="truncated"):
        mt.load(path)
