"""Saving: other libraries can read the files, values are preserved, and a file is complete or absent."""

import io
import json
import mmap
import os
import stat
import zipfile
from collections import Counter, OrderedDict

import pytest

import metatensor as mt
from checkpoint import crash
from metatensor import nn
from metatensor.checkpoint import load, save
from metatensor.checkpoint._zip_writer import ZipWriter

np = pytest.importorskip("numpy")

DTYPES = sorted({getattr(mt, name).name for name in dir(mt) if isinstance(getattr(mt, name), mt.dtype)})
SAVED = [name for name in DTYPES if not name.startswith(("qint", "quint"))]


def there_and_back(obj, **options):
    out = io.BytesIO()
    save(obj, out, **options)
    out.seek(0)
    return load(out, "cpu")


def bits(tensor):
    from metatensor.plugins import backend

    return bytes(backend(tensor.device.type).to_host(tensor)) if tensor.numel() else b""


class Filled:
    """Tensors of any dtype with distinct bytes."""

    @staticmethod
    def of(dtype, *shape):
        tensor = mt.empty(*shape, dtype=getattr(mt, dtype), device="cpu")
        from metatensor.plugins import backend

        size = tensor.numel() * tensor.dtype.itemsize
        backend("cpu").from_host(tensor, bytes(i % 2 if dtype == "bool" else i % 251 for i in range(size)))
        return tensor


# PyTorch's format -------------------------------------------------------------------


@pytest.mark.parametrize("dtype", SAVED)
def test_every_dtype_comes_back(dtype):
    tensor = Filled.of(dtype, 3, 4)
    found = there_and_back({"x": tensor})["x"]
    assert (found.dtype, found.shape, bits(found)) == (tensor.dtype, tensor.shape, bits(tensor))


@pytest.mark.torch
@pytest.mark.parametrize("dtype", SAVED)
@pytest.mark.filterwarnings("ignore")
def test_pytorch_reads_every_dtype(dtype):
    import torch

    tensor = Filled.of(dtype, 3, 4)
    out = io.BytesIO()
    save({"x": tensor, "view": tensor[1:]}, out)
    out.seek(0)
    found = torch.load(out, weights_only=True)
    assert found["x"].dtype is getattr(torch, dtype)
    assert bytes(found["x"].untyped_storage().tolist()) == bits(tensor)
    assert found["view"].untyped_storage().data_ptr() == found["x"].untyped_storage().data_ptr()


def nested():
    base = mt.arange(24, dtype=mt.float32, device="cpu").reshape(4, 6)
    weight = nn.Parameter(mt.ones(3, 2, device="cpu"))
    return {
        "base": base, "rows": base[1:, ::2], "turned": base.t(), "bytes": base.view(mt.int32), "again": base,
        "weights": [weight, weight, nn.Parameter(mt.zeros(2, device="cpu"), requires_grad=False)],
        "plain": [1, -5, 300, 2**40, -(2**70), 1.5, None, True, False, "hé", "hé", b"\x00\xff", bytearray(b"ab"), 2 + 3j],
        "tuples": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)), "sets": {1, 2}, "counts": Counter("abca"),
        "ordered": OrderedDict(b=1, a=2), "size": mt.Size([2, 3]), "dtype": mt.bfloat16, "device": mt.device("cpu"),
        "cuda": mt.device("cuda:1"), "none": mt.zeros(0, 3, device="cpu"), "one": mt.tensor(3.5, device="cpu"),
        "grad": mt.ones(2, device="cpu", requires_grad=True), 3: "number", (1, "a"): "tuple",
    }  # fmt: skip


def compare(found, obj):
    for key in ("plain", "tuples", "sets", "counts", "ordered", 3, (1, "a")):
        assert found[key] == obj[key], key
    assert type(found["counts"]) is Counter
    assert type(found["ordered"]) is OrderedDict
    for key in ("base", "rows", "turned", "bytes", "none", "one"):
        assert found[key].tolist() == obj[key].tolist()
        assert tuple(found[key].stride()) == tuple(obj[key].stride())
        assert found[key].storage_offset() == obj[key].storage_offset()
    assert found["again"] is found["base"]
    assert found["weights"][0] is found["weights"][1]
    assert found["weights"][0].requires_grad
    assert not found["weights"][2].requires_grad
    assert found["grad"].requires_grad


