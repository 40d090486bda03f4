"""The commands ``inspect`` and ``convert``, run in this process."""

import json

import pytest

import metatensor as mt

pytest.importorskip("numpy")


@pytest.fixture
def net(models):
    """The state of `models.py:Net` in several files, in the current folder."""
    weight = mt.arange(64.0, device="cpu").reshape(8, 8)
    state = {}
    for i in range(2):
        state |= {f"layers.{i}.weight": weight + i, f"layers.{i}.bias": mt.zeros(8, device="cpu")}
    mt.save(state, models / "net.safetensors", metadata={"format": "pt"})
    mt.save({"state_dict": state, "epoch": 3}, models / "nested.pt")
    mt.save({**state, "layers.0.weight": weight + 7}, models / "other.pt")
    mt.save({"tied": weight, "again": weight, "rows": weight[1:]}, models / "tied.pt")
    (models / "shards").mkdir()
    mt.save(state, models / "shards" / "model.safetensors", max_shard_size=300)
    return models


def test_a_table_by_module(net, run):
    for path in ("net.safetensors", "shards", "shards/model.safetensors.index.json"):
        result = run("inspect", path)
        assert result.exit_code == 0, result.output
        for text in ("layers.0 ", "layers.1.weight", "float32", "[8, 8]", "256", "4 tensors, 144 elements (144 float32), 576 B"):
            assert text in result.stdout


def test_totals_by_dtype(net, run):
    mt.save({"a": mt.zeros(3, device="cpu"), "b": mt.zeros(5, dtype=mt.int64, device="cpu")}, "mixed.pt")
    result = run("inspect", "mixed.pt")
    assert "float32: 3 elements, 12 B" in result.stdout
    assert "int64: 5 elements, 40 B" in result.stdout
    assert json.loads(run("inspect", "mixed.pt", "--json").stdout)["dtype_bytes"] == {"int64": 40, "float32": 12}


def test_shared_storages_are_marked(net, run):
    result = run("inspect", "tied.pt")
    assert "= again" in result.stdout
    assert "= tied" in result.stdout
    assert "shares tied" in result.stdout
    found = json.loads(run("inspect", "tied.pt", "--json").stdout)["tensors"]
    assert found["rows"]["shares"] == "shares tied"


def test_a_tree(net, run):
    result = run("inspect", "net.safetensors", "--tree")
    assert "0-1" in result.stdout
    assert "2 alike" in result.stdout
    assert result.stdout.count("weight") == 1


def test_differences(net, run):
    same = run("inspect", "net.safetensors", "--diff", "shards")
    assert same.exit_code == 0, same.output
    assert run("inspect", "net.safetensors", "--diff", "other.pt").exit_code == 0  # names and shapes are the same
    changed = run("inspect", "net.safetensors", "--diff", "other.pt", "--values")
    assert changed.exit_code == 1
    assert "~ layers.0.weight" in changed.stdout
    assert "1 with other values" in changed.stdout
    assert run("inspect", "net.safetensors", "--diff", "shards", "--values").exit_code == 0
    found = json.loads(run("inspect", "tied.pt", "--diff", "net.safetensors", "--json").stdout)
    assert set(found["removed"]) == {"tied", "again", "rows"}
    assert len(found["added"]) == 4


def test_does_the_model_take_it(net, run):
    good = run("inspect", "net.safetensors", "--check", "models.py:Net")
    assert good.exit_code == 0, good.output
    assert "4 names" in good.stdout
    wrong = run("inspect", "net.safetensors", "--check", "models.py:Net", "--args", "16, depth=3")
    assert wrong.exit_code == 1
    assert "missing in the checkpoint: layers.2.weight" in wrong.stdout
    assert "size mismatch for layers.0.weight" in wrong.stdout
    nested = run("inspect", "nested.pt", "--check", "models.py:Net")
    assert "--prefix state_dict." in nested.stdout
    assert run("inspect", "nested.pt", "--check", "models.py:Net", "--prefix", "state_dict.").exit_code == 0
    found = json.loads(run("inspect", "tied.pt", "--check", "models.py:Net", "--json").stdout)
    assert found["ok"] is False
    assert found["unexpected"] == ["tied", "again", "rows"]


def test_errors_of_inspect(net, run):
    assert run("inspect", "none.pt").exit_code == 2
    (net / "empty").mkdir()
    assert run("inspect", "empty").exit_code == 1
    assert run("inspect", "net.safetensors", "--check", "models.py:none").exit_code == 2
    assert run("inspect", "net.safetensors", "--check", "models.py:cannot").exit_code == 1
    assert run("inspect", "net.safetensors", "--check", "models.py:Net", "--diff", "tied.pt").exit_code == 2
    (net / "cut.pt").write_bytes((net / "tied.pt").read_bytes()[:-30])
    assert run("inspect", "cut.pt").exit_code == 1
    assert run("inspect", "tied.pt", "--diff", "cut.pt").exit_code == 1


def test_convert(net, run):
    result = run("convert", "net.safetensors", "net.npz")
    assert result.exit_code == 0, result.output
    assert "net.npz" in result.stdout
    assert run("convert", "net.safetensors", "net.npz").exit_code == 2
    assert run("convert", "net.safetensors", "net.npz", "--force").exit_code == 0
    assert run("inspect", "net.npz", "--diff", "net.safetensors", "--values").exit_code == 0
    assert run("convert", "shards", "whole.bin", "--format", "safetensors").exit_code == 0
    assert mt.checkpoint.inspect("whole.bin").format == "safetensors"
    (net / "many").mkdir()
    result = run("convert", "net.safetensors", "many/pytorch_model.bin", "--max-shard-size", "300")
    assert "pytorch_model.bin.index.json" in result.stdout
    assert run("inspect", "many", "--diff", "net.safetensors", "--values").exit_code == 0


