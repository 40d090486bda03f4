"""PyTorch's distributed checkpoints: written by PyTorch, and chunked ones built from records."""

import io
import json
import pickle

import pytest

import metatensor as mt
from metatensor.checkpoint import CheckpointError, inspect, load
from metatensor.checkpoint.distributed import Part, _runs

np = pytest.importorskip("numpy")

from .chunks import METADATA, maker, write


@pytest.fixture
def records():
    return maker()


WHOLE = np.arange(24, dtype="f4").reshape(4, 6)


def test_chunks_are_put_together(tmp_path, records):
    grid = {(0, 0): WHOLE[:2, :3], (0, 3): WHOLE[:2, 3:], (2, 0): WHOLE[2:, :4], (2, 4): WHOLE[2:, 4:]}
    rows = {(0, 0): WHOLE[:1], (1, 0): WHOLE[1:]}
    write(tmp_path, records, {"grid": ((4, 6), grid), "rows": ((4, 6), rows), "one": ((), {(): np.array(3, "f4")})})
    for place in (tmp_path, tmp_path / ".metadata"):
        found = load(place, "cpu")
        assert np.array_equal(found["grid"].numpy(), WHOLE)
        assert np.array_equal(found["rows"].numpy(), WHOLE)
        assert found["one"].item() == 3
    assert {name: t.is_meta for name, t in load(tmp_path, "meta").items()} == {"grid": True, "rows": True, "one": True}
    assert inspect(tmp_path).tensors["grid"][:3] == ("float32", (4, 6), 96)


def test_runs_cover_blocks_of_any_shape():
    whole = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    for block in (np.s_[:, :, :, :], np.s_[1:, :, :, :], np.s_[:, 1:, :, :], np.s_[:, :, 2:3, :], np.s_[1:2, 0:2, 1:3, 2:4]):
        offsets = tuple(s.start or 0 for s in block)
        part = whole[block]
        flat = [i for begin, end in _runs(whole.shape, offsets, part.shape) for i in range(begin, end)]
        assert flat == part.flatten().tolist()
    assert list(_runs((), (), ())) == [(0, 1)]


@pytest.mark.parametrize(
    ("chunks", "words"),
    [
        ({(0, 0): WHOLE[:2]}, "12 elements"),
        ({(0, 0): WHOLE[:3], (2, 0): WHOLE[3:]}, "overlap"),
        ({(1, 0): WHOLE}, "not within"),
        ({(0,): WHOLE}, "invalid location"),
    ],
)
def test_chunks_that_do_not_cover(tmp_path, records, chunks, words):
    with pytest.raises(CheckpointError, match=words):
        load(write(tmp_path, records, {"w": ((4, 6), chunks)}), "meta")


def test_places_that_are_none(tmp_path, records):
    def place(**members):
        def change(table, places):
            next(iter(places.values())).__dict__.update(members)

        return change

    for change in (place(relative_path="../x"), place(relative_path="/etc/passwd"), place(relative_path="none"), place(relative_path=3),
                   place(offset=-1), place(length=1 << 40), place(offset="0"), place(transform_descriptors=["zstd"]),
                   lambda table, places: places.clear(), lambda table, places: table.update({3: 4}),
                   lambda table, places: table["w"].__dict__.update(size=(1 << 40, 1 << 40)),
                   lambda table, places: table["w"].__dict__.update(size="x"),
                   lambda table, places: table["w"].properties.__dict__.update(dtype="float32"),
                   lambda table, places: table["w"].__dict__.update(chunks=[3])):  # fmt: skip
        with pytest.raises(CheckpointError):
            load(write(tmp_path, records, {"w": ((4, 6), {(0, 0): WHOLE})}, change), "meta")


def test_a_chunk_that_is_something_else(tmp_path, records):
    def longer(table, places):
        table["w"].__dict__.update(size=(4, 5))
        table["w"].chunks[0].__dict__.update(sizes=(4, 5))

    write(tmp_path, records, {"w": ((4, 6), {(0, 0): WHOLE})}, longer)
    assert load(tmp_path, "meta")["w"].shape == (4, 5)
    with pytest.raises(CheckpointError, match="does not match the metadata"):
        load(tmp_path, "cpu")


def test_a_hostile_pickle(tmp_path):
    class Evil:
        def __reduce__(self):
            return (json.dumps, (1,))

    payload = pickle.dumps({METADATA: Evil()}, protocol=4)
    (tmp_path / ".metadata").write_bytes(payload)
    with pytest.raises(CheckpointError):
        load(tmp_path)


def test_a_part_of_a_file():
    part = Part(io.BytesIO(b"0123456789"), 3, 4)
    assert part.read() == b"3456"
    assert part.seek(0, io.SEEK_END) == 4
    assert part.read(1) == b""
    part.seek(1)
    assert part.read(2) == b"45"


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
def test_against_pytorch(tmp_path):
    import torch
    import torch.distributed.checkpoint as dcp

    turned = torch.arange(6).reshape(2, 3).t()
    state = {"model": {"w": torch.arange(12.0).reshape(3, 4), "b": torch.ones(3, dtype=torch.bfloat16), "t": turned},
             "step": 7, "opt": {"lr": 0.1, "name": "x"}, "p": torch.nn.Parameter(torch.ones(2)), "one": torch.tensor(3)}  # fmt: skip
    dcp.save(state, checkpoint_id=tmp_path / "dcp")
    found = load(tmp_path / "dcp", "cpu")
    assert (found["step"], found["opt.lr"], found["opt.name"]) == (7, 0.1, "x")
    assert found["model.w"].tolist() == state["model"]["w"].tolist()
    assert found["model.t"].tolist() == state["model"]["t"].tolist()
    assert found["model.b"].dtype is mt.bfloat16
    assert found["one"].item() == 3
    with mt.device("meta"):
        model = mt.nn.Module()
        model.w = mt.nn.Parameter(mt.empty(3, 4))
    mt.load_into(model, tmp_path / "dcp", device="cpu", prefix="model.", strict=False)
    assert model.w.tolist() == state["model"]["w"].tolist()