def test_nested_containers_views_and_parameters_come_back():
    obj = nested()
    found = there_and_back(obj)
    compare(found, obj)
    assert type(found["weights"][0]) is nn.Parameter
    assert (found["size"], found["dtype"], found["device"], found["cuda"]) == (obj["size"], mt.bfloat16, obj["device"], obj["cuda"])
    for key in ("rows", "turned", "bytes"):
        assert found[key].untyped_storage() == found["base"].untyped_storage()


@pytest.mark.torch
def test_pytorch_reads_nested_containers():
    import torch

    out = io.BytesIO()
    save(nested(), out)
    out.seek(0)
    found = torch.load(out, weights_only=True)
    compare(found, nested())
    assert type(found["weights"][0]) is torch.nn.Parameter
    assert (found["size"], found["dtype"], found["device"]) == (torch.Size([2, 3]), torch.bfloat16, torch.device("cpu"))
    assert found["cuda"] == torch.device("cuda:1")
    for key in ("rows", "turned", "bytes"):
        assert found[key].untyped_storage().data_ptr() == found["base"].untyped_storage().data_ptr()


def test_a_module_and_an_optimizers_state():
    with mt.device("cpu"):
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    state = model.state_dict()
    optimizer = {"state": {0: {"step": mt.tensor(1.0, device="cpu")}}, "param_groups": [{"lr": 0.1}]}
    found = there_and_back({"model": state, "optimizer": optimizer})
    assert found["model"]._metadata == state._metadata
    assert found["optimizer"]["param_groups"] == [{"lr": 0.1}]
    assert {name: tensor.tolist() for name, tensor in found["model"].items()} == {name: tensor.tolist() for name, tensor in state.items()}


def test_conjugates_stay_lazy():
    tensor = mt.tensor([1 + 2j, 3 - 1j], device="cpu").conj()
    found = there_and_back([tensor])[0]
    assert found.is_conj()
    assert found.tolist() == tensor.tolist()


@pytest.mark.parametrize("dtype", sorted(set(DTYPES) - set(SAVED)))
def test_quantised_dtypes_are_refused(dtype):
    with pytest.raises(TypeError, match=rf"a tensor of {dtype} and shape \(2,\), because it is quantized"):
        save({"q": mt.empty(2, dtype=getattr(mt, dtype), device="cpu")}, io.BytesIO())


def test_the_archive_is_aligned_and_sound():
    out = io.BytesIO()
    save({f"x{i}": mt.arange(i, device="cpu") for i in range(20)}, out)
    with zipfile.ZipFile(out) as archive:
        assert archive.testzip() is None
        for info in archive.infolist():
            head = out.getvalue()[info.header_offset :]
            begin = info.header_offset + 30 + int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
            assert begin % 64 == 0
    again = io.BytesIO()
    save({f"x{i}": mt.arange(i, device="cpu") for i in range(20)}, again)
    assert again.getvalue() == out.getvalue()


@pytest.mark.slow
def test_more_members_than_sixteen_bits_count():
    out = io.BytesIO()
    writer = ZipWriter(out)
    for i in range(0x10001):
        writer.add(f"{i}", b"")
    writer.close()
    with zipfile.ZipFile(out) as archive:
        assert len(archive.namelist()) == 0x10001


class Sparse(io.RawIOBase):
    """A file in which long runs of zeros are skipped and not written."""

    def __init__(self, path):
        self.file = open(path, "wb")

    def write(self, data):
        if data.nbytes < 1 << 20 or data[0]:
            return self.file.write(data)
        self.file.seek(data.nbytes, 1)
        return data.nbytes


