"""Saving by several ranks and loading by others, with any placements."""

import os
import re
import shutil

import pytest

pytest.importorskip("metatensor_cpu")

import metatensor as mt
from metatensor import distributed as dist
from metatensor.checkpoint import CheckpointError, inspect
from metatensor.distributed import checkpoint, sim
from metatensor.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, init_device_mesh

from . import programs


def on_ranks(size, function, *args, **options):
    """Call a function on simulated ranks that are connected."""

    def body():
        dist.init_process_group()
        return function(*args, **options)

    return sim.run(body, world_size=size)


def files(folder):
    return sorted(os.listdir(folder))


@pytest.mark.slow
@pytest.mark.parametrize("saving, loading", [(4, 4), (4, 1), (1, 4), (4, 6), (3, 2)])
def test_any_placements_into_any_others(tmp_path, saving, loading):
    on_ranks(saving, programs.save, tmp_path)
    assert files(tmp_path) == [".metadata", *(f"__{rank}_0.distcp" for rank in range(saving))]
    on_ranks(loading, programs.load, tmp_path)
    found = mt.load(tmp_path, "cpu")
    assert found["model.w3"].tolist() == programs.whole(3).tolist() and found["step"] == 7
    names = [name for name in inspect(tmp_path).tensors if name.startswith("model")]
    assert names == [f"model.w{i}" for i in range(len(programs.PLACEMENTS))]


def test_without_a_process_group(tmp_path):
    weight = mt.arange(6.0, device="cpu").reshape(2, 3).t()
    made = checkpoint.save({"weight": weight, "row": weight[0]}, checkpoint_id=tmp_path / "new" / "folder")
    assert made.state_dict_metadata["weight"].size == (3, 2) and made.version == "1.0.0"
    into = {"weight": mt.zeros(3, 2, device="cpu", dtype=mt.float64), "row": mt.zeros(2, device="meta")}
    checkpoint.load(into, checkpoint_id=tmp_path / "new" / "folder")
    assert into["weight"].tolist() == weight.tolist() and into["weight"].dtype is mt.float64
    assert into["row"].tolist() == [0, 3]


def test_replicas_are_saved_once_by_several_ranks(tmp_path):
    def save():
        mesh = init_device_mesh("cpu", (4,))
        checkpoint.save({f"w{i}": distribute_tensor(mt.ones(100, 10, device="cpu"), mesh, [Replicate()]) for i in range(8)},
                        checkpoint_id=tmp_path)  # fmt: skip

    on_ranks(4, save)
    sizes = [os.path.getsize(tmp_path / f"__{rank}_0.distcp") for rank in range(4)]
    assert all(8000 < size < 12_000 for size in sizes)


def test_a_rank_reads_only_what_it_needs(tmp_path, reads):
    def save():
        mesh = init_device_mesh("cpu", (4,))
        whole = mt.ones(64, 1024, device="cpu")
        checkpoint.save({name: distribute_tensor(whole, mesh, [Shard(0)]) for name in ("rows", "other")}, checkpoint_id=tmp_path)

    on_ranks(4, save)
    size = 64 * 1024 * 4
    for placement, chunks in ((Shard(0), 2), (Shard(1), 4)):
        def load(placement=placement):
            mesh = init_device_mesh("cpu", (2,))
            part = mt.zeros(*((32, 1024) if placement == Shard(0) else (64, 512)), device="cpu")
            state = {"rows": DTensor.from_local(part, mesh, [placement])}
            checkpoint.load(state, checkpoint_id=tmp_path)
            assert part.sum().item() == part.numel()

        reads.clear()
        on_ranks(2, load)
        read = reads.total() - reads.total(str(tmp_path / ".metadata"))
        assert size <= read < size + 2 * chunks * 3000  # headers of chunks


