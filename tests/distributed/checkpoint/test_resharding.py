"""Resharding: the plan without data, and what is written."""

import json
import os
from collections import Counter

import pytest

pytest.importorskip("metatensor_cpu")

import metatensor as mt
from metatensor import distributed as dist
from metatensor.checkpoint import CheckpointError
from metatensor.distributed import checkpoint, sim
from metatensor.distributed.checkpoint.layouts import Layout, parse_mesh, parse_placements
from metatensor.distributed.checkpoint.resharding import plan_reshard, ranges_of, reshard
from metatensor.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh
from metatensor.distributed.tensor.placement_types import _StridedShard

from . import programs


def on_ranks(size, function, *args):
    def body():
        dist.init_process_group()
        return function(*args)

    return sim.run(body, world_size=size)


@pytest.fixture
def source(tmp_path):
    """The folder of a checkpoint that three ranks saved."""
    on_ranks(3, programs.save, tmp_path / "old")
    return tmp_path / "old"


def test_texts():
    assert parse_mesh("8") == (8,) and parse_mesh("4,2") == parse_mesh("4x2") == (4, 2)
    assert parse_placements("S(0),R") == (None, (Shard(0), Replicate()))
    assert parse_placements("*.weight = Shard(dim=1), Replicate()") == ("*.weight", (Shard(1), Replicate()))
    assert parse_placements("a=b=_S(0, 2),s(-1)") == ("a=b", (_StridedShard(0, split_factor=2), Shard(-1)))
    for text in ("", "S", "S(0)R", "P", "S(x)", "=", "S(0),,R"):
        with pytest.raises(ValueError, match="placements are R"):
            parse_placements(text)
    for text in ("", "4,", "-1", "a"):
        with pytest.raises(ValueError, match="a mesh is given by its sizes"):
            parse_mesh(text)


def test_layouts():
    layout = Layout([2, 2], [(None, [Shard(1), Replicate()]), ("*.w", [Shard(-1), Shard(0)]), ("a.*", [Replicate(), Replicate()])])
    assert layout.placements_of("b.w", 2) == (Shard(1), Shard(0))
    assert layout.placements_of("a.w", 2) == (Replicate(), Replicate())  # the last that fits
    assert layout.placements_of("bias", 1) == (Replicate(), Replicate())
    assert Layout([3]).placements_of("x", 1) == (Shard(0),) and Layout([3]).placements_of("x", 0) == (Replicate(),)
    with pytest.raises(ValueError, match="'b.w' has 0 dimensions; it cannot be placed as"):
        layout.placements_of("b.w", 0)
    with pytest.raises(ValueError, match="1 placements S\\(0\\) for a mesh of 2"):
        Layout([2, 2], [(None, [Shard(0)])])
    with pytest.raises(ValueError, match="positive"):
        Layout([0])


def test_the_layout_is_that_of_distributed_tensors():
    shape = (7, 6, 5)

    def check():
        mesh = init_device_mesh("cpu", (2, 3))
        for placements in programs.PLACEMENTS:
            tensor = distribute_tensor(mt.arange(210.0, device="cpu").reshape(shape), mesh, placements)
            boxes = Layout([2, 3], [(None, placements)]).blocks("w", shape)[dist.get_rank()]
            assert [(tuple(one.offsets), tuple(one.sizes)) for one in tensor.__create_chunk_list__()] == boxes
            assert sum(box.numel for box in boxes) == tensor._local_tensor.numel()

    on_ranks(6, check)


