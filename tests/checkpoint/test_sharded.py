"""Checkpoints in several files."""

import json

import pytest

import metatensor as mt
from checkpoint import samples
from metatensor.checkpoint import CheckpointError, inspect, load

SHARDS = {"a.safetensors": {"w": 3, "b": 2}, "b.safetensors": {"x": 4}}


def refuse(path, *words):
    for call in (lambda: load(path, "meta"), lambda: inspect(path)):
        with pytest.raises(CheckpointError) as caught:
            call()
        assert all(word in str(caught.value) for word in words), str(caught.value)


def test_an_index_and_its_folder(tmp_path):
    path = samples.sharded(tmp_path, SHARDS)
    for place in (path, tmp_path, str(tmp_path)):
        assert {name: tuple(t.shape) for name, t in load(place, "meta").items()} == {"w": (3,), "b": (2,), "x": (4,)}
    listed = inspect(tmp_path)
    assert listed.tensors["x"].file == "b.safetensors"
    assert listed.format == "sharded safetensors"
    assert listed.metadata == {"total_size": "1"}


def test_shards_of_pytorch(tmp_path):
    tied = mt.arange(6.0, device="cpu")
    mt.save({"a": tied, "b": tied}, tmp_path / "one.bin")
    mt.save({"c": tied.to(mt.bfloat16)}, tmp_path / "two.bin")
    index = {"weight_map": {"a": "one.bin", "b": "one.bin", "c": "two.bin"}}
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    found = load(tmp_path, "cpu")
    assert found["a"].untyped_storage() == found["b"].untyped_storage()
    assert found["c"].dtype is mt.bfloat16
    assert inspect(tmp_path).tensors["b"].storage.startswith("one.bin:")


@pytest.mark.parametrize("shard", ["../a.safetensors", "/etc/passwd", "", ".", "..", "sub/a.safetensors", "a\0b", "C:a", "a\\b", "x" * 300])
def test_names_that_lead_elsewhere(tmp_path, shard):
    path = samples.sharded(tmp_path, SHARDS, {"weight_map": {"w": shard}})
    refuse(path, "plain name")


def test_what_does_not_fit_together(tmp_path):
    refuse(samples.sharded(tmp_path, SHARDS, {"weight_map": {"w": "none.safetensors"}}), "missing")
    refuse(samples.sharded(tmp_path, SHARDS, {"weight_map": {"w": "a.safetensors", "y": "b.safetensors"}}), "'y'", "does not have it")
    twice = {"a.safetensors": {"w": 3}, "b.safetensors": {"w": 4}}
    refuse(samples.sharded(tmp_path, twice, {"weight_map": {"w": "a.safetensors", "v": "b.safetensors"}}), "two shards")
    refuse(samples.sharded(tmp_path, SHARDS, {"weight_map": {}}), "no tensors")
    refuse(samples.sharded(tmp_path, SHARDS, {"weight_map": {"w": 3}}), "not a file name")
    refuse(samples.sharded(tmp_path, SHARDS, {"weight_map": {"w": "model.safetensors.index.json"}}), "cannot be an index")
    path = samples.sharded(tmp_path, SHARDS)
    for content in ('{"metadata": {}}', '{"weight_map": [1]}', '{"weight_map": {"a": "b", "a": "c"}}', '{"weight_map": NaN}',
                    '{"weight_map"', '{"metadata": ' * 50_000, '{"weight_map": {"\\ud800": 1}}'):  # fmt: skip
        path.write_text(content)
        refuse(path)


def test_an_open_file_has_no_shards(tmp_path):
    import io

    path = samples.sharded(tmp_path, SHARDS)
    with pytest.raises(CheckpointError, match="open file"):
        load(io.BytesIO(path.read_bytes()), "meta")
    with open(path, "rb") as file:
        assert len(load(file, "meta")) == 3


def test_links_are_followed(tmp_path):
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshot"
    blobs.mkdir()
    snapshot.mkdir()
    samples.sharded(blobs, SHARDS)
    for path in blobs.iterdir():
        (snapshot / path.name).symlink_to(path)
    assert len(load(snapshot, "meta")) == 3


def test_which_file_of_a_folder(tmp_path):
    with pytest.raises(CheckpointError, match="no checkpoint"):
        load(tmp_path)
    (tmp_path / "only.safetensors").write_bytes(samples.safetensors({"w": 3}))
    assert load(tmp_path, "meta").keys() == {"w"}
    (tmp_path / "other.safetensors").write_bytes(samples.safetensors({"v": 3}))
    with pytest.raises(CheckpointError, match="name one"):
        load(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(samples.safetensors({"u": 3}))
    assert load(tmp_path, "meta").keys() == {"u"}
