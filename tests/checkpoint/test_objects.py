"""Saving and loading of objects that are not tensors: PyTorch can read them, and `weights_only=False` restores them."""

import argparse
import collections
import copyreg
import dataclasses
import datetime
import importlib
import io
import os
import pathlib
import pickle
import subprocess
import sys
import types

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.checkpoint import CheckpointError, inspect, load, save
from metatensor.interchange.torch_modules import target_of
from metatensor.plugins import device_types

np = pytest.importorskip("numpy")
pytestmark = pytest.mark.skipif("cpu" not in device_types(), reason="the cpu plugin is not installed")

FORMATS = ["torch", "torch-legacy"]
PROTOCOLS = range(6)


@pytest.fixture(autouse=True)
def on_cpu():
    with mt.device("cpu"):
        yield


@dataclasses.dataclass
class Settings:
    width: int
    path: pathlib.Path
    weight: object = None


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a, b):
        self.a, self.b = a, b

    def __eq__(self, other):
        return (self.a, self.b) == (other.a, other.b)


class Reduced:
    """An object with its own `__reduce__`."""

    def __init__(self, value):
        self.value = value

    def __reduce_ex__(self, protocol):
        return Reduced, (self.value,)

    def __eq__(self, other):
        return self.value == other.value


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.GELU())
        self.rnn = nn.LSTM(4, 5, num_layers=2)
        self.head = nn.Linear(5, 5)
        self.head.weight = nn.Parameter(self.rnn.weight_hh_l0.detach()[:5])
        self.register_buffer("steps", mt.arange(3), persistent=False)
        self.anchors = mt.ones(2)

    def forward(self, x):
        return self.head(self.rnn(self.encoder(x))[0])


class Labelled(mt.Tensor):
    """A subclass defined by a user."""


def hook(module, args):
    return (args[0] * 2,)


Point = collections.namedtuple("Point", "x y")
OBJECTS = [
    argparse.Namespace(lr=0.1, betas=(0.9, 0.99)), pathlib.PurePosixPath("/data/run"), datetime.datetime(2026, 1, 2, 3, 4),
    datetime.timedelta(hours=2),
    Settings(3, pathlib.PurePosixPath("x")), Slotted(1, "x"), Reduced([1, 2]), Point(1, 2), range(3), slice(1, 2),
    frozenset([1]), {1, 2}, 3 + 4j, b"bytes", bytearray(b"more"), 2**2000, None, ..., float("inf"), "\ud800", {"nested": [(), {}, set()]},
    collections.defaultdict(list, a=[1]), collections.Counter("aab"), collections.deque([1]), types.SimpleNamespace(a=1), ValueError("x"),
]  # fmt: skip


def saved(obj, **options):
    out = io.BytesIO()
    save(obj, out, **options)
    out.seek(0)
    return out


def objects(protocol):
    """Return objects that can be pickled in a protocol."""
    return [obj for obj in OBJECTS if protocol >= 2 or type(obj) is not Slotted]


def plain(value):
    """Return `value` in a form that can be compared."""
    return repr(value) if isinstance(value, (Exception, types.EllipsisType)) else value


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_objects_come_back(form, protocol):
    for obj in objects(protocol):
        found = load(saved(obj, format=form, pickle_protocol=protocol), weights_only=False)
        assert type(found) is type(obj) and plain(found) == plain(obj)


@pytest.mark.torch
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_pytorch_reads_objects(form, protocol):
    torch = pytest.importorskip("torch")
    for obj in objects(protocol):
        found = torch.load(saved(obj, format=form, pickle_protocol=protocol), weights_only=False)
        assert type(found) is type(obj) and plain(found) == plain(obj)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("weights_only", [True, False])
def test_tensors_and_what_they_share_come_back(form, protocol, weights_only):
    base = mt.arange(12.0).reshape(3, 4)
    weight = nn.Parameter(mt.ones(2, 2), requires_grad=False)
    weight.note = "kept"
    obj = {
        "base": base, "row": base[1], "turned": base.t(), "weight": weight, "tied": weight, "size": mt.Size([1, 2]), "dtype": mt.bfloat16,
        "device": mt.device("cpu", 0), "layout": mt.strided, "conj": mt.tensor([1 + 2j]).conj(), "half": mt.ones(3, dtype=mt.uint16),
        "storage": base.untyped_storage(),
    }  # fmt: skip
    found = load(saved(obj, format=form, pickle_protocol=protocol), "cpu", weights_only=weights_only)
    assert mt.equal(found["turned"], base.t()) and found["turned"].stride() == (1, 4) and found["row"].storage_offset() == 4
    assert found["row"].untyped_storage() is found["base"].untyped_storage() is found["storage"].untyped()
    assert found["tied"] is found["weight"] and type(found["tied"]) is nn.Parameter and not found["tied"].requires_grad
    assert found["tied"].note == "kept" and found["conj"].is_conj() and found["conj"].tolist() == [1 - 2j]
    for name in ("size", "dtype", "device", "layout"):
        assert found[name] == obj[name] and type(found[name]) is type(obj[name])
    assert found["half"].dtype is mt.uint16


