"""What saving refuses because it could not be read again, or not be written at all; nothing is left behind."""

import io
import os
from collections import OrderedDict

import pytest

import metatensor as mt
from metatensor.checkpoint import load, save


def cyclic(kind):
    """A container that contains itself."""
    if kind is list:
        made = []
        made.append((made,))
        return made
    made = kind()
    made["x"] = {"y": made}
    return made


@pytest.mark.parametrize("kind", [list, dict, OrderedDict])
def test_cycles(kind):
    with pytest.raises(TypeError, match=f"a {kind.__name__} that contains itself, at obj"):
        save({"a": cyclic(kind)}, io.BytesIO())


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
        with pytest.raises(TypeError, match="given by its path, or opened for writing"):
            save({}, thing)


def test_a_path_of_bytes_for_shards(tmp_path):
    state = {"a": mt.ones(4, device="cpu"), "b": mt.zeros(4, device="cpu")}
    save(state, os.fsencode(tmp_path / "m.safetensors"), max_shard_size=16)
    assert load(tmp_path).keys() == state.keys()