def test_states_of_modules_and_optimizers(tmp_path):
    def run():
        mt.manual_seed(0)
        model = mt.nn.Linear(4, 2, device="cpu")
        optimizer = mt.optim.AdamW(model.parameters(), lr=0.1)
        model(mt.ones(1, 4, device="cpu")).sum().backward()
        optimizer.step()
        checkpoint.save({"model": model, "optimizer": optimizer}, checkpoint_id=tmp_path)
        other = mt.nn.Linear(4, 2, device="cpu")
        again = mt.optim.AdamW(other.parameters(), lr=0.5)
        other(mt.ones(1, 4, device="cpu")).sum().backward()
        again.step()
        checkpoint.load({"model": other, "optimizer": again}, checkpoint_id=tmp_path)
        assert mt.equal(model.weight, other.weight) and again.param_groups[0]["lr"] == 0.1
        assert mt.equal(again.state[other.weight]["exp_avg"], optimizer.state[model.weight]["exp_avg"])

    on_ranks(2, run)


def test_pipelines_save_different_entries(tmp_path):
    def save():
        rank = dist.get_rank()
        checkpoint.save({f"stage{rank}": {"w": mt.full((2,), float(rank), device="cpu")}, "shared": 3}, checkpoint_id=tmp_path)

    on_ranks(3, save)
    assert set(inspect(tmp_path).tensors) == {"stage0.w", "stage1.w", "stage2.w"}
    assert mt.load(tmp_path, "cpu")["stage2.w"].tolist() == [2, 2]


def test_a_part_of_the_ranks(tmp_path):
    def save():
        group = dist.new_group([1, 2])
        if dist.get_rank():
            checkpoint.save({"w": mt.ones(2, device="cpu")}, checkpoint_id=tmp_path, process_group=group)

    on_ranks(3, save)
    assert mt.load(tmp_path, "cpu")["w"].tolist() == [1, 1]


def test_other_formats_are_loaded(tmp_path):
    mt.save({"w": programs.whole(0)}, tmp_path / "model.safetensors")

    def load():
        state = {"w": distribute_tensor(mt.zeros(*programs.SHAPE, device="cpu"), programs.mesh(), programs.PLACEMENTS[5])}
        checkpoint.load(state, checkpoint_id=tmp_path / "model.safetensors")
        assert state["w"].full_tensor().tolist() == programs.whole(0).tolist()

    on_ranks(4, load)


def test_folders_of_safetensors(tmp_path):
    state = {f"w{i}": programs.whole(i) for i in range(4)}
    mt.save(state, tmp_path / "model.safetensors", max_shard_size=2000)
    found = {"w2": mt.zeros(*programs.SHAPE, device="cpu")}
    checkpoint.load(found, storage_reader=checkpoint.HuggingFaceStorageReader(tmp_path))
    assert found["w2"].tolist() == programs.whole(2).tolist()
    with pytest.raises(NotImplementedError, match=r"metatensor.checkpoint.convert makes safetensors files of them"):
        checkpoint.HuggingFaceStorageWriter(tmp_path)


def test_tensors_on_meta(tmp_path):
    on_ranks(4, programs.save, tmp_path)

    def load():
        here = programs.mesh()
        planned = distribute_tensor(mt.empty(*programs.SHAPE, device="meta"), here, programs.PLACEMENTS[4], src_data_rank=None)
        state = {"model": {"w0": planned.requires_grad_()}}
        checkpoint.load(state, checkpoint_id=tmp_path)
        found = state["model"]["w0"]
        assert found.device.type == "cpu" and found.requires_grad and found.full_tensor().tolist() == programs.whole(0).tolist()

    on_ranks(4, load)
    mesh = init_device_mesh("meta", (64,))
    try:
        state = {"model.w0": distribute_tensor(mt.empty(*programs.SHAPE, device="meta"), mesh, [Shard(0)])}
        checkpoint.load(state, checkpoint_id=tmp_path, no_dist=True)
        assert state["model.w0"].is_meta
        with pytest.raises(ValueError, match="blocks of 'model.w0', .* leave a gap at"):
            checkpoint.save(state, checkpoint_id=tmp_path / "none", no_dist=True)
        with pytest.raises(RuntimeError, match="__0_0.distcp: 'w': .* holds no data"):
            checkpoint.save({"w": mt.ones(3, device="meta")}, checkpoint_id=tmp_path / "none", no_dist=True)
        assert files(tmp_path / "none") == []
    finally:
        dist.destroy_process_group()


