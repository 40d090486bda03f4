"""`load_into` with distributed parameters: any format, any placements, only the bytes of the parts."""

import os
import struct

import pytest

pytest.importorskip("metatensor_cpu")

import metatensor as mt
from metatensor import distributed as dist
from metatensor import nn
from metatensor.distributed import checkpoint, sim
from metatensor.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, init_device_mesh
from metatensor.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from . import programs


def on_ranks(size, function, *args):
    def body():
        dist.init_process_group()
        return function(*args)

    return sim.run(body, world_size=size)


def written(folder, form):
    """Save tensors in a format. Return the path."""
    state = {f"w{i}": programs.whole(i) for i in range(len(programs.PLACEMENTS))}
    state["turned"] = mt.arange(30.0, device="cpu").reshape(5, 6).t()
    state["one"] = mt.tensor(3.0, device="cpu")
    path = folder / f"model.{form}"
    if form == "distributed":
        on_ranks(3, lambda: checkpoint.save(
            {**state, "w0": distribute_tensor(state["w0"], init_device_mesh("cpu", (3,)), [Shard(1)])}, checkpoint_id=path))  # fmt: skip
    elif form == "index":
        mt.save({name: one.contiguous() for name, one in state.items()}, folder / "model.safetensors", max_shard_size=2000)
        path = folder / "model.safetensors.index.json"
    elif form == "gguf":
        write_gguf(path, state)
    elif form == "big.npz":
        np = pytest.importorskip("numpy")
        np.savez_compressed(path, **{name: one.numpy() for name, one in state.items()})
    elif form == "turned.npz":
        np = pytest.importorskip("numpy")
        np.savez(path, **{name: np.asfortranarray(one.numpy()) for name, one in state.items()})
    elif form == "old.pt":
        mt.save(state, path, format="torch-legacy")
    else:
        mt.save({name: one.contiguous() for name, one in state.items()} if form == "safetensors" else state, path)
    return path


def write_gguf(path, state):
    """Write a GGUF file of float32 tensors."""
    header, data = struct.pack("<4sIQQ", b"GGUF", 3, len(state), 0), b""
    for name, tensor in state.items():
        shape = tuple(tensor.shape)[::-1] or (1,)
        header += struct.pack(f"<Q{len(name)}sI{len(shape)}QIQ", len(name), name.encode(), len(shape), *shape, 0, len(data))
        data += tensor.contiguous().numpy().tobytes()
        data += bytes(-len(data) % 32)
    path.write_bytes(header + bytes(-len(header) % 32) + data)


@pytest.mark.parametrize("form", ["safetensors", "gguf", "pt", "old.pt", "npz", "big.npz", "turned.npz", "index", "distributed"])
def test_any_format_and_placements(tmp_path, form):
    path = written(tmp_path, form)

    def load(place):
        here = programs.mesh()

        def given(tensor, placements):
            return nn.Parameter(distribute_tensor(tensor, here, placements, src_data_rank=None))

        model = nn.Module()
        for i, placements in enumerate(programs.PLACEMENTS):
            setattr(model, f"w{i}", given(mt.empty(*programs.SHAPE, device=place), placements))
        model.turned = given(mt.empty(6, 5, dtype=mt.float64, device=place), programs.PLACEMENTS[4])
        model.register_buffer("one", mt.empty((), device="meta"))
        before = model.w3
        mt.load_into(model, path)
        assert model.w3 is before and model.w3.device.type == "cpu" and model.w3.placements == tuple(programs.PLACEMENTS[3])
        for i in range(len(programs.PLACEMENTS)):
            assert getattr(model, f"w{i}").full_tensor().tolist() == programs.whole(i).tolist(), i
        assert model.turned.full_tensor().tolist() == mt.arange(30.0).reshape(5, 6).t().tolist()
        assert model.turned.dtype is mt.float64 and model.one.item() == 3

    for place in ("meta", "cpu"):
        on_ranks(4, load, place)


@pytest.mark.parametrize("placement", [Shard(0), Shard(1), Shard(2), Replicate()])
def test_only_the_bytes_of_the_part_are_read(tmp_path, reads, placement):
    path = tmp_path / "model.safetensors"
    mt.save({"w": mt.arange(16.0 * 8 * 512, device="cpu").reshape(16, 8, 512), "other": mt.ones(1000, device="cpu")}, path)
    begin = struct.unpack("<Q", path.read_bytes()[:8])[0] + 8

    def load():
        mesh = init_device_mesh("cpu", (8,))
        model = nn.Module()
        model.w = nn.Parameter(distribute_tensor(mt.empty(16, 8, 512, device="meta"), mesh, [placement]))
        mt.load_into(model, path, strict=False)
        assert model.w._local_tensor.numel() * (1 if placement == Replicate() else 8) == 16 * 8 * 512
        expected = distribute_tensor(mt.arange(16.0 * 8 * 512, device="cpu").reshape(16, 8, 512), mesh, [placement])
        assert mt.equal(model.w._local_tensor, expected._local_tensor)

    on_ranks(8, load)
    needed = 16 * 8 * 512 * 4
    assert reads.after(path, begin + 4000) == (8 * needed if placement == Replicate() else needed)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["pt", "distributed"])
