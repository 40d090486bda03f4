"""Files written by PyTorch, compared bit for bit with what PyTorch loads from them."""

# ruff: noqa: E501

import argparse
import collections
import io
import os
import struct
import warnings
import zipfile

import pytest

import metatensor as mt
from metatensor.checkpoint import CheckpointError, inspect

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")
if "cpu" not in mt.plugins.device_types():
    pytest.skip("the cpu plugin is not installed", allow_module_level=True)

from .comparing import compare, same

pytestmark = pytest.mark.torch

DTYPES = [
    name
    for name in dir(torch)
    if isinstance(getattr(torch, name), torch.dtype) and str(getattr(torch, name)) == f"torch.{name}" and hasattr(mt, name)
]


def round_trip(value, old=False, unsafe=False):
    """Save `value` with PyTorch and load it on meta, on the cpu, and mapped."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.save(value, file, _use_new_zipfile_serialization=not old)
    file.seek(0)
    theirs = torch.load(file, weights_only=not unsafe)
    file.seek(0)
    compare(mt.load(file, "meta"), theirs, data=False)
    file.seek(0)
    ours = mt.load(file)
    compare(ours, theirs)
    return ours, theirs


old_and_new = pytest.mark.parametrize("old", [False, True], ids=["zip", "legacy"])


@old_and_new
@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype(name, old):
    dtype = getattr(torch, name)
    if name.startswith("q"):
        pytest.skip("quantized tensors have no counterpart")
    bits = torch.arange(64, dtype=torch.uint8) % 2 if dtype is torch.bool else torch.arange(64, dtype=torch.uint8)
    value = bits.view(dtype)
    try:
        torch.load(saved(value, _use_new_zipfile_serialization=not old))
    except Exception as error:
        pytest.skip(f"PyTorch itself does not load it: {error}")
    round_trip({"x": value, "rest": value[1:]}, old)


@old_and_new
def test_views_with_strides_and_offsets(old):
    base = torch.arange(120.0).reshape(4, 5, 6)
    round_trip([base.permute(2, 0, 1), base[1:, ::2], base[..., 3], base.expand(4, 5, 6), torch.ones(1).expand(1000, 1000), base[0:0], base[3:3, :, 1:], base], old)


@old_and_new
def test_shared_storage_and_identity(old):
    weight = torch.nn.Parameter(torch.randn(3, 4))
    ours, _ = round_trip({"a": weight, "b": weight, "t": weight.detach().t(), "other": torch.randn(3, 4)}, old)
    assert ours["a"] is ours["b"] and ours["a"].untyped_storage() is ours["t"].untyped_storage()
    assert ours["other"].untyped_storage() is not ours["a"].untyped_storage()


@old_and_new
def test_scalars_and_empty_tensors(old):
    round_trip([torch.tensor(3.5), torch.tensor(7), torch.empty(0), torch.empty(2, 0, 3), torch.tensor(True)], old)


@old_and_new
def test_nested_containers_and_plain_values(old):
    shared = [1, 2]
    value = {
        "numbers": [0, 1, -1, 255, 256, 65535, 65536, -(2**31), 2**31, 2**63, -(2**63), 10**40, 1.5, -0.0, float("inf"), 1e-320],
        "texts": ["", "ä", "日本", "\U0001f600", "x" * 300, "a\nb", "\0"], "bytes": [b"", b"a", bytes(range(256)), b"x" * 300, bytearray(b"abc")],
        "others": [None, True, False, (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), [], {}, set(), {1, 2}, frozenset({3}), 1 + 2j],
        "keys": {7: "a", 2.5: "b", (1, "x"): "c", None: "d", True: "e", b"k": "f"}, "shared": [shared, shared, (shared, ())],
        "torch": [torch.float16, torch.Size([2, 3]), torch.Size([]), torch.device("cpu"), torch.device("cuda", 1), torch.strided],
        "ordered": collections.OrderedDict([("b", 1), ("a", collections.OrderedDict())]), "tuple": (collections.OrderedDict(), 1), "count": collections.Counter("abca"),
    }  # fmt: skip
    for part in ("others", "keys", "torch", "numbers", "texts", "bytes", "ordered", "tuple", "count", "shared"):
        kept = value[part] if part != "torch" else value[part][:-1]
        ours, _ = round_trip({part: kept}, old, unsafe=part in ("others", "bytes"))
    assert mt.load(saved({"x": shared, "y": shared}), "meta")["x"] == [1, 2]
    found = mt.load(saved({"x": shared, "y": shared}), "meta")
    assert found["x"] is found["y"]


def saved(value, **options):
    file = io.BytesIO()
    torch.save(value, file, **options)
    file.seek(0)
    return file


@old_and_new
def test_numpy_values(old):
    value = [np.float32(1.5), np.int64(-3), np.bool_(True), np.arange(6, dtype=np.int32).reshape(2, 3), np.asfortranarray(np.ones((2, 3))), np.zeros((0, 3), np.float16),
             np.array(["ab", "c"]), np.arange(3, dtype=">i4"), np.complex64(1j)]  # fmt: skip
    round_trip(value, old, unsafe=True)


@old_and_new
def test_defaultdict(old):
    value = collections.defaultdict(list, a=[1])
    ours, _ = round_trip(value, old, unsafe=True)
    assert ours["new"] == []


@old_and_new
def test_modules_and_optimizers(old):
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 4), torch.nn.LSTM(4, 5, bidirectional=True)
    )
    for make in (torch.optim.Adam, lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), torch.optim.Adagrad, torch.optim.RMSprop):
        optimizer = make(model.parameters())
        model(torch.randn(2, 3, 8, 8))[0].sum().backward()
        optimizer.step()
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
        checkpoint = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "schedule": schedule.state_dict(), "epoch": 3, "rng": torch.get_rng_state()}
        ours, _ = round_trip(checkpoint, old)
        assert ours["model"]._metadata == model.state_dict()._metadata


@old_and_new
def test_parameters(old):
    fixed = torch.nn.Parameter(torch.randn(2), requires_grad=False)
    tagged = torch.nn.Parameter(torch.randn(2))
    tagged.sharded = True
    ours, _ = round_trip([fixed, torch.nn.Parameter(torch.randn(3)), torch.randn(2, requires_grad=True), tagged], old)
    assert ours[3].sharded is True


@old_and_new
def test_lazy_conjugates_and_negatives(old):
    value = torch.randn(4, dtype=torch.complex64)
    round_trip([value.conj(), value, value.conj()[1:]], old)
    round_trip(value.conj().imag, old)


@old_and_new
def test_tensors_saved_from_meta(old):
    value = {"a": torch.empty(3, 4, device="meta"), "b": torch.nn.Parameter(torch.empty(2, device="meta", dtype=torch.float16))}
    file = saved(value, _use_new_zipfile_serialization=not old)
    ours = mt.load(file)
    same(ours["a"], value["a"], data=False)
    same(ours["b"], value["b"], data=False)


def test_storages_as_values():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = {"u": torch.arange(4.0).untyped_storage(), "t": torch.arange(4).storage()}
        ours = mt.load(saved(value))
    assert isinstance(ours["u"], mt.UntypedStorage) and ours["u"].nbytes() == 16
    assert ours["t"].tolist() == [0, 1, 2, 3]


@old_and_new
@pytest.mark.parametrize("weights_only", [True, False])
def test_what_has_no_counterpart_leaves_the_rest(old, weights_only, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = {
            "sparse": torch.eye(3).to_sparse(), "rows": torch.eye(3).to_sparse_csr(), "dense": torch.ones(2),
            "quantised": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
            "channels": torch.quantize_per_channel(torch.ones(3, 2), torch.ones(3), torch.zeros(3, dtype=torch.long), 0, torch.quint8),
            "nested": torch.nested.nested_tensor([torch.ones(1)]),
        }  # fmt: skip
        path = tmp_path / "x.pt"
        torch.save(value, path, _use_new_zipfile_serialization=not old)
    found = mt.load(path, "cpu", weights_only=weights_only)
    assert found["dense"].tolist() == [1, 1] and found.keys() == value.keys()
    for name, word in (("sparse", "sparse_coo"), ("rows", "sparse_csr"), ("quantised", "quantized"), ("channels", "quantized"), ("nested", "nested")):
        entry = found[name]
        assert isinstance(entry, mt.checkpoint.UnsupportedTensor) and word in repr(entry)
        for use in (lambda: entry + 1, lambda: entry.shape, lambda: mt.add(entry, 1), lambda: len(entry), lambda: mt.save(entry, io.BytesIO())):
            with pytest.raises(NotImplementedError, match=word):
                use()
    listed = inspect(path)
    assert list(listed.tensors) == ["dense"] and listed.unsupported.keys() == value.keys() - {"dense"}
    assert "sparse_coo" in listed.to_dict()["unsupported"]["sparse"]

    class Model(mt.nn.Module):
        def __init__(self):
            super().__init__()
            self.dense, self.sparse = mt.nn.Parameter(mt.empty(2)), mt.nn.Parameter(mt.empty(3, 3))

    with mt.device("cpu"):
        model = Model()
    with pytest.raises(RuntimeError, match="sparse: it cannot be loaded: it is a sparse tensor"):
        mt.load_into(model, path)
    with pytest.raises(TypeError, match="would lack 'sparse'"):
        mt.checkpoint.convert(path, tmp_path / "y.pt")
    mt.checkpoint.convert(path, tmp_path / "y.pt", drop=True)
    assert list(mt.load(tmp_path / "y.pt", "meta")) == ["dense"]


def test_a_byte_order_that_is_not_ours():
    values = {"f": torch.arange(5.0), "c": torch.randn(3, dtype=torch.complex128), "h": torch.ones(4, dtype=torch.float16), "b": torch.arange(3, dtype=torch.uint8)}
    content = saved(values).getvalue()
    big = content.replace(b"little", b"big" + b"\0" * 3)
    import zipfile

    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(out, "w") as target:
        keys = {"f": 4, "c": 8, "h": 2, "b": 1}
        for info in source.infolist():
            data = source.read(info)
            if info.filename.endswith("byteorder"):
                data = b"big"
            if "/data/" in info.filename:
                width = list(keys.values())[int(info.filename.rpartition("/")[2])]
                data = np.frombuffer(data, f"u{width}").byteswap().tobytes()
            target.writestr(info.filename, data)
    assert big != content
    out.seek(0)
    compare(mt.load(out), values)


def test_a_file_without_a_byte_order_is_little_endian():
    compare(mt.load(saved({"x": torch.arange(4)}, _disable_byteorder_record=True)), {"x": torch.arange(4)})


def test_mapped(tmp_path):
    path = tmp_path / "model.pt"
    value = {"a": torch.arange(1000.0).reshape(10, 100), "b": torch.arange(7)}
    torch.save(value, path)
    before = path.read_bytes()
    ours = mt.load(path, mmap=True)
    compare(ours, value)
    ours["a"].add_(1)
    assert ours["a"][0, 0].item() == 1 and path.read_bytes() == before
    os.unlink(path)
    assert ours["b"].tolist() == list(range(7))


def test_map_location():
    file = saved({"a": torch.ones(2), "b": torch.zeros(3)})
    seen = []

    def choose(storage, location):
        seen.append((storage.nbytes(), location))
        return storage.to("meta") if storage.nbytes() == 8 else storage

    ours = mt.load(file, choose)
    assert ours["a"].is_meta and ours["b"].device.type == "cpu" and seen == [(8, "cpu"), (12, "cpu")]
    file.seek(0)
    assert mt.load(file, {"cpu": "meta"})["a"].is_meta


def test_what_map_location_raises_comes_through():
    class Mine(Exception):
        pass

    def choose(storage, location):
        raise Mine

    with pytest.raises(Mine):
        mt.load(saved(torch.ones(2)), choose)


def test_inspect():
    base = torch.arange(12.0)
    file = saved({"model": {"a": base, "b": base[4:]}, "list": [torch.ones(2, dtype=torch.float16)]})
    found = inspect(file)
    assert list(found.tensors) == ["model.a", "model.b", "list.0"]
    a, b = found.tensors["model.a"], found.tensors["model.b"]
    assert a.storage == b.storage and b.offset == a.offset + 16 and a.offset % 64 == 0
    assert struct.unpack("<f", file.getvalue()[b.offset : b.offset + 4]) == (4.0,)


def test_onto_meta_no_data_are_read():
    class Counting(io.BytesIO):
        total = 0

        def read(self, n=-1):
            data = super().read(n)
            Counting.total += len(data)
            return data

    for old in (False, True):
        content = saved({"x": torch.zeros(2**22)}, _use_new_zipfile_serialization=not old).getvalue()
        Counting.total = 0
        assert mt.load(Counting(content), "meta")["x"].numel() == 2**22
        assert Counting.total < 2**19


def test_two_objects_in_one_stream():
    file = io.BytesIO()
    for value in (torch.ones(2), torch.zeros(3)):
        torch.save(value, file, _use_new_zipfile_serialization=False)
    file.seek(0)
    assert mt.load(file).tolist() == [1, 1] and mt.load(file).tolist() == [0, 0, 0]


def test_a_checkpoint_without_checksums():
    from torch.serialization import get_crc32_options, set_crc32_options

    before = get_crc32_options()
    set_crc32_options(False)
    try:
        file = saved({"x": torch.arange(4)})
    finally:
        set_crc32_options(before)
    assert mt.load(file)["x"].tolist() == [0, 1, 2, 3]


def test_what_is_cut_or_too_long():
    for old in (False, True):
        content = saved({"x": torch.ones(100), "y": [1, "a"]}, _use_new_zipfile_serialization=not old).getvalue()
        for n in [*range(0, len(content) - 400, 37), len(content) - 1]:
            with pytest.raises(CheckpointError):
                mt.load(io.BytesIO(content[:n]), "meta")


def test_torchscript(tmp_path):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 4)
            self.tied = self.linear
            self.numbers = [1, 2, 3]
            self.register_buffer("scale", torch.arange(4.0))

        def forward(self, x):
            return self.linear(x) * self.scale + torch.tensor([1.0, 2.0, 3.0, 4.0])

    scripted = torch.jit.script(Net())
    path = tmp_path / "net.pt"
    scripted.save(path)
    state = scripted.state_dict()
    ours = mt.load(path)
    assert set(state) <= set(ours)
    for name, value in state.items():
        same(ours[name].detach(), value)
    assert ours["linear.weight"].requires_grad and not ours["scale"].requires_grad
    assert ours["linear.weight"].untyped_storage() is ours["tied.weight"].untyped_storage()
    found = inspect(path)
    assert found.format == "TorchScript" and "Net" in found.metadata["class"] and found.tensors["scale"].shape == (4,)


def test_the_tar_format_is_named():
    import tarfile

    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("sys_info"), io.BytesIO(b""))
    with pytest.raises(CheckpointError, match=r"tar archive.*0\.2"):
        mt.load(io.BytesIO(out.getvalue()), "meta")


class Shared(torch.nn.Module):
    """A module with a child of two names, a child of two owners, a cycle, and an object with tensors that is not a child."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
        self.again = self.first
        self.owners = [self, {"of": self.first}]
        self.settings = argparse.Namespace(scale=torch.ones(1), deep=[[torch.zeros(2)]])