def test_convert_tells_what_it_leaves_out(net, run):
    mt.save({"a": (tied := mt.zeros(3, device="cpu")), "b": tied}, "two.pt")
    result = run("convert", "two.pt", "two.safetensors")
    assert "b is the same tensor as a" in result.stdout
    result = run("convert", "tied.pt", "tied.safetensors")
    assert result.exit_code == 1
    assert "share memory" in result.output
    assert run("convert", "models.py", "x.pt").exit_code == 1
    assert run("convert", "net.safetensors", "none/x.pt").exit_code == 1
    assert run("convert", "net.safetensors", "y.safetensors", "--max-shard-size", "x").exit_code == 1


def test_names_cannot_move_the_cursor(tmp_path, run):
    names = ("\x1b[2J\x1b]0;title\x07", "\ud800.w", "line\nline")
    mt.save({name: mt.ones(1, device="cpu") for name in names}, tmp_path / "odd.pt")
    mt.save({"x": mt.ones(1, device="cpu")}, tmp_path / "other.pt")
    for more in ((), ("--tree",), ("--json",), ("--diff", str(tmp_path / "other.pt"))):
        result = run("inspect", str(tmp_path / "odd.pt"), *more)
        assert "\x1b" not in result.output and "\\ud800" in result.output, more


@pytest.mark.slow
def test_very_many_rows(tmp_path, run):
    mt.save({f"layers.{i}.w": mt.empty(i % 7, device="meta") for i in range(2000)}, tmp_path / "many.pt")
    lines = run("inspect", str(tmp_path / "many.pt")).output.splitlines()
    assert lines[0].split() == ["tensor", "dtype", "shape", "bytes"]
    assert lines[1].split() == ["layers.0", "0"] and lines[4].split() == ["layers.1.w", "float32", "[1]", "4"]
    assert lines[-1].startswith("2000 tensors")


def test_layers_fold_across_shards(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    state = {}
    for i in range(6):
        for name, shape in (("attention.q.weight", (8, 8)), ("attention.k.weight", (8, 8)), ("bias", (8,))):
            state[f"layers.{i}.{name}"] = mt.ones(shape, device="cpu")
    mt.save(state, tmp_path / "model.safetensors", max_shard_size=700)
    result = run("inspect", "model.safetensors.index.json", "--tree")
    assert "6 alike" in result.stdout and "0-5" in result.stdout


def test_shards_without_their_index(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mt.save({name: mt.ones(8, device="cpu") for name in "abc"}, tmp_path / "model.safetensors", max_shard_size=32)
    (tmp_path / "model.safetensors.index.json").unlink()
    result = run("inspect", ".")
    assert result.exit_code == 1
    message = "the folder has 3 shards of 'model.safetensors' and no index that says which tensors belong together"
    assert message in result.stderr and "'model.safetensors.index.json'" in result.stderr


@pytest.mark.parametrize(
    ("names", "advice"),
    [
        (lambda name: f"state_dict.model.{name}", "--prefix state_dict.model."),
        (lambda name: f"module.{name}" if name != "layers.1.bias" else "module.other", "--prefix module."),  # and one with another name
        (lambda name: name.removeprefix("layers."), "check the part that is layers"),
    ],
)
def test_names_that_are_all_off(net, run, names, advice):
    mt.save({names(name): value for name, value in mt.load("net.safetensors", "cpu").items()}, "off.pt")
    result = run("inspect", "off.pt", "--check", "models.py:Net")
    assert result.exit_code == 1 and advice in result.stdout


def test_names_of_which_most_fit_get_no_advice(net, run):
    state = mt.load("net.safetensors", "cpu")
    mt.save({**state, "ema.layers.0.weight": state["layers.0.weight"], "rest": mt.ones(1, device="cpu")}, "more.pt")
    result = run("inspect", "more.pt", "--check", "models.py:Net")
    assert result.exit_code == 1 and "unexpected in the checkpoint: rest" in result.stdout and "--prefix" not in result.stdout


def test_convert_drops_nothing_without_being_asked(net, run):
    result = run("convert", "nested.pt", "nested.safetensors")
    assert result.exit_code == 1 and "would lack 'epoch'" in result.stderr and "--drop" in result.stderr
    assert not (net / "nested.safetensors").exists()
    assert run("convert", "nested.pt", "nested.safetensors", "--drop").exit_code == 0
    assert all(name.startswith("state_dict.") for name in mt.load("nested.safetensors", "meta"))
    assert run("convert", "nested.pt", "whole.pt").exit_code == 0 and mt.load("whole.pt", "meta")["epoch"] == 3


@pytest.mark.parametrize("name", ["net.gguf", "net.onnx", "net.h5"])
def test_convert_writes_no_format_under_the_name_of_another(net, run, name):
    result = run("convert", "net.safetensors", name)
    assert result.exit_code == 1 and "cannot be written" in result.stderr and not (net / name).exists()
    assert run("convert", "net.safetensors", name, "--format", "torch").exit_code == 0


def test_inspect_names_what_cannot_be_loaded(net, run):
    torch = pytest.importorskip("torch")
    torch.save({"a": torch.ones(2), "rows": torch.eye(3).to_sparse()}, "sparse.pt")
    result = run("inspect", "sparse.pt")
    assert result.exit_code == 0 and "rows cannot be loaded: it is a sparse tensor (sparse_coo)" in result.stdout
    assert list(json.loads(run("inspect", "sparse.pt", "--json").stdout)["unsupported"]) == ["rows"]