def test_only_the_bytes_of_the_part_are_read_from_other_formats(tmp_path, reads, form):
    weight = mt.arange(512.0 * 1024, device="cpu").reshape(512, 1024)
    path = tmp_path / f"model.{form}"
    if form == "pt":
        mt.save({"w": weight}, path)
    else:
        on_ranks(4, lambda: checkpoint.save(
            {"w": distribute_tensor(weight, init_device_mesh("cpu", (4,)), [Shard(0)])}, checkpoint_id=path))  # fmt: skip
    reads.clear()

    def load():
        mesh = init_device_mesh("cpu", (2, 2))
        model = nn.Module()
        model.w = nn.Parameter(distribute_tensor(mt.empty(512, 1024, device="meta"), mesh, [Shard(1), Shard(0)]))
        mt.load_into(model, path)
        assert model.w.full_tensor().tolist() == weight.tolist()

    on_ranks(4, load)
    needed = 512 * 1024 * 4
    assert needed <= reads.total() < 1.02 * needed


def test_the_program_of_processes(tmp_path):
    on_ranks(1, programs.load_into, tmp_path)


def test_small_gaps_are_read_along(tmp_path, reads):
    path = tmp_path / "model.safetensors"
    mt.save({"w": mt.arange(4000.0, device="cpu").reshape(1000, 4)}, path)

    def load():
        model = nn.Module()
        model.w = nn.Parameter(distribute_tensor(mt.empty(1000, 4, device="meta"), init_device_mesh("cpu", (4,)), [Shard(1)]))
        mt.load_into(model, path)
        assert model.w.to_local().reshape(-1).tolist() == [4.0 * row + dist.get_rank() for row in range(1000)]

    on_ranks(4, load)
    assert all(len(found) <= 16 for found in reads.values())


def test_a_parallel_model(tmp_path):
    with mt.device("cpu"):
        saved = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))
    mt.save(saved.state_dict(), tmp_path / "model.pt")
    x = mt.arange(12.0, device="cpu").reshape(2, 6) / 10

    def load(build):
        with build():
            model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))
        parallelize_module(model, init_device_mesh("cpu", (2,)), {"0": ColwiseParallel(), "2": RowwiseParallel()})
        mt.load_into(model, tmp_path / "model.pt")
        assert model[0].weight.to_local().shape == (4, 6)
        assert mt.allclose(model(x), saved(x))

    on_ranks(2, load, lambda: mt.device("meta"))


def test_a_mesh_on_meta_plans(tmp_path, reads):
    path = tmp_path / "model.safetensors"
    mt.save({"w": mt.ones(64, 4, device="cpu")}, path)
    mesh = init_device_mesh("meta", (8,))
    try:
        model = nn.Module()
        model.w = nn.Parameter(distribute_tensor(mt.empty(64, 4, device="meta"), mesh, [Shard(0)]))
        mt.load_into(model, path)
        assert model.w.is_meta and model.w.to_local().shape == (8, 4)
        assert reads.total() < 1000
    finally:
        dist.destroy_process_group()


def test_what_does_not_fit(tmp_path):
    path = tmp_path / "model.safetensors"
    mt.save({"w": mt.ones(8, 4, device="cpu")}, path)

    def load(shape, placements, words):
        model = nn.Module()
        mesh = init_device_mesh("cpu", (2,))
        if isinstance(placements[0], Partial):
            model.w = nn.Parameter(DTensor.from_local(mt.ones(*shape, device="cpu"), mesh, placements))
        else:
            model.w = nn.Parameter(distribute_tensor(mt.ones(*shape, device="cpu"), mesh, placements))
        with pytest.raises(RuntimeError, match=words):
            mt.load_into(model, path)

    on_ranks(2, load, (4, 4), [Shard(0)], r"the checkpoint has shape \[8, 4\], but the model has \[4, 4\]")
    on_ranks(2, load, (8, 4), [Partial()], "w: a tensor with the placements .* redistribute it first")


def test_parts_of_parts(tmp_path):
    path = tmp_path / "model.safetensors"
    mt.save({"w": mt.arange(32.0, device="cpu").reshape(8, 4)}, path)

    def load():
        model = nn.Module()
        model.w = nn.Parameter(distribute_tensor(mt.empty(4, 2, device="cpu"), init_device_mesh("cpu", (2,)), [Shard(0)]))
        mt.load_into(model, path, shard={"w": (slice(4, 8), slice(1, 3))})
        assert model.w.full_tensor().tolist() == [[17, 18], [21, 22], [25, 26], [29, 30]]

    on_ranks(2, load)


def test_an_interrupted_call_resumes(tmp_path, reads):
    path = tmp_path / "model.safetensors"
    mt.save({"a": mt.ones(1 << 14, device="cpu"), "b": mt.ones(1 << 14, device="cpu")}, path)

    def load():
        mesh = init_device_mesh("cpu", (2,))
        model = nn.Module()
        for name in "ab":
            setattr(model, name, nn.Parameter(distribute_tensor(mt.empty(1 << 14, device="meta"), mesh, [Shard(0)])))

        def stop(done, total, name):
            assert total == 1 << 16
            if name == "b":
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            mt.load_into(model, path, progress=stop)
        reads.clear()
        mt.load_into(model, path)
        assert model.b.full_tensor().sum().item() == 1 << 14
        return reads.total()

    assert all(1 << 15 <= read < 1.1 * (1 << 16) for read in on_ranks(2, load))
    assert os.path.getsize(path) > 1 << 17
