"""Settings of loading and saving in `metatensor.serialization`, and their counterparts in `torch.serialization`."""

import io
import mmap
import pickle
import sys
import zipfile

import pytest

import metatensor as mt
from metatensor import serialization
from metatensor.checkpoint import load, save
from metatensor.plugins import device_types
from metatensor.torch_api.torch import serialization as torch_serialization

pytestmark = pytest.mark.skipif("cpu" not in device_types(), reason="the cpu plugin is not installed")


@pytest.fixture(autouse=True)
def on_cpu():
    with mt.device("cpu"):
        yield
    serialization.set_default_load_endianness(None)
    serialization.set_crc32_options(True)
    serialization.set_default_mmap_options(mmap.MAP_PRIVATE)
    serialization._packages.clear()


def saved(obj, **options):
    out = io.BytesIO()
    torch_serialization.save(obj, out, **options)
    out.seek(0)
    return out


def test_every_name_of_pytorchs_is_there():
    torch = pytest.importorskip("torch.serialization")
    assert set(torch.__all__) <= set(torch_serialization.__all__)
    for name in torch_serialization.__all__:
        assert hasattr(torch_serialization, name)


@pytest.mark.parametrize("order", list(serialization.LoadEndianness))
@pytest.mark.parametrize("weights_only", [True, False])
def test_the_byte_order_of_files_that_do_not_say_theirs(order, weights_only):
    bare = saved(mt.tensor([1, 256], dtype=mt.int16), _disable_byteorder_record=True)
    assert not [name for name in zipfile.ZipFile(bare).namelist() if "byteorder" in name]
    bare.seek(0)
    serialization.set_default_load_endianness(order)
    assert serialization.get_default_load_endianness() is order
    swapped = order is serialization.LoadEndianness.BIG and sys.byteorder == "little"
    assert load(bare, weights_only=weights_only).tolist() == ([256, 1] if swapped else [1, 256])
    told = saved(mt.tensor([1, 256], dtype=mt.int16))
    assert load(told, weights_only=weights_only).tolist() == [1, 256]
    with pytest.raises(TypeError, match="expected a LoadEndianness or None, got str"):
        serialization.set_default_load_endianness("big")


def test_checksums():
    assert serialization.get_crc32_options() is True
    serialization.set_crc32_options(False)
    out = saved({"a": mt.ones(3)})
    assert {info.CRC for info in zipfile.ZipFile(out).infolist()} == {0}
    out.seek(0)
    assert load(out)["a"].tolist() == [1, 1, 1]


@pytest.mark.torch
def test_pytorch_reads_files_without_checksums():
    torch = pytest.importorskip("torch")
    serialization.set_crc32_options(False)
    assert torch.load(saved({"a": mt.ones(3)}))["a"].tolist() == [1, 1, 1]


def test_mapping_for_writing(tmp_path):
    path = tmp_path / "a.pt"
    save({"a": mt.ones(3)}, path)
    load(path, mmap=True)["a"].fill_(5)
    assert load(path)["a"].tolist() == [1, 1, 1]
    with serialization.set_default_mmap_options(mmap.MAP_SHARED):
        assert serialization.get_default_mmap_options() == mmap.MAP_SHARED
        load(path, mmap=True)["a"].fill_(5)
    assert serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    assert load(path)["a"].tolist() == [5, 5, 5]
    with pytest.raises(ValueError, match=r"mmap\.MAP_PRIVATE or mmap\.MAP_SHARED, got 77"):
        serialization.set_default_mmap_options(77)


@pytest.mark.parametrize("old", [False, True])
def test_skipping_data(old):
    with serialization.skip_data():
        out = saved({"a": mt.ones(3), "b": [1]}, _use_new_zipfile_serialization=not old)
    found = load(out)
    assert found["a"].tolist() == [0, 0, 0] and found["b"] == [1]
    whole = saved({"a": mt.ones(3)}, _use_new_zipfile_serialization=not old)
    assert len(out.getvalue()) > len(whole.getvalue()) - 20
    with serialization.skip_data():
        assert load(whole)["a"].shape == (3,)
    with mt.FakeTensorMode():
        fake = mt.ones(3)
    with serialization.skip_data(), pytest.raises(RuntimeError, match="holds no data"):
        saved(fake)
    with serialization.skip_data(materialize_fake_tensors=True):
        assert load(saved(fake)).shape == (3,)