def test_more_than_four_gigabytes(tmp_path, monkeypatch):
    from metatensor.checkpoint import _zip_writer
    from metatensor.checkpoint._zip import Directory
    from metatensor.checkpoint.source import Source

    monkeypatch.setattr(_zip_writer, "_crc", lambda view, crc: crc)  # would take seconds for so many zeros
    out = Sparse(tmp_path / "large.zip")
    size = (1 << 32) + 5
    writer = ZipWriter(out)
    writer.add("small", b"before")
    with mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as zeros, memoryview(zeros) as view:
        writer.add("big", view, align=64)
    monkeypatch.undo()
    writer.add("after", b"beyond 4 GiB", align=64)
    writer.close()
    out.file.close()
    with zipfile.ZipFile(tmp_path / "large.zip") as archive:
        assert [info.file_size for info in archive.infolist()] == [6, size, 12]
        assert archive.read("after") == b"beyond 4 GiB"
    with open(tmp_path / "large.zip", "rb") as file:
        directory = Directory(Source(file, "large.zip"))
        assert directory.place_of("big")[1] == directory.size_of("big") == size
        assert directory.read("after") == b"beyond 4 GiB"


# Skeletons --------------------------------------------------------------------------


def skeleton():
    weight = mt.empty(4, 6, device="meta")
    return {"w": weight, "tie": weight, "rows": weight[1:], "turned": weight.t()[2:], "b": mt.empty(3, dtype=mt.bfloat16, device="meta"),
            "p": nn.Parameter(weight.t()), "lr": 0.1}  # fmt: skip


@pytest.mark.parametrize("location", ["meta", "cpu", None])
def test_a_skeleton_comes_back_on_meta(location):
    out = io.BytesIO()
    obj = skeleton()
    save(obj, out)
    assert len(out.getvalue()) < 5000
    out.seek(0)
    found = load(out, location)
    storage = found["w"].untyped_storage()
    for name in ("w", "tie", "rows", "turned", "p"):
        assert found[name].is_meta
        assert found[name].untyped_storage() is storage
        assert (found[name].stride(), found[name].storage_offset()) == (obj[name].stride(), obj[name].storage_offset())
        assert not vars(found[name]) if hasattr(found[name], "__dict__") else True
    assert found["b"].untyped_storage() is not storage
    assert found["b"].dtype is mt.bfloat16
    assert type(found["p"]) is nn.Parameter
    assert found["tie"] is found["w"]
    assert found["lr"] == 0.1


@pytest.mark.torch
def test_pytorch_reads_a_skeleton():
    import torch

    out = io.BytesIO()
    save(skeleton(), out)
    out.seek(0)
    found = torch.load(out, weights_only=True)
    assert {name: (tuple(t.shape), t.stride(), t.device.type) for name, t in found.items() if name != "lr"} == {
        name: (tuple(t.shape), tuple(t.stride()), "meta") for name, t in skeleton().items() if name != "lr"
    }


def test_skeletons_only_in_pytorchs_format(tmp_path):
    for ending in (".safetensors", ".npz"):
        with pytest.raises(RuntimeError, match="holds no data"):
            save({"w": mt.empty(2, device="meta")}, tmp_path / f"x{ending}")
    assert list(tmp_path.iterdir()) == []


# The other formats ------------------------------------------------------------------


def test_safetensors_and_npz(tmp_path):
    reference = pytest.importorskip("safetensors.numpy")
    tensors = {"b.c": mt.arange(5, device="cpu"), "a": mt.randn(3, 4, device="cpu").t(), "e": mt.zeros(0, 2, device="cpu"),
               "one": mt.tensor(True, device="cpu"), "half": mt.ones(3, dtype=mt.float16, device="cpu")}  # fmt: skip
    save(tensors, tmp_path / "x.safetensors", metadata={"format": "pt"})
    save(tensors, tmp_path / "x.npz")
    for found in (reference.load_file(tmp_path / "x.safetensors"), np.load(tmp_path / "x.npz")):
        assert set(found) == set(tensors)
        for name, tensor in tensors.items():
            assert found[name].dtype.name == tensor.dtype.name
            assert found[name].tolist() == tensor.tolist()
    save(tensors["a"], tmp_path / "x.npy")
    assert np.load(tmp_path / "x.npy").tolist() == tensors["a"].tolist()


@pytest.mark.torch
def test_safetensors_of_every_dtype(tmp_path):
    library = pytest.importorskip("safetensors.torch")
    import torch

    from metatensor.checkpoint.writers import SAFETENSORS_DTYPES

    names = [name for name in SAFETENSORS_DTYPES if hasattr(torch, name)]
    tensors = {name: Filled.of(name, 2, 4) for name in names}
    save(tensors, tmp_path / "x.safetensors")
    found = library.load_file(tmp_path / "x.safetensors")
    for name, tensor in tensors.items():
        assert found[name].dtype is getattr(torch, name)
        assert bytes(found[name].flatten().view(torch.uint8).tolist()) == bits(tensor), name


