"""Saving refuses what cannot be written or could not be read again, and leaves nothing behind."""

import io
import os
import pickle
import threading

import pytest

import metatensor as mt
from metatensor.checkpoint import load, save


@pytest.mark.parametrize(
    ("obj", "error"),
    [(lambda: 1, (AttributeError, pickle.PicklingError)), (threading.Lock(), TypeError), ({"a": [iter([])]}, ())],
    ids=["lambda", "lock", "iterator"],
)
def test_what_pickle_refuses_is_refused_by_its_own_error(obj, error, tmp_path):
    if not error:
        save(obj, tmp_path / "a.pt")
        return
    with pytest.raises(error):
        save(obj, tmp_path / "a.pt")
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("name", ["m.gguf", "m.onnx", "m.h5", "M.GGUF", "m.tflite"])
def test_endings_that_promise_a_format_that_is_not_written(tmp_path, name):
    with pytest.raises(ValueError, match=rf"'{name}' has the extension of a format that cannot be written, .*; choose .*\.safetensors"):
        save({"a": mt.ones(2, device="cpu")}, tmp_path / name)
    with open(tmp_path / name, "wb") as file, pytest.raises(ValueError, match="cannot be written"):
        save({"a": mt.ones(2, device="cpu")}, file)
    os.unlink(tmp_path / name)
    save({"a": mt.ones(2, device="cpu")}, tmp_path / name, format="torch")
    assert load(tmp_path / name, "cpu")["a"].tolist() == [1, 1]


@pytest.mark.parametrize("protocol", [6, 100])
def test_protocols_that_do_not_exist(protocol):
    with pytest.raises(ValueError, match=f"pickle_protocol must be at most 5, got {protocol}"):
        save({}, io.BytesIO(), pickle_protocol=protocol)


def test_a_pickle_module_for_a_format_without_pickles(tmp_path):
    with pytest.raises(TypeError, match="safetensors does not use pickle"):
        save({"a": mt.ones(2, device="cpu")}, tmp_path / "a.safetensors", pickle_module=pickle)


def test_the_same_container_in_several_places_is_none():
    part = [1, {"a": 2}]
    out = io.BytesIO()
    save({"one": part, "two": (part, part), "size": mt.Size([1, 2])}, out)
    out.seek(0)
    found = load(out)
    assert found["one"] is found["two"][0] and found["one"] == part


@pytest.mark.parametrize("name", ["../up", "/root", "a/../../b", "back\\slash", "c:drive", "nul\0"])
def test_names_that_no_archive_may_have(tmp_path, name):
    with pytest.raises(ValueError, match="a zip archive cannot have the name"):
        save({name: mt.ones(2, device="cpu")}, tmp_path / "a.npz")
    assert not os.listdir(tmp_path)


def test_files_that_are_none(tmp_path):
    with open(tmp_path / "text", "w") as file, pytest.raises(TypeError, match=r'open for text.*"wb"'):
        save({}, file)
    for thing in (None, 3, ["a.pt"]):
        with pytest.raises(TypeError, match="expected a path, or a file open for writing"):
            save({}, thing)


def test_a_path_of_bytes_for_shards(tmp_path):
    state = {"a": mt.ones(4, device="cpu"), "b": mt.zeros(4, device="cpu")}
    save(state, os.fsencode(tmp_path / "m.safetensors"), max_shard_size=16)
    assert load(tmp_path).keys() == state.keys()
