"""Saving shards: files of others are unchanged, and the remains of killed processes are removed."""

import errno
import json
import os
import stat

import pytest

import metatensor as mt
from checkpoint import savers
from metatensor.checkpoint import atomic, load, save, sharding

fcntl = pytest.importorskip("fcntl")


def tensors(value=1.0, count=4):
    return {f"l{i}": mt.full((100,), value, device="cpu") for i in range(count)}


def shards_of(path):
    return set(json.loads((path.parent / f"{path.name}.index.json").read_text())["weight_map"].values())


def test_shards_of_another_checkpoint_stay(tmp_path):
    for name in ("model-20240131.safetensors", "model.safetensors", "model-0123abcd.safetensors", "model.safetensors"):
        save(tensors(), tmp_path / name, max_shard_size=500)
    for name in ("model-20240131.safetensors", "model.safetensors", "model-0123abcd.safetensors"):
        assert len(load(tmp_path / f"{name}.index.json", "cpu")) == 4


def test_a_file_that_only_looks_like_a_shard_stays(tmp_path):
    other = tmp_path / "model-0123abcd-00001-of-00009.safetensors"
    other.write_bytes(b"somebody else's")
    for _ in range(2):
        save(tensors(), tmp_path / "model.safetensors", max_shard_size=500)
    assert other.read_bytes() == b"somebody else's"


def test_shards_that_two_indexes_name_stay(tmp_path):
    path = tmp_path / "model.safetensors"
    save(tensors(), path, max_shard_size=500)
    (tmp_path / "copy.index.json").write_text((tmp_path / "model.safetensors.index.json").read_text())
    save(tensors(2.0), path, max_shard_size=500)
    assert load(tmp_path / "copy.index.json", "cpu")["l0"][0] == 1.0
    assert load(tmp_path / "model.safetensors.index.json", "cpu")["l0"][0] == 2.0


def test_nothing_is_removed_beside_an_index_that_cannot_be_read(tmp_path):
    path = tmp_path / "model.safetensors"
    save(tensors(), path, max_shard_size=500)
    first = shards_of(path)
    broken = tmp_path / "other.index.json"
    broken.write_text("{")
    save(tensors(2.0), path, max_shard_size=500)
    assert all((tmp_path / name).exists() for name in first)
    broken.unlink()
    save(tensors(3.0), path, max_shard_size=500)
    assert set(os.listdir(tmp_path)) == {"model.safetensors.index.json", *shards_of(path)}, "they waited until it was gone"


@pytest.mark.slow
@pytest.mark.parametrize("unnamed", [True, False])
def test_three_savers_that_are_killed(tmp_path, monkeypatch, unnamed):
    if not unnamed:  # as on a file system without unnamed files
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    killed, ended = savers.race(tmp_path, 10, seed=3)
    assert killed + ended == 30 and ended


@pytest.mark.parametrize("step", ["link", "replacing", "remove"])
def test_what_a_killed_saver_left_goes(tmp_path, monkeypatch, step):
    path = tmp_path / "model.safetensors"
    save(tensors(), path, max_shard_size=500)

    def die(*args, **kwargs):
        os._exit(9)

    child = os.fork()
    if not child:
        owner = {"link": atomic.Staged, "replacing": sharding, "remove": sharding._Turn}[step]
        original = getattr(owner, step)
        calls = []

        def later(*args, **kwargs):
            calls.append(1)
            return original(*args, **kwargs) if step == "link" and len(calls) < 3 else die()

        setattr(owner, step, later)
        save(tensors(2.0), path, max_shard_size=500)
        os._exit(0)
    assert os.waitpid(child, 0)[1] >> 8 == 9
    assert len(os.listdir(tmp_path)) > 5, "something was left"
    assert len(load(tmp_path, "cpu")) == 4
    save(tensors(3.0), path, max_shard_size=500)
    assert set(os.listdir(tmp_path)) == {"model.safetensors.index.json", *shards_of(path)}