def test_what_safetensors_cannot_say(tmp_path):
    base = mt.zeros(4, 4, device="cpu")
    path = tmp_path / "x.safetensors"
    for obj, error, words in (
        ({"a": base, "b": base}, RuntimeError, "'a' and 'b' share memory"),
        ({"a": base[:3], "b": base[2:]}, RuntimeError, "share memory"),
        ([base], TypeError, "dict of tensors"),
        ({"a": 3}, TypeError, "'a' is of type int"),
        ({3: base}, TypeError, "names of tensors"),
        ({"a": mt.zeros(1, dtype=mt.complex128, device="cpu")}, TypeError, "complex128"),
        ({"__metadata__": base}, ValueError, "__metadata__"),
    ):
        with pytest.raises(error, match=words):
            save(obj, path)
    save({"a": base[:2], "b": base[2:]}, path)
    with pytest.raises(TypeError, match="bfloat16"):
        save({"a": mt.zeros(1, dtype=mt.bfloat16, device="cpu")}, tmp_path / "x.npz")
    assert [p.name for p in tmp_path.iterdir()] == ["x.safetensors"]


def test_the_format_is_chosen_by_name_or_told(tmp_path):
    tensors = {"a": mt.zeros(2, device="cpu")}
    save(tensors, tmp_path / "a.bin", format="safetensors")
    assert mt.checkpoint.inspect(tmp_path / "a.bin").format == "safetensors"
    save(tensors, str(tmp_path / "b.anything"))
    assert "PyTorch" in mt.checkpoint.inspect(tmp_path / "b.anything").format
    with pytest.raises(ValueError, match="unknown format"):
        save(tensors, tmp_path / "c", format="pickle")


# Shards -----------------------------------------------------------------------------


def test_shards(tmp_path):
    tensors = {f"l{i}": mt.full((100,), float(i), device="cpu") for i in range(10)}
    save(tensors, tmp_path / "model.safetensors", max_shard_size="1kB")
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["metadata"] == {"total_size": 4000}
    assert sorted(set(index["weight_map"].values())) == [f"model-{i:05d}-of-00005.safetensors" for i in range(1, 6)]
    assert {name: t[0].item() for name, t in load(tmp_path, "cpu").items()} == {f"l{i}": float(i) for i in range(10)}
    before = set(os.listdir(tmp_path))
    save(tensors, tmp_path / "model.safetensors", max_shard_size=2000)
    assert not before & (set(os.listdir(tmp_path)) - {"model.safetensors.index.json"}), "the old shards are gone"
    assert len(load(tmp_path, "meta")) == 10
    save(tensors, tmp_path / "model.safetensors", max_shard_size=1000)
    assert len(load(tmp_path, "meta")) == 10
    save(tensors, tmp_path / "model.safetensors", max_shard_size="1GB")
    assert os.listdir(tmp_path) == ["model.safetensors"]
    save(tensors, tmp_path / "model.safetensors", max_shard_size="1 KiB")
    assert "model.safetensors" not in os.listdir(tmp_path)


def test_shards_of_pytorch_keep_ties_together(tmp_path):
    tied = mt.ones(200, device="cpu")
    tensors = {"a": tied, "x": mt.zeros(150, device="cpu"), "b": tied[10:]}
    save(tensors, tmp_path / "pytorch_model.bin", max_shard_size=900)
    weights = json.loads((tmp_path / "pytorch_model.bin.index.json").read_text())["weight_map"]
    assert weights["a"] == weights["b"] != weights["x"]
    found = load(tmp_path, "cpu")
    assert found["a"].untyped_storage() == found["b"].untyped_storage()


