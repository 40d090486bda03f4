"""`torch.hub`: downloads from file URLs, and local repositories."""

import hashlib
import os

import numpy as np
import pytest

from metatensor.torch_api.torch import hub


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(hub, "_hub_dir", None)
    return tmp_path


def test_directories(home, monkeypatch):
    assert hub.get_dir() == str(home / "home" / "hub") and hub._get_torch_home() == str(home / "home")
    hub.set_dir(home / "elsewhere")
    assert hub.get_dir() == str(home / "elsewhere")
    monkeypatch.setattr(hub, "_hub_dir", None)
    monkeypatch.delenv("TORCH_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert hub.get_dir() == os.path.join("/cache", "torch", "hub")


def test_download(home, capsys):
    source, target = home / "source.bin", home / "target.bin"
    source.write_bytes(b"weights" * 1000)
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    hub.download_url_to_file(source.as_uri(), str(target), digest[:8])
    assert target.read_bytes() == source.read_bytes() and "MB" in capsys.readouterr().err
    hub.download_url_to_file(source.as_uri(), str(target), progress=False)
    assert capsys.readouterr().err == ""
    with pytest.raises(RuntimeError, match="invalid hash value"):
        hub.download_url_to_file(source.as_uri(), str(home / "bad.bin"), "00000000", progress=False)
    assert sorted(path.name for path in home.iterdir()) == ["source.bin", "target.bin"]


def test_a_state_dict_from_a_url(home):
    numpy_file = pytest.importorskip("safetensors.numpy")
    numpy_file.save_file({"weight": np.ones((2, 2), "f4")}, home / "plain")
    name = f"model-{hashlib.sha256((home / 'plain').read_bytes()).hexdigest()[:8]}.safetensors"
    os.rename(home / "plain", home / name)
    url = (home / name).as_uri()
    found = hub.load_state_dict_from_url(url, progress=False, check_hash=True)
    assert found["weight"].tolist() == [[1, 1], [1, 1]]
    os.remove(home / name)
    assert hub.load_state_dict_from_url(url)["weight"].shape == (2, 2)  # cached
    assert os.listdir(os.path.join(hub.get_dir(), "checkpoints")) == [name]


def test_local_repositories(home):
    (home / "hubconf.py").write_text('dependencies = ["sys"]\ndef model(n=1):\n    "Makes it."\n    return n + 1\n_hidden = print\n')
    assert hub.load(home, "model", source="local", n=3) == 4
    assert hub.list(home) == ["model"] and hub.help(home, "model") == "Makes it."
    with pytest.raises(RuntimeError, match="Cannot find callable other"):
        hub.load(home, "other", source="local")
    (home / "hubconf.py").write_text('dependencies = ["no_such_module_at_all"]\n')
    with pytest.raises(RuntimeError, match="Missing dependencies: no_such_module_at_all"):
        hub.load(home, "model", source="local")
    with pytest.raises(FileNotFoundError):
        hub.load(home / "nowhere", "model", source="local")
    with pytest.raises(NotImplementedError, match="downloads no code"):
        hub.load("pytorch/vision", "resnet18")
    with pytest.raises(ValueError, match="source"):
        hub.load(home, "model", source="gitlab")