@pytest.mark.torch
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_pytorch_reads_tensors_in_every_protocol(form, protocol):
    torch = pytest.importorskip("torch")
    base = mt.arange(12.0).reshape(3, 4)
    obj = {"base": base, "row": base[1], "weight": nn.Parameter(mt.ones(2)), "half": mt.ones(3, dtype=mt.uint16), "dtype": mt.float16}
    for weights_only in [True, False] if protocol in (2, 3) else [False]:  # PyTorch's safe loader knows no other protocols
        found = torch.load(saved(obj, format=form, pickle_protocol=protocol), weights_only=weights_only)
        assert found["base"].tolist() == base.tolist() and found["row"].data_ptr() == found["base"].data_ptr() + 16
        assert type(found["weight"]) is torch.nn.Parameter and found["half"].dtype is torch.uint16 and found["dtype"] is torch.float16


def test_arrays_and_numbers_of_numpy():
    obj = {"array": np.arange(6).reshape(2, 3), "number": np.float32(1.5), "dtype": np.dtype("int16"), "rng": np.random.default_rng(0)}
    found = load(saved(obj), weights_only=False)
    assert (found["array"] == obj["array"]).all() and type(found["number"]) is np.float32 and found["dtype"] == "int16"
    del obj["rng"]
    assert load(saved(obj))["array"].tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("form", FORMATS)
def test_a_module_comes_back_whole(form):
    model = Net().eval()
    model.head.register_forward_pre_hook(hook)
    expected = model(mt.ones(2, 3))
    found = load(saved(model, format=form), weights_only=False)
    assert type(found) is Net and mt.equal(found(mt.ones(2, 3)), expected)
    assert found.head.weight.untyped_storage() is found.rnn.weight_hh_l0.untyped_storage() and found.steps.tolist() == [0, 1, 2]
    with pytest.raises(CheckpointError, match=r"Net.*No unknown code was run"):
        load(saved(model, format=form))


@pytest.mark.parametrize("form", FORMATS)
def test_the_names_of_a_module_saved_whole_are_those_of_its_state_dict(form, tmp_path):
    model = Net()
    save(model, tmp_path / "model.pt", format=form)
    listed = inspect(tmp_path / "model.pt")
    assert [name for name in listed.tensors if name not in listed.attributes] == list(model.state_dict())
    assert listed.attributes == {"steps", "anchors"}
    other = Net()
    assert mt.load_into(other, tmp_path / "model.pt") == ([], [])
    assert all(mt.equal(a, b) for a, b in zip(other.state_dict().values(), model.state_dict().values(), strict=True))


def test_classes_of_tensors_cycles_and_what_is_named():
    mine = mt.ones(2).as_subclass(Labelled)
    mine.label = "a"
    cycle = {"mine": mine, "functions": [mt.relu, nn.functional.linear, nn.init.normal_, mt.Tensor.add, nn.Linear, mt.Tensor, save]}
    cycle["self"] = [cycle]
    found = load(saved(cycle), weights_only=False)
    assert found["self"][0] is found and type(found["mine"]) is Labelled and found["mine"].label == "a"
    assert found["functions"][:3] == [mt.relu, nn.functional.linear, nn.init.normal_]
    assert found["functions"][4:] == [nn.Linear, mt.Tensor, save]
    with pytest.raises(CheckpointError, match="contains itself"):
        a = []
        a.append(a)
        load(saved(a))


def test_tables_of_copyreg_are_heeded():
    class Odd:
        def __reduce_ex__(self, protocol):
            raise TypeError("not this way")

    copyreg.pickle(Odd, lambda odd: (Slotted, (1, 2)))
    try:
        assert load(saved([Odd()]), weights_only=False) == [Slotted(1, 2)]
    finally:
        copyreg.dispatch_table.pop(Odd)


def test_lazy_modules_and_generators():
    found = load(saved({"module": nn.LazyLinear(3), "generator": mt.Generator("cpu").manual_seed(7)}), weights_only=False)
    assert found["module"](mt.ones(2, 4)).shape == (2, 3)
    assert mt.rand(3, generator=found["generator"]).tolist() == mt.rand(3, generator=mt.Generator("cpu").manual_seed(7)).tolist()


