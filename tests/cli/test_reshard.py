"""The command ``reshard``, run in this process."""

import json
import os

import pytest

import metatensor as mt

pytest.importorskip("metatensor_cpu")


@pytest.fixture
def model(models):
    """A file with two tensors, in the current folder."""
    mt.save({"layers.0.weight": mt.arange(64.0 * 16, device="cpu").reshape(64, 16), "scale": mt.ones(2, device="cpu")}, models / "model.pt")
    return models


def test_a_plan(model, run):
    result = run("reshard", "model.pt", "--mesh", "4", "--plan")
    assert result.exit_code == 0, result.output
    for text in ("model.pt (PyTorch (zip)): 2 tensors, 4.10 KB", "mesh 4: 4 ranks read 4.10 KB from 1 file", "0-1", "2-3", "1.02 KB"):
        assert text in result.stdout, result.stdout
    assert not [name for name in os.listdir(model) if name.endswith((".distcp", ".metadata"))]


def test_json(model, run):
    result = run("reshard", "model.pt", "--mesh", "2,2", "--placements", "R,S(0)", "--placements", "*.weight=S(0),S(1)", "--plan", "--json")
    found = json.loads(result.stdout)
    assert (found["schema"], found["mesh"], found["files"], found["bytes"]) == (1, [2, 2], ["model.pt"], 4104)
    assert found["placements"] == {"layers.0.weight": ["S(0)", "S(1)"], "scale": ["R", "S(0)"]}
    assert [one["held"] for one in found["ranks"]] == [1028] * 4
    assert [one["writes"] for one in found["ranks"]] == [1028, 1028, 1024, 1024]


def test_ranges(model, run):
    result = run("reshard", "model.pt", "--mesh", "2", "--placements", "layers.*=S(1)", "--plan", "--ranges")
    first, second, *_ = map(json.loads, result.stdout.splitlines())
    assert first == {"tensor": "layers.0.weight", "rank": 0, "file": "model.pt", "begin": first["begin"], "length": 4064, "loops": []}
    assert second["begin"] == first["begin"] + 32  # ranges 32 bytes apart are read together


def test_writing(model, run):
    result = run("reshard", "model.pt", "new", "--mesh", "3")
    assert result.exit_code == 0 and "for 3 ranks" in result.stdout, result.output
    assert sorted(os.listdir("new")) == [".metadata", "__0_0.distcp", "__1_0.distcp", "__2_0.distcp"]
    assert mt.load("new")["layers.0.weight"].tolist() == mt.load("model.pt")["layers.0.weight"].tolist()
    again = run("reshard", "new", "new", "--mesh", "2")
    assert again.exit_code == 2 and "new has a checkpoint; --force replaces it" in again.output
    assert run("reshard", "new", "new", "--mesh", "2", "--force").exit_code == 0
    assert len(os.listdir("new")) == 3
    result = run("reshard", "new", "--mesh", "2", "--plan")
    assert "from files that the same rank wrote" in result.stdout


@pytest.mark.parametrize("arguments, words", [
    (("--mesh", "2"), "name the FOLDER to write"),
    (("out", "--mesh", "2", "--plan"), "--plan writes nothing"),
    (("out", "--mesh", "2", "--json"), "--json needs --plan"),
    (("out", "--mesh", "2", "--ranges"), "--ranges needs --plan"),
    (("out", "--mesh", "two"), "a mesh is given by its sizes"),
    (("out", "--mesh", "2", "--placements", "P"), "placements are R"),
    (("out", "--mesh", "2", "--placements", "S(0),R"), "2 placements S(0), R for a mesh of 1 dimensions"),
    (("out", "--mesh", "2", "--placements", "scale=S(1)"), "'scale' has 1 dimensions"),
])  # fmt: skip
def test_mistakes(model, run, arguments, words):
    result = run("reshard", "model.pt", *arguments)
    assert result.exit_code in (1, 2) and words in result.output, result.output
    assert not os.path.exists("out") or os.listdir("out") == []


def test_damaged_and_unused(model, run):
    (model / "bad.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{")
    result = run("reshard", "bad.safetensors", "--mesh", "2", "--plan")
    assert result.exit_code == 1 and "bad.safetensors" in result.output
    result = run("reshard", "model.pt", "--mesh", "2", "--placements", "nothing.*=R", "--plan")
    assert "no tensor was placed by 'nothing.*'" in result.output