@pytest.mark.parametrize("old", [False, True], ids=["zip", "legacy"])
def test_a_module_that_was_saved_whole_is_refused_but_its_tensors_are_there(tmp_path, old):
    module, path = Shared(), tmp_path / "whole.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.save({"model": module, "step": 3}, path, _use_new_zipfile_serialization=not old)
    with pytest.raises(CheckpointError, match=r"torch\.nn\.modules.*whole module.*state_dict.*load_into"):
        mt.load(path, "meta")
    found = inspect(path).tensors
    assert found.keys() == {*(f"model.{name}" for name in module.state_dict()), "model.settings.scale", "model.settings.deep.0.0"}
    assert found["model.first.0.weight"].storage == found["model.again.0.weight"].storage

    with mt.device("meta"):
        ours = mt.nn.Module()
        ours.first = mt.nn.Sequential(mt.nn.Linear(2, 3), mt.nn.BatchNorm1d(3))
        ours.again = ours.first
    assert inspect(path).attributes == {"model.settings.scale", "model.settings.deep.0.0"}
    assert mt.load_into(ours, path, device="cpu", prefix="model.") == ([], [])
    for name, value in module.state_dict().items():
        same(ours.state_dict()[name], value)
    with pytest.raises(TypeError, match="would lack 'objects of .*Shared', 'objects of argparse.Namespace'"):
        mt.checkpoint.convert(path, tmp_path / "parts.safetensors")
    mt.checkpoint.convert(path, tmp_path / "parts.safetensors", drop=True)
    assert mt.load(tmp_path / "parts.safetensors")["model.settings.scale"].item() == 1