@pytest.mark.slow
def test_every_rank_reads_what_was_planned(source, reads):
    layout = Layout([2, 2], [("*w0", [Shard(1), Shard(0)]), ("*w3", [Shard(2), Replicate()])])
    plan = plan_reshard(source, layout)
    assert {name.rpartition("/")[2] for name in reads} == {".metadata"}, "the plan read data"
    assert plan.files == ["__0_0.distcp", "__1_0.distcp", "__2_0.distcp"] and plan.nbytes == 9 * 210 * 4 + 6 + 4

    def load():
        mesh = init_device_mesh("cpu", (2, 2))
        rank = dist.get_rank()
        state = {}
        for name, placements in plan.placements.items():
            info = mt.checkpoint.inspect(source).tensors[name]
            whole = mt.zeros(info.shape, dtype=getattr(mt, info.dtype), device="cpu")
            state[name] = distribute_tensor(whole, mesh, placements, src_data_rank=None)
        held = sum(one._local_tensor.nbytes for one in state.values())
        reads.clear()
        checkpoint.load(state, checkpoint_id=source, no_dist=True)
        counted = {os.path.basename(name): reads.total(name) for name in reads if not name.endswith(".metadata")}
        return rank, held, counted, state["model.w3"].full_tensor().tolist()

    for rank, held, counted, w3 in on_ranks(4, load):
        planned = plan.ranks[rank]
        assert planned.held == held and w3 == programs.whole(3).tolist()
        assert set(planned.reads) <= set(counted)
        for file, count in planned.reads.items():
            assert count <= counted[file]
    # The exact ranges are those of the plan.
    totals = Counter()
    for found in ranges_of(source, layout):
        count = found["length"]
        for repeated, _ in found["loops"]:
            count *= repeated
        totals[found["rank"], found["file"]] += count
    assert totals == {(one.rank, file): count for one in plan.ranks for file, count in one.reads.items()}


def test_ranges_are_where_the_bytes_are(tmp_path):
    whole = mt.arange(96.0, device="cpu").reshape(8, 12)
    on_ranks(2, lambda: checkpoint.save(
        {"w": distribute_tensor(whole, init_device_mesh("cpu", (2,)), [Shard(0)])}, checkpoint_id=tmp_path))  # fmt: skip
    parts = [b"", b"", b""]
    for found in ranges_of(tmp_path, Layout([3], [(None, [Shard(0)])])):
        data = (tmp_path / found["file"]).read_bytes()
        assert found["loops"] == []
        parts[found["rank"]] += data[found["begin"] : found["begin"] + found["length"]]
    assert b"".join(parts) == whole.numpy().tobytes()


def test_a_plan_in_numbers(tmp_path):
    path = tmp_path / "model.safetensors"
    mt.save({"w": mt.ones(16, 256, device="cpu"), "b": mt.ones(16, device="cpu")}, path)
    plan = plan_reshard(path, Layout([4], [("w", [Shard(1)]), ("b", [Replicate()])]))
    assert [(one.held, one.peak, one.reads, one.writes) for one in plan.ranks] == [
        (4096 + 64, 4096 + 64, {"model.safetensors": 4160}, 4096 + 64 * (rank == 0)) for rank in range(4)
    ]
    found = json.loads(json.dumps(plan.to_dict()))
    assert (found["schema"], found["mesh"], found["bytes"], found["bytes_read"]) == (1, [4], 16384 + 64, 4 * 4160)
    assert found["placements"] == {"b": ["R"], "w": ["S(1)"]} and found["ranks"][1]["peak"] == 4160


def test_bytes_that_stay(tmp_path):
    def save():
        mesh = init_device_mesh("cpu", (4,))
        checkpoint.save({"w": distribute_tensor(mt.ones(16, 64, device="cpu"), mesh, [Shard(0)])}, checkpoint_id=tmp_path)

    on_ranks(4, save)
    assert plan_reshard(tmp_path, Layout([4])).staying == 4096
    plan = plan_reshard(tmp_path, Layout([4], [(None, [Shard(1)])]))
    assert plan.staying == 1024 and all(set(one.reads.values()) == {256} and len(one.reads) == 4 for one in plan.ranks)
    # In this rank's part, the rows from another rank's file are not adjacent, so each is read straight into its place.
    assert {one.buffer for one in plan.ranks} == {0}
    assert {one.buffer for one in plan_reshard(tmp_path, Layout([1])).ranks} == {0}