@pytest.mark.slow
def test_async_save(tmp_path):
    on_ranks(4, programs.save_later, tmp_path)
    assert files(tmp_path) == [".metadata", *(f"__{rank}_0.distcp" for rank in range(4))]
    on_ranks(2, programs.load, tmp_path)
    done = checkpoint.async_save({"w": mt.ones(3, device="cpu")}, checkpoint_id=tmp_path)
    assert done.result(60).state_dict_metadata["w"].size == (3,)
    assert mt.load(tmp_path)["w"].tolist() == [1, 1, 1]


@pytest.mark.slow
def test_async_save_with_a_rank_that_fails(tmp_path, monkeypatch):
    on_ranks(3, programs.save, tmp_path)
    before = files(tmp_path)
    write = checkpoint.FileSystemWriter._write_file

    def failing(self, name, *args):
        if name.startswith("__1_"):
            raise OSError("no space left")
        return write(self, name, *args)

    monkeypatch.setattr(checkpoint.FileSystemWriter, "_write_file", failing)

    def save():
        done = checkpoint.async_save(programs.state(0, 2.0), checkpoint_id=tmp_path)
        return done

    for done in on_ranks(3, save):
        with pytest.raises(checkpoint.CheckpointException, match="rank 1: OSError: no space left"):
            done.result(60)
    assert files(tmp_path) == before
    on_ranks(2, programs.load, tmp_path)


@pytest.mark.slow
def test_conversions(tmp_path):
    from metatensor.distributed.checkpoint.format_utils import dcp_to_torch_save, torch_save_to_dcp

    on_ranks(4, programs.save, tmp_path / "dcp")
    dcp_to_torch_save(tmp_path / "dcp", tmp_path / "whole.pt")
    found = mt.load(tmp_path / "whole.pt")
    assert found["model"]["w3"].tolist() == programs.whole(3).tolist() and found["lists"][1] == {"betas": (0.9, 0.99)}
    torch_save_to_dcp(tmp_path / "whole.pt", tmp_path / "again")
    on_ranks(2, programs.load, tmp_path / "again")
    part = checkpoint.state_dict_loader._load_state_dict_from_keys({"model.w1", "lists"}, checkpoint_id=tmp_path / "dcp")
    assert list(part) == ["model", "lists"] and list(part["model"]) == ["w1"] and part["lists"][1] == {"betas": (0.9, 0.99)}
    with pytest.raises(TypeError, match=r"would lack 'step', 'lists.1.betas'"):
        mt.checkpoint.convert(tmp_path / "dcp", tmp_path / "model.safetensors")
    mt.checkpoint.convert(tmp_path / "dcp", tmp_path / "model.safetensors", drop=True)
    assert mt.load(tmp_path / "model.safetensors")["model.w3"].tolist() == programs.whole(3).tolist()
    mt.save([1], tmp_path / "list.pt")
    with pytest.raises(TypeError, match="expected a state dict in the file, got list"):
        torch_save_to_dcp(tmp_path / "list.pt", tmp_path / "new")


# Errors -----------------------------------------------------------------------------------


def test_what_does_not_fit(tmp_path):
    checkpoint.save({"w": mt.ones(3, device="cpu"), "n": 1}, checkpoint_id=tmp_path)
    for state, kind, words in (
        ({"v": mt.ones(3, device="cpu")}, RuntimeError, "no entry 'v'"),
        ({"w": mt.ones(4, device="cpu")}, ValueError, r"'w' has shape \[3\] in the checkpoint, and \[4\]"),
        ({"w": 3}, ValueError, "'w' is a tensor in the checkpoint, and of type int"),
        ({"n": mt.ones(3, device="cpu")}, ValueError, "'n' is a tensor in the state dict"),
    ):
        with pytest.raises(kind, match=words):
            checkpoint.load(state, checkpoint_id=tmp_path)
    state = {"v": mt.zeros(3, device="cpu"), "w": mt.zeros(3, device="cpu")}
    checkpoint.load(state, checkpoint_id=tmp_path, planner=checkpoint.DefaultLoadPlanner(allow_partial_load=True))
    assert (state["v"].sum().item(), state["w"].sum().item()) == (0, 3)
    with pytest.raises(ValueError, match="checkpoint_id or storage_writer is required"):
        checkpoint.save({})
    with pytest.raises(ValueError, match="two entries with the path 'a.b'"):
        checkpoint.save({"a": {"b": 1}, "a.b": 2}, checkpoint_id=tmp_path)
    with pytest.raises(RuntimeError, match="has a checkpoint, and overwrite is False"):
        checkpoint.save({"n": 1}, storage_writer=checkpoint.FileSystemWriter(tmp_path, overwrite=False))
    with pytest.raises(FileNotFoundError):
        checkpoint.load({"n": 1}, checkpoint_id=tmp_path / "nothing")


