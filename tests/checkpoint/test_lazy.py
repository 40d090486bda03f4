"""Tensors saved as lazy conjugates or negatives: their values are right wherever their bytes are read."""

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.checkpoint import convert, inspect, load, load_into, save
from metatensor.cli.contents import differences

pytest.importorskip("numpy")
if "cpu" not in mt.plugins.device_types():
    pytest.skip("the cpu plugin is not installed", allow_module_level=True)


@pytest.fixture(params=["complex64", "complex128"])
def state(request):
    base = mt.tensor([1 + 2j, 3 - 4j, -0.5j, 6], dtype=getattr(mt, request.param), device="cpu").reshape(2, 2)
    half = base.conj().imag
    assert base.conj().is_conj() and half.is_neg()
    both = mt._neg_view(base.conj())
    return {"base": base, "conj": base.conj(), "t": base.conj().t(), "neg": half, "both": both, "n": mt._neg_view(base)}


@pytest.fixture
def path(state, tmp_path):
    save(state, tmp_path / "lazy.pt")
    return tmp_path / "lazy.pt"


def test_it_is_told(path):
    assert {name: info.lazy for name, info in inspect(path).tensors.items()} == {
        "base": "", "conj": "conj", "t": "conj", "neg": "neg", "both": "conj neg", "n": "neg",
    }  # fmt: skip


def test_into_a_model(path, state):
    module = nn.Module()
    for name, value in state.items():
        setattr(module, name, nn.Parameter(mt.empty(value.shape, dtype=value.dtype, device="meta")))
    load_into(module, path, device="cpu")
    for name, value in state.items():
        assert getattr(module, name).tolist() == value.tolist(), name


@pytest.mark.parametrize("target", ["a.npz", "a.pt", "shards.pt"])
def test_converted(path, state, tmp_path, target):
    convert(path, tmp_path / target, max_shard_size=50 if target == "shards.pt" else None)
    found = load(tmp_path / target if (tmp_path / target).exists() else tmp_path / f"{target}.index.json", "cpu")
    assert {name: value.tolist() for name, value in found.items()} == {name: value.tolist() for name, value in state.items()}


def test_compared(path, state, tmp_path):
    save({name: value.resolve_conj().resolve_neg() for name, value in state.items()}, tmp_path / "plain.pt")
    plain = tmp_path / "plain.pt"
    assert not any(differences(str(path), inspect(path), str(plain), inspect(plain), True).values())


def test_one_array_into_another(tmp_path):
    save(mt.arange(6.0, device="cpu"), tmp_path / "a.npy")
    convert(tmp_path / "a.npy", tmp_path / "b.npy")
    assert load(tmp_path / "b.npy", "cpu").tolist() == [0, 1, 2, 3, 4, 5]