def test_a_file_put_in_the_place_of_a_leftover_stays(tmp_path):
    path = tmp_path / "model.safetensors"
    save(tensors(), path, max_shard_size=500)
    name = "model-00009-of-00009.safetensors"
    (tmp_path / name).write_bytes(b"new")
    state = (tmp_path / name).stat()
    journal = tmp_path / atomic.hidden_name(path.name, ".lock")
    for mark, stays in (((name, state.st_ino + 1, 3, state.st_mtime_ns), True), ((name, state.st_ino, 3, state.st_mtime_ns), False)):
        journal.write_text(json.dumps([mark, ["../x", 1, 1, 1], [name], 3]) if stays is None else json.dumps([mark]))
        save(tensors(), path, max_shard_size=500)
        assert (tmp_path / name).exists() is stays
        assert not journal.exists()


@pytest.mark.parametrize("content", [b"", b"[[", b"[3]", b'[["../../x", 1, 2, 3]]', b"{}", b"null", b'[["a", "b", "c", "d"]]', b"[" * 5000])
def test_a_damaged_journal(tmp_path, content):
    path = tmp_path / "model.safetensors"
    (tmp_path / atomic.hidden_name(path.name, ".lock")).write_bytes(content)
    save(tensors(), path, max_shard_size=500)
    assert len(load(tmp_path, "meta")) == 4


def test_without_locks_nothing_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic, "lock", lambda handle, wait: None)
    path = tmp_path / "model.safetensors"
    save(tensors(), path, max_shard_size=500)
    save(tensors(2.0), path, max_shard_size=500)
    assert load(tmp_path, "cpu")["l0"][0] == 2.0
    assert len([name for name in os.listdir(tmp_path) if name.endswith(".safetensors")]) == 8


@pytest.mark.parametrize("first", ["one file", "shards"])
@pytest.mark.parametrize("second", ["one file", "shards"])
def test_permissions_are_kept(tmp_path, first, second):
    path = tmp_path / "model.safetensors"
    sizes = {"one file": "1GB", "shards": 500}
    save(tensors(), path, max_shard_size=sizes[first])
    for name in os.listdir(tmp_path):
        os.chmod(tmp_path / name, 0o600)
    save(tensors(), path, max_shard_size=sizes[second])
    assert {stat.S_IMODE(os.stat(tmp_path / name).st_mode) for name in os.listdir(tmp_path)} == {0o600}


def test_long_names(tmp_path):
    stem = "模" * 76  # 228 bytes
    path = tmp_path / f"{stem}.safetensors"
    save(tensors(), path)
    assert len(load(path, "meta")) == 4
    save(tensors(), path, max_shard_size=500)
    assert len(load(tmp_path, "meta")) == 4
    save(tensors(), path, max_shard_size=500)
    assert len(os.listdir(tmp_path)) == 5
    with pytest.raises(OSError) as caught:
        save(tensors(), tmp_path / f"{'模' * 80}.safetensors", max_shard_size=500)
    assert caught.value.errno == errno.ENAMETOOLONG, "its index would have too long a name"
    save(tensors(), tmp_path / f"{'模' * 80}.safetensors")
    assert atomic.shortened("a" * 300, 100) != atomic.shortened("a" * 301, 100)


def test_temporary_files_of_the_dead_and_of_the_living(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    path = tmp_path / "model.pt"
    with atomic.Staged(str(tmp_path), path.name):
        (living,) = os.listdir(tmp_path)
        dead = atomic._temporary(path.name, "0" * 12)
        (tmp_path / dead).write_bytes(b"half")
        strange = dead[:-5] + "z.tmp"
        (tmp_path / strange).write_bytes(b"no temporary file of ours")
        save(tensors(), path)
        assert set(os.listdir(tmp_path)) == {living, strange, "model.pt"}
    save(tensors(), path)
    assert set(os.listdir(tmp_path)) == {strange, "model.pt"}


def test_a_temporary_file_is_not_for_others(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    with atomic.Staged(str(tmp_path), "a", 0o640) as staged:
        assert stat.S_IMODE(os.stat(staged.name).st_mode) == 0o600
        staged.sync()
        assert stat.S_IMODE(os.stat(staged.name).st_mode) == 0o640