def test_ranks_that_disagree(tmp_path):
    def save():
        rank = dist.get_rank()
        checkpoint.save({"w": mt.ones(3 + rank, device="cpu")}, checkpoint_id=tmp_path)

    with pytest.raises(checkpoint.CheckpointException, match=r"failed on rank 0\n.*ranks 0 and 1 disagree about 'w': shape"):
        on_ranks(2, save)

    def partial():
        mesh = init_device_mesh("cpu", (2,))
        checkpoint.save({"w": DTensor.from_local(mt.ones(3, device="cpu"), mesh, [Partial()])}, checkpoint_id=tmp_path)

    with pytest.raises(checkpoint.CheckpointException, match="'w': a tensor with the placements .* redistribute it first"):
        on_ranks(2, partial)
    assert files(tmp_path) == []


@pytest.mark.slow
def test_a_rank_that_fails(tmp_path):
    on_ranks(4, programs.fail, tmp_path)
    assert len(files(tmp_path)) == 5


@pytest.fixture(scope="module")
def saved_by_three(tmp_path_factory):
    folder = tmp_path_factory.mktemp("three") / "saved"
    on_ranks(3, programs.save, folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("step, scale", [("finish", 2), ("gather", 1)])
@pytest.mark.parametrize("ranks", [(0,), (1,), (0, 1, 2)])
def test_communication_that_fails(tmp_path, monkeypatch, saved_by_three, step, scale, ranks):
    """A rank does not remove its files if another one may complete the checkpoint, or has completed it."""
    shutil.copytree(saved_by_three, tmp_path, dirs_exist_ok=True)
    before = getattr(checkpoint.state_dict_saver.Ranks, step)

    def failing(self, what, function):
        found = before(self, what, function)
        if self.rank in ranks and (step == "finish" or getattr(self, "planned", False)):
            raise ConnectionError("a message was lost")
        self.planned = True
        return found

    with monkeypatch.context() as patch, pytest.raises((ConnectionError, sim.RankFailed)):
        patch.setattr(checkpoint.state_dict_saver.Ranks, step, failing)
        on_ranks(3, programs.save, tmp_path, 2.0)
    found = mt.load(tmp_path, "cpu")
    assert found["step"] == 7 * scale or (step == "gather" and 0 not in ranks)
    for i in range(len(programs.PLACEMENTS)):
        assert found[f"model.w{i}"].tolist() == programs.whole(i, found["step"] / 7).tolist()
    on_ranks(3, programs.save, tmp_path)
    assert len(files(tmp_path)) == 4
    on_ranks(3, programs.load, tmp_path)


def test_damaged_files(tmp_path):
    on_ranks(2, programs.save, tmp_path)
    path = tmp_path / "__1_0.distcp"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(checkpoint.CheckpointException, match=r"failed on ranks 0, 1\n(.*\n)*.*__1_0.distcp") as error:
        on_ranks(2, programs.load, tmp_path)
    assert isinstance(error.value.failures[0], CheckpointError)
    path.write_bytes(re.sub(rb"PK\x03\x04", b"XXXX", content))
    with pytest.raises(checkpoint.CheckpointException, match="__1_0.distcp"):
        on_ranks(2, programs.load, tmp_path)
    path.unlink()
    with pytest.raises(checkpoint.CheckpointException, match="'__1_0.distcp' is missing"):
        on_ranks(2, programs.load, tmp_path)


@pytest.mark.parametrize("path", [("a", 1 << 40), ("a", -1), ("a", True), ("a",) * 5000, (), "a", ("a", 1.5), 3])
def test_paths_in_metadata_are_bounded(tmp_path, path):
    from metatensor.checkpoint._pickle_writer import pickled
    from metatensor.distributed.checkpoint.format_utils import dcp_to_torch_save

    metadata = checkpoint.save({"w": mt.ones(3, device="cpu")}, checkpoint_id=tmp_path)
    metadata.planner_data = {"w": path}
    (tmp_path / ".metadata").write_bytes(pickled(metadata, protocol=4)[0])
    if isinstance(path, tuple) and path and type(path[-1]) is int:
        with pytest.raises(ValueError, match="lists in the nested state dict take memory|is not an index of a list"):
            dcp_to_torch_save(tmp_path, tmp_path / "whole.pt")
    else:  # not a path: the name counts
        dcp_to_torch_save(tmp_path, tmp_path / "whole.pt")
        assert mt.load(tmp_path / "whole.pt")["w"].tolist() == [1, 1, 1]


class Custom:
    """A class that the safe loader does not know."""


def test_objects_are_loaded_safely(tmp_path):
    checkpoint.save({"object": Custom()}, checkpoint_id=tmp_path)
    with pytest.raises(CheckpointError, match="Custom"):
        checkpoint.load({"object": None}, checkpoint_id=tmp_path)


# Planners and writers ---------------------------------------------------------------------


def test_planners_can_be_extended(tmp_path):
    class Halves(checkpoint.DefaultSavePlanner):
        def resolve_data(self, write_item):
            found = super().resolve_data(write_item)
            return found.half().float() if isinstance(found, mt.Tensor) else found

    class Renamed(checkpoint.DefaultLoadPlanner):
        def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
            super().set_up_planner({name.removeprefix("new."): value for name, value in state_dict.items()}, metadata, is_coordinator)

    def run():
        value = mt.full((3,), 1 / 3, device="cpu")
        checkpoint.save_state_dict({"w": value}, checkpoint.FileSystemWriter(tmp_path, single_file_per_rank=False), planner=Halves())
        state = {"new.w": mt.zeros(3, device="cpu")}
        checkpoint.load_state_dict(state, checkpoint.FileSystemReader(tmp_path), planner=Renamed())
        assert state["new.w"].tolist() == value.half().float().tolist()

    on_ranks(2, run)
    run()


def test_a_writer_of_another_kind(tmp_path):
    stored = {}

    class Memory(checkpoint.StorageWriter):
        def reset(self, checkpoint_id=None):
            stored["id"] = checkpoint_id

        def set_up_storage_writer(self, is_coordinator, *args, **kwargs):
            self.rank = kwargs["rank"]

        def prepare_local_plan(self, plan):
            return plan

        def prepare_global_plan(self, plans):
            return plans

        def write_data(self, plan, planner):
            from metatensor.distributed.checkpoint.storage import WriteResult
            from metatensor.distributed.futures import Future

            done = Future()
            done.set_result([WriteResult(item.index, 1, self.rank) for item in plan.items])
            for item in plan.items:
                stored[item.index.fqn, tuple(item.index.offset)] = planner.resolve_data(item).tolist()
            return done

        def finish(self, metadata, results):
            stored["ranks"] = [[one.storage_data for one in found] for found in results]

    def run():
        mesh = init_device_mesh("cpu", (2,))
        state = {"w": distribute_tensor(mt.arange(4.0, device="cpu"), mesh, [Shard(0)])}
        checkpoint.save(state, checkpoint_id="place", storage_writer=Memory())
        done = checkpoint.async_save(state, checkpoint_id="later", storage_writer=Memory())
        assert done.done() and done.result().state_dict_metadata["w"].size == (4,)

    on_ranks(2, run)
    assert stored == {"id": "later", ("w", (0,)): [0, 1], ("w", (2,)): [2, 3], "ranks": [[0], [1]]}