def test_optimizers_and_schedulers():
    optim = importlib.import_module(target_of("torch.optim"))
    model = nn.Linear(2, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    scheduler = optim.lr_scheduler.StepLR(optimizer, 3)
    model_, optimizer_, scheduler_ = load(saved((model, optimizer, scheduler)), weights_only=False)
    assert optimizer_.param_groups[0]["params"][0] is model_.weight and scheduler_.optimizer is optimizer_
    assert scheduler_.step_size == 3 and optimizer_.defaults["momentum"] == 0.9


# The ordinary unpickler, only on request ------------------------------------------


class Runs:
    """A pickle that runs a command when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("form", FORMATS)
def test_only_the_callers_word_runs_a_pickle(form, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "0")
    made = tmp_path / "made"
    file = saved({"a": mt.ones(2), "evil": Runs(os.fspath(made))}, format=form)
    for options in ({}, {"weights_only": True}, {"mmap": False}):
        file.seek(0)
        with pytest.raises(CheckpointError, match="mkdir"):
            load(file, **options)
        assert not made.exists()
    file.seek(0)
    with pytest.raises(RuntimeError, match="needs weights_only=False"):
        load(file, pickle_module=pickle)
    file.seek(0)
    with pytest.raises(TypeError, match="encoding"):
        load(file, encoding="latin1")
    assert not made.exists()
    file.seek(0)
    load(file, weights_only=False)
    assert made.exists()


def test_formats_without_pickles_load_as_ever(tmp_path):
    save({"a": mt.ones(2)}, tmp_path / "a.safetensors")
    assert load(tmp_path / "a.safetensors", weights_only=False)["a"].tolist() == [1, 1]


def test_damaged_storages_are_errors_of_checkpoints():
    import zipfile

    file = saved({"a": mt.ones(2)})
    with zipfile.ZipFile(file) as before, zipfile.ZipFile(other := io.BytesIO(), "w") as after:
        for name in before.namelist():
            if not name.endswith("data/0"):
                after.writestr(name, before.read(name))
    other.seek(0)
    with pytest.raises(CheckpointError):
        load(other, weights_only=False)


@pytest.mark.slow
def test_files_of_modules_that_import_torch(tmp_path):
    """A file refers to a user's module that imports torch, in a process without the alias."""
    (tmp_path / "written_for_torch.py").write_text("import torch\n\nclass Net(torch.nn.Linear):\n    pass\n")
    script = """
import sys
import metatensor as mt, metatensor.torch_api as torch_api
mt.set_default_device("cpu")
if sys.argv[1] == "save":
    with torch_api.install():
        import written_for_torch
        mt.save(written_for_torch.Net(2, 3), "net.pt")
else:
    found = mt.load("net.pt", weights_only=False)
    assert isinstance(found, mt.nn.Linear) and found(mt.ones(2)).shape == (3,)
    assert "torch" not in sys.modules and not torch_api.is_installed()
"""
    for what in ("save", "load"):
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([os.fspath(tmp_path), *sys.path])}
        subprocess.run([sys.executable, "-c", script, what], cwd=tmp_path, env=env, check=True)


# Pickle modules -----------------------------------------------------------------------


class CompiledPickler(pickle.Pickler):
    """A subclass of the compiled pickler, like cloudpickle's."""

    dispatch_table = {**copyreg.dispatch_table, Slotted: lambda obj: (Slotted, ("by the table", obj.b))}

    def reducer_override(self, obj):
        return (Reduced, ("by the override",)) if isinstance(obj, Reduced) else NotImplemented


class PythonPickler(pickle._Pickler):
    """A pickler written in Python, like dill's."""

    dispatch = dict(pickle._Pickler.dispatch)

    def save_slotted(self, obj):
        self.save_reduce(Slotted, ("by a method", obj.b), obj=obj)

    dispatch[Slotted] = save_slotted


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(("pickler", "first"), [(CompiledPickler, "by the table"), (PythonPickler, "by a method")])
def test_pickle_modules(form, pickler, first):
    module = types.SimpleNamespace(Pickler=pickler, Unpickler=pickle.Unpickler)
    obj = [Slotted(1, mt.ones(2)), Reduced(3), nn.Linear(1, 1)]
    slotted, reduced, linear = load(saved(obj, format=form, pickle_module=module), weights_only=False, pickle_module=module)
    assert slotted.a == first and slotted.b.tolist() == [1, 1] and type(linear) is nn.Linear
    assert reduced.value == ("by the override" if pickler is CompiledPickler else 3)


# Modules of PyTorch ---------------------------------------------------------------------