def test_shards_from_an_iterable_are_held_one_at_a_time(tmp_path):
    import weakref

    alive = weakref.WeakSet()
    most = 0

    def produce():
        nonlocal most
        for i in range(20):
            tensor = mt.full((100,), float(i), device="cpu")
            alive.add(tensor)
            most = max(most, len(alive))
            yield f"l{i}", tensor
            del tensor

    try:
        weakref.ref(mt.zeros(1, device="cpu"))
    except TypeError:
        alive = set()
    save(produce(), tmp_path / "model.safetensors", max_shard_size=1200)
    assert len(load(tmp_path, "meta")) == 20
    if isinstance(alive, weakref.WeakSet):
        assert most <= 8


def test_shard_errors(tmp_path):
    tensors = {"a": mt.zeros(2, device="cpu")}
    for size in ("many", "", "1XB", 0, -3):
        with pytest.raises(ValueError, match="max_shard_size"):
            save(tensors, tmp_path / "x.safetensors", max_shard_size=size)
    with pytest.raises(ValueError, match="cannot be sharded"):
        save(tensors, tmp_path / "x.npz", max_shard_size=10)
    with pytest.raises(TypeError, match="path"):
        save(tensors, io.BytesIO(), max_shard_size=10)
    with pytest.raises(ValueError, match="twice"):
        save([("a", tensors["a"]), ("a", tensors["a"])], tmp_path / "x.safetensors", max_shard_size=1)
    assert list(tmp_path.iterdir()) == []


# All or nothing ---------------------------------------------------------------------


@pytest.mark.parametrize("unnamed", [True, False])
def test_a_failure_leaves_the_old_file_and_no_rubbish(tmp_path, monkeypatch, unnamed):
    if not unnamed:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    path = tmp_path / "x.pt"
    save({"a": mt.ones(1000, device="cpu")}, path)
    before = path.read_bytes()
    from metatensor.checkpoint.writers import Contents

    def fail(self, storage):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Contents, "storage", fail)
    with pytest.raises(OSError, match="No space"):
        save({"a": mt.zeros(10, device="cpu")}, path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["x.pt"]
    monkeypatch.undo()
    if not unnamed:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    save({"a": mt.zeros(10, device="cpu")}, path)
    assert load(path, "meta")["a"].shape == (10,)
    assert os.listdir(tmp_path) == ["x.pt"]


def test_rights_and_links_are_kept(tmp_path):
    real, link = tmp_path / "real.pt", tmp_path / "link.pt"
    save([1], real)
    real.chmod(0o640)
    link.symlink_to(real)
    save([2], link)
    assert link.is_symlink()
    assert load(real) == [2]
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    umask = os.umask(0o027)
    try:
        save([1], tmp_path / "new.pt")
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "new.pt").stat().st_mode) == 0o640


def test_places_that_are_no_files(tmp_path):
    with pytest.raises(FileNotFoundError):
        save([1], tmp_path / "none" / "x.pt")
    with pytest.raises(IsADirectoryError):
        save([1], tmp_path)
    save([1], os.devnull)


@pytest.mark.slow
@pytest.mark.parametrize("form", crash.FORMS)
def test_kill_at_any_moment(tmp_path, form):
    old, new, _ = crash.crash(tmp_path, form, 2)
    assert old + new == 2


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_tensors_are_pickled_the_same_by_the_general_functions(protocol):
    """An extended pickler does not use the functions that write plain tensors and values quickly."""
    import pickle
    from types import SimpleNamespace

    from metatensor.checkpoint._pickle_writer import pickled

    shared = mt.ones(4, 3, device="cpu")
    tensors = [mt.zeros(size, device="cpu") for size in ((), (0,), (2,), (300, 2), (1, 2, 3), (1, 2, 1, 70_000), (1,) * 7)]
    value = {
        "plain": tensors, "again": tensors[3], "views": [shared, shared[1:], shared.t(), shared.expand(2, 4, 3)],
        "grad": mt.ones(2, device="cpu", requires_grad=True), "conj": mt.ones(2, dtype=mt.complex64, device="cpu").conj(),
        "other": [mt.ones(2, dtype=mt.uint16, device="cpu"), nn.Parameter(shared), mt.ones(2, device="meta")],
        "values": [True, 5, 1 << 70, "text", ("tuple", 1), mt.float32],
    }  # fmt: skip

    class Pickler(pickle._Pickler):
        pass

    quick, general = (pickled(value, protocol=protocol, pickle_module=m)[0] for m in (None, SimpleNamespace(Pickler=Pickler)))
    assert quick == general
