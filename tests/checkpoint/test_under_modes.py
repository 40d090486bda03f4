"""Checkpoints under deferred and fake modes, and checkpoints of deferred models."""

import warnings

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.deferred.fake import is_fake
from metatensor.plugins import device_types

pytest.importorskip("numpy")
pytestmark = pytest.mark.skipif("cpu" not in device_types(), reason="the cpu plugin is not installed")


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("table", mt.arange(3.0), persistent=False)
        self.register_buffer("rows", self.embedding.weight.detach()[1:], persistent=False)
        self.plain = self.embedding.weight.detach().t()


def deferred():
    with mt.deferred_init():
        return Model()


@pytest.fixture
def saved(tmp_path):
    model = Model()
    path = tmp_path / "model.pt"
    mt.save(model.state_dict(), path)
    return model, path


@pytest.mark.parametrize("format", ["pt", "safetensors", "npz"])
def test_a_deferred_model_is_saved_with_its_values(tmp_path, format):
    model = deferred()
    path = tmp_path / f"model.{format}"
    state = {"weight": model.embedding.weight.detach().t(), "rows": mt.materialize_slice(model.rows, slice(1, 3))}
    mt.save(state, path)
    assert mt.is_deferred(model.embedding.weight)
    found = mt.load(path)
    mt.materialize(model)
    assert mt.equal(found["weight"], model.embedding.weight.t()) and mt.equal(found["rows"], model.rows[1:3])


def test_a_fake_one_is_not(tmp_path):
    with mt.FakeTensorMode():
        state = nn.Linear(3, 3).state_dict()
    with pytest.raises(RuntimeError, match="holds no data"):
        mt.save(state, tmp_path / "x.pt")


@pytest.mark.parametrize("format", ["pt", "safetensors", "npz"])
def test_loading_under_modes(tmp_path, format):
    path = tmp_path / f"x.{format}"
    mt.save({"a": mt.ones(3), "b": mt.zeros(2, 2)}, path)
    with mt.deferred_init():
        found = mt.load(path)
    assert found["a"].tolist() == [1, 1, 1] and not mt.is_deferred(found["a"])
    with mt.FakeTensorMode():
        found = mt.load(path)
        on_meta = mt.load(path, map_location="meta")
    assert is_fake(found["b"]) and found["b"].shape == (2, 2) and str(found["b"].device) == "cpu" and on_meta["a"].is_meta


def test_loading_under_fake_tensors_keeps_sharing(tmp_path):
    base = mt.rand(4, 3)
    mt.save({"base": base, "row": base[1]}, tmp_path / "x.pt")
    with mt.FakeTensorMode():
        found = mt.load(tmp_path / "x.pt")
    assert found["row"].untyped_storage() is found["base"].untyped_storage() and found["row"].storage_offset() == 3


def test_load_into_under_modes(saved):
    real, path = saved
    for mode in (mt.deferred_init(), mt.FakeTensorMode()):
        with mode, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = Model()
            mt.load_into(model, path)
        assert mt.equal(model.embedding.weight, real.embedding.weight)


@pytest.mark.parametrize("how", ["deferred", "meta", "fake"])
def test_views_of_what_is_loaded_stay_views(saved, how):
    real, path = saved
    with {"deferred": mt.deferred_init(), "meta": mt.device("meta"), "fake": mt.FakeTensorMode()}[how]:
        model = Model()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mt.load_into(model, path, device="cpu")
    if how == "deferred":
        assert not caught
        mt.materialize(model)
        mt.assert_materialized(model)
        assert mt.equal(model.table, real.table)
    else:
        assert '"table"' in str(caught[0].message) and "rows" not in str(caught[0].message)
    assert model.head.weight is model.embedding.weight
    for view, wanted in ((model.rows, real.rows), (model.plain, real.plain)):
        assert view.untyped_storage() is model.embedding.weight.untyped_storage() and mt.equal(view, wanted)


def test_views_in_another_dtype(saved):
    real, path = saved
    model = deferred()
    mt.load_into(model, path, dtype=mt.float16)
    assert model.rows.untyped_storage() is model.embedding.weight.untyped_storage() and model.rows.dtype is mt.float16
    assert mt.equal(model.rows, real.rows.half())


@pytest.mark.parametrize("format", ["pt", "safetensors", "npz", "torch-legacy"])
def test_fake_tensors_of_a_device_that_is_not_there(tmp_path, format):
    path = tmp_path / f"x.{format}"
    weight = mt.ones(3, 2)
    mt.save({"weight": weight, "bias": mt.zeros(3)}, path, format=format if "-" in format else None)
    with mt.FakeTensorMode():
        for location in ("cuda", {"cpu": "cuda:1"}, lambda storage, place: storage.cuda(), "vulkan:3"):
            if format != "pt" and not isinstance(location, str):
                continue
            found = mt.load(path, map_location=location)
            assert is_fake(found["weight"]) and found["weight"].shape == (3, 2) and found["weight"].device.type in ("cuda", "vulkan")
        with mt.device("cuda"):
            model = nn.Linear(2, 3)
        assert mt.load_into(model, path) == ([], [])
        with pytest.raises(RuntimeError, match="size mismatch"):
            mt.load_into(nn.Linear(3, 3), path)
    assert mt.load_into(model, path, dtype=mt.float64) == ([], [])
    assert is_fake(model.weight) and model.weight.device.type == "cuda" and model.weight.dtype is mt.float64


def test_fake_tensors_are_where_each_was_saved(tmp_path):
    def tag(storage):
        return "cuda:1" if storage.nbytes() > 8 else None

    from metatensor import serialization

    serialization.register_package(1, tag, lambda storage, location: None)
    try:
        mt.save({"a": (a := mt.ones(9)), "row": a[1:], "b": mt.ones(1)}, tmp_path / "x.pt")
    finally:
        serialization._packages.clear()
    for weights_only in (True, False):
        with mt.FakeTensorMode():
            found = mt.load(tmp_path / "x.pt", weights_only=weights_only)
        assert str(found["a"].device) == str(found["row"].device) == "cuda:1" and str(found["b"].device) == "cpu"
        assert found["row"].untyped_storage() is found["a"].untyped_storage() and is_fake(found["b"])