def test_objects_in_objects_are_looked_through_once(tmp_path):
    from .hostile import P2, name, tensor, zipped

    made = name("a", "B") + b")\x81q\x01" + b"}(X\x01\x00\x00\x00x" + tensor() + b"X\x01\x00\x00\x00yh\x01ub"
    assert list(inspect(io.BytesIO(zipped(P2 + made + b"."))).tensors) == ["x"]
    laughs = b"]q\x020" + b"".join(b"]q%c(h%ch%ce0" % (i, i - 1, i - 1) for i in range(3, 60)) + name("a", "B") + b")\x81h\x3bb"
    assert not inspect(io.BytesIO(zipped(P2 + laughs + b"."))).tensors
    part = name("a", "B") + b")\x81q%c}X\x08\x00\x00\x00_modules}(X\x01\x00\x00\x00ah%cX\x01\x00\x00\x00bh%cusb"
    parts = b"]q\x020" + b"0".join(part % (i, i - 1, i - 1) for i in range(3, 60))
    assert not inspect(io.BytesIO(zipped(P2 + parts + b"."))).tensors
    deep = (name("a", "B") + b")\x81") * 50_000 + b"N" + b"b" * 50_000
    assert not inspect(io.BytesIO(zipped(P2 + deep + b"."))).tensors


def test_names_of_python_2(tmp_path):
    from .hostile import P2, name, zipped

    assert mt.load(io.BytesIO(zipped(P2 + b"(" + name("__builtin__", "long") + name("__builtin__", "unicode") + b"t."))) == (int, str)


def test_lone_surrogates(tmp_path):
    value = {"\ud800": mt.ones(2, device="cpu"), "x": "a\udfff"}
    mt.save(value, tmp_path / "a.pt")
    assert list(torch.load(tmp_path / "a.pt")) == list(mt.load(tmp_path / "a.pt")) == list(value)
    for ending in ("safetensors", "npz"):
        with pytest.raises(ValueError, match="UTF-8"):
            mt.save({"\ud800": value["\ud800"]}, tmp_path / f"a.{ending}")


def test_where_it_was_saved_is_told():
    file = saved({"a": torch.ones(2)})
    moved = io.BytesIO()
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(moved, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name).replace(b"X\x03\0\0\0cpu", b"X\x06\0\0\0cuda:1"))
    moved.seek(0)
    assert inspect(moved).tensors["a"].location == "cuda:1"
    moved.seek(0)
    assert mt.load(moved, {"cuda:1": "cpu"})["a"].tolist() == [1, 1]