@pytest.mark.slow
def test_many_ranks_and_layers(tmp_path):
    mt.save({f"layers.{i}.w": mt.ones(512, 64, device="cpu") for i in range(20)}, tmp_path / "model.safetensors")
    plan = plan_reshard(tmp_path, Layout([64, 8], [(None, [Shard(0), Shard(1)])]))
    assert len(plan.ranks) == 512 and {one.held for one in plan.ranks} == {20 * 8 * 8 * 4}
    assert sum(one.writes for one in plan.ranks) == plan.nbytes


@pytest.mark.slow
def test_what_is_written(source, tmp_path, reads):
    layout = Layout([2, 2], [("*w0", [Shard(1), Shard(0)]), ("*w3", [_StridedShard(0, split_factor=2), Shard(0)])])
    metadata = reshard(source, tmp_path / "new", layout)
    assert sorted(os.listdir(tmp_path / "new")) == [".metadata", *(f"__{rank}_0.distcp" for rank in range(4))]
    before, after = mt.load(source, "cpu"), mt.load(tmp_path / "new", "cpu")
    assert before.keys() == after.keys()
    for name, value in before.items():
        assert after[name].tolist() == value.tolist() if isinstance(value, mt.Tensor) else after[name] == value
    on_ranks(2, programs.load, tmp_path / "new")
    assert metadata.planner_data["lists.1.betas"] == ("lists", 1, "betas")
    # Now each rank reads from its own file only.
    again = plan_reshard(tmp_path / "new", layout)
    assert all(set(one.reads) == {f"__{one.rank}_0.distcp"} for one in again.ranks if one.rank in (1, 3)) or again.staying > 0
    assert [one.writes for one in again.ranks] == [one.writes for one in plan_reshard(source, layout).ranks]


def test_in_place(source):
    before = mt.load(source, "cpu")
    reshard(source, source, Layout([2]))
    assert len(os.listdir(source)) == 3
    assert mt.load(source, "cpu")["model.w4"].tolist() == before["model.w4"].tolist()


def test_other_formats(tmp_path):
    state = {"model": {"w": mt.arange(24.0, device="cpu").reshape(4, 6).t(), "half": mt.ones(3, device="cpu").bfloat16()}, "step": 3}
    mt.save(state, tmp_path / "model.pt")
    reshard(tmp_path / "model.pt", tmp_path / "new", Layout([3]))
    into = {"model": {"w": mt.zeros(6, 4, device="cpu"), "half": mt.zeros(3, device="cpu")}, "step": 0}
    checkpoint.load(into, checkpoint_id=tmp_path / "new")
    assert into["model"]["w"].tolist() == state["model"]["w"].tolist() and into["step"] == 3


class Custom:
    """A class that the safe loader does not know."""

    value = 3


def test_what_cannot_be_resharded(tmp_path, source):
    mt.save({"w": mt.ones(3, device="cpu"), "other": Custom()}, tmp_path / "custom.pt")
    with pytest.raises(CheckpointError, match="Custom', which cannot be in a distributed checkpoint"):
        reshard(tmp_path / "custom.pt", tmp_path / "new", Layout([2]))
    reshard(tmp_path / "custom.pt", tmp_path / "new", Layout([2]), drop=True)
    assert list(mt.load(tmp_path / "new")) == ["w"]
    mt.save({"w": mt.ones(3, device="meta")}, tmp_path / "skeleton.pt")
    with pytest.raises(CheckpointError, match="'w' has no data"):
        reshard(tmp_path / "skeleton.pt", tmp_path / "none", Layout([2]))
    plan = plan_reshard(tmp_path / "skeleton.pt", Layout([3]))
    assert [(one.held, one.reads) for one in plan.ranks] == [(4, {"skeleton.pt": 4})] * 3
    before = sorted(os.listdir(source))
    (source / "__1_0.distcp").write_bytes((source / "__1_0.distcp").read_bytes()[:-100])
    with pytest.raises(CheckpointError, match="__1_0.distcp"):
        reshard(source, source, Layout([2]))
    assert sorted(os.listdir(source)) == before