@pytest.mark.parametrize("weights_only", [True, False])
def test_packages(weights_only):
    asked = []

    def restore(storage, location):
        asked.append(location)
        return storage.to("meta") if location == "mine" else None

    serialization.register_package(5, lambda storage: "mine" if storage.nbytes() > 8 else None, restore)
    assert serialization.location_tag(mt.ones(1).untyped_storage()) == "cpu"
    assert serialization.location_tag(mt.ones(9).untyped_storage()) == "mine"
    out = saved({"small": mt.ones(1), "large": mt.ones(9)})
    found = load(out, weights_only=weights_only)
    assert found["large"].is_meta and found["small"].tolist() == [1] and "mine" in asked
    out.seek(0)
    assert load(out, "cpu")["large"].tolist() == [1] * 9
    with pytest.raises(TypeError, match="must be callable"):
        serialization.register_package(5, None, restore)


def test_packages_after_the_known_devices():
    serialization.register_package(20, lambda storage: "mine", lambda storage, location: storage.to("meta") if location == "odd" else None)
    assert serialization.location_tag(mt.ones(1).untyped_storage()) == "cpu"
    storage = mt.ones(1).untyped_storage()
    assert torch_serialization.default_restore_location(storage, "cpu") is storage
    assert torch_serialization.default_restore_location(storage, "meta").device.type == "meta"
    assert torch_serialization.default_restore_location(mt.checkpoint.map_location.StoredAt(4), "odd").device.type == "meta"
    with pytest.raises(RuntimeError, match="'none' is not available"):
        torch_serialization.default_restore_location(storage, "none")


def test_loading_as_torch_does():
    whole = saved(mt.nn.Linear(2, 3))
    assert torch_serialization.load(whole, weights_only=False).in_features == 2
    whole.seek(0)
    assert torch_serialization.load(whole, pickle_module=pickle).in_features == 2
    whole.seek(0)
    with pytest.raises(RuntimeError, match="cannot be used with weights_only=True"):
        torch_serialization.load(whole, pickle_module=pickle, weights_only=True)
    with pytest.raises(mt.checkpoint.CheckpointError, match="No unknown code was run"):
        torch_serialization.load(whole)
    whole.seek(0)
    with pytest.raises(ValueError, match="mmap needs the path of a file"):
        torch_serialization.load(whole, mmap=True)
    with pytest.warns(UserWarning, match="pickle_load_args"):
        torch_serialization.load(saved([1]), encoding="latin1")
    assert torch_serialization.load(saved([1], pickle_protocol=4), weights_only=False, encoding="latin1") == [1]


def test_saving_as_torch_does_heeds_no_ending(tmp_path):
    torch_serialization.save({"a": mt.ones(1)}, tmp_path / "a.gguf")
    assert load(tmp_path / "a.gguf")["a"].tolist() == [1]


def test_small_functions():
    module = type(sys)("module")
    module.__version__ = "1.2.3+local"
    check = torch_serialization.check_module_version_greater_or_equal
    assert check(module, (1, 2, 3)) and check(module, (1, 1, 9)) and not check(module, (1, 3, 0))
    module.__version__ = "new"
    with pytest.raises(RuntimeError, match="cannot be read"):
        check(module, (1, 2, 3))
    with pytest.warns(UserWarning, match="cannot be read"):
        assert check(module, (1, 2, 3), error_if_malformed=False)
    assert torch_serialization.StorageType("HalfStorage").dtype is mt.float16
    assert torch_serialization.storage_to_tensor_type(mt.ones(1, dtype=mt.int32).storage()).dtype is mt.int32
    with pytest.raises(RuntimeError, match="use map_location"):
        torch_serialization.validate_cuda_device("cuda:77")