MODULES = {
    "Linear": (3, 4), "Bilinear": (2, 3, 4), "Identity": (), "Conv1d": (2, 3, 3), "ConvTranspose2d": (2, 3, 3), "BatchNorm2d": (3,),
    "InstanceNorm1d": (3, True), "GroupNorm": (1, 3), "LayerNorm": (3,), "Embedding": (5, 3), "EmbeddingBag": (5, 3), "LSTM": (3, 4, 2),
    "GRU": (3, 4), "RNN": (3, 4), "LSTMCell": (3, 4), "GRUCell": (3, 4), "MultiheadAttention": (4, 2), "Transformer": (4, 2, 1, 1, 8),
    "TransformerEncoderLayer": (4, 2, 8), "MaxPool2d": (2,), "Flatten": (), "Upsample": (None, 2), "PReLU": (), "CrossEntropyLoss": (),
    "AdaptiveLogSoftmaxWithLoss": (4, 10, [3]), "LazyLinear": (3,), "LazyConv2d": (3, 2), "LazyBatchNorm1d": (), "ParameterList": (),
    "ParameterDict": (), "ModuleDict": (), "ModuleList": (), "Sequential": (), "Module": (), "Dropout": (), "CircularPad2d": (1,),
}  # fmt: skip


@pytest.mark.torch
@pytest.mark.parametrize("name", list(MODULES))
def test_modules_go_to_pytorch_and_back(name):
    torch = pytest.importorskip("torch")
    mine, theirs = getattr(nn, name)(*MODULES[name]), getattr(torch.nn, name)(*MODULES[name])
    for form in FORMATS:
        found = torch.load(saved(mine, format=form), weights_only=False)
        assert type(found) is type(theirs) and found.__dict__.keys() == theirs.__dict__.keys() and repr(found) == repr(theirs)
        out = io.BytesIO()
        torch.save(theirs, out, _use_new_zipfile_serialization=form == "torch")
        out.seek(0)
        back = load(out, weights_only=False)
        assert type(back) is type(mine) and repr(back) == repr(theirs) and back.__dict__.keys() >= mine.__dict__.keys()
        if not name.startswith("Lazy"):
            assert back.state_dict().keys() == theirs.state_dict().keys()
            for key, value in theirs.state_dict().items():
                assert back.state_dict()[key].tolist() == value.tolist()


@pytest.mark.torch
def test_a_recurrent_model_computes_the_same_in_pytorch(tmp_path):
    torch = pytest.importorskip("torch")
    model = nn.Sequential(nn.Linear(3, 4), nn.LSTM(4, 5, num_layers=2))
    theirs = torch.load(saved(model), weights_only=False)
    expected = model(mt.ones(2, 3))[0].detach().numpy()
    assert np.allclose(theirs(torch.ones(2, 3))[0].detach().numpy(), expected, atol=1e-6)
    out = io.BytesIO()
    torch.save(theirs, out)
    out.seek(0)
    assert np.allclose(load(out, weights_only=False)(mt.ones(2, 3))[0].detach().numpy(), expected, atol=1e-6)
    out.seek(0)
    assert list(inspect(out).tensors) == list(model.state_dict())
    with mt.device("meta"):
        empty = nn.Sequential(nn.Linear(3, 4), nn.LSTM(4, 5, num_layers=2))
    path = tmp_path / "whole.pt"
    path.write_bytes(out.getvalue())
    assert mt.load_into(empty, path, device="cpu") == ([], [])
    assert np.allclose(empty(mt.ones(2, 3))[0].detach().numpy(), expected, atol=1e-6)


@pytest.mark.torch
def test_classes_have_the_names_that_pytorch_has():
    torch = pytest.importorskip("torch")
    from metatensor.checkpoint.torch_naming import find, name_in_torch

    unlike = []
    for space in ("torch.nn", "torch.optim", "torch.optim.lr_scheduler", "torch.distributions", "torch.utils.data"):
        theirs, ours = importlib.import_module(space), importlib.import_module(target_of(space))
        for name, cls in vars(theirs).items():
            known = isinstance(cls, type) and cls.__module__.startswith("torch.") and not name.startswith("_")
            if known and isinstance(getattr(ours, name, None), type):
                found = name_in_torch(getattr(ours, name))
                named = found and getattr(importlib.import_module(found[0]), found[1], None) is cls
                if not named or find(cls.__module__, cls.__qualname__) is not getattr(ours, name):
                    unlike.append((space, name, found))
    assert not unlike
    for function in (mt.relu, mt.matmul, nn.functional.gelu, mt.linalg.norm, nn.init.xavier_normal_):
        module, name = name_in_torch(function)
        assert callable(getattr(importlib.import_module(module), name)) and find(module, name) is function
    out = io.BytesIO()
    torch.save([torch.relu, torch.nn.functional.linear, torch.linalg.norm, torch.special.expit, torch.fft.fft, torch.Tensor.add], out)
    out.seek(0)
    found = load(out, weights_only=False)
    assert found[:5] == [mt.relu, nn.functional.linear, mt.linalg.norm, mt.special.expit, mt.fft.fft]
    assert found[5](mt.ones(1), 2).tolist() == [3]
