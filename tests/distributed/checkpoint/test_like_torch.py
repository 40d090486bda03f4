"""Checkpoints that PyTorch reads, and those that it writes."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("metatensor_cpu")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

import metatensor as mt
from metatensor import distributed as dist
from metatensor.distributed import checkpoint, sim
from metatensor.distributed.tensor import Shard, distribute_tensor, init_device_mesh

from . import programs


def on_ranks(size, function, *args):
    def body():
        dist.init_process_group()
        return function(*args)

    return sim.run(body, world_size=size)


@pytest.mark.parametrize("ranks", [1, 3, 4])
def test_pytorch_reads_what_was_saved(tmp_path, ranks):
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    for _ in range(2):  # the first files have other names than those of a checkpoint that replaces another
        on_ranks(ranks, programs.save, tmp_path / "dcp")
        dcp_to_torch_save(tmp_path / "dcp", tmp_path / "whole.pt")
        found = torch.load(tmp_path / "whole.pt", weights_only=False)
        assert list(found) and found["step"] == 7 and found["lists"][1] == {"betas": (0.9, 0.99)}
        assert found["half"].dtype is torch.bfloat16 and found["empty"].shape == (0, 3) and found["lists"][0].item() == 1
        for i in range(len(programs.PLACEMENTS)):
            assert found["model"][f"w{i}"].tolist() == programs.whole(i).tolist()
    into = {"model": {"w3": torch.zeros(programs.SHAPE)}}
    dcp.load(into, checkpoint_id=tmp_path / "dcp", no_dist=True)
    assert into["model"]["w3"].tolist() == programs.whole(3).tolist()
    metadata = dcp.FileSystemReader(tmp_path / "dcp").read_metadata()
    assert metadata.version == "1.0.0" and metadata.storage_meta.save_id
    assert metadata.state_dict_metadata["half"].properties.dtype is torch.bfloat16


WRITER = """
import sys
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh
rank, size, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
dist.init_process_group("gloo", init_method=f"file://{folder}.rendezvous", rank=rank, world_size=size)
mesh = init_device_mesh("cpu", (size,))
whole = torch.arange(210.0).reshape(7, 6, 5)
model = {f"w{i}": distribute_tensor(whole * (i + 1), mesh, [p]) for i, p in enumerate([Replicate(), Shard(0), Shard(1), Shard(2)])}
state = {"model": model, "plain": torch.ones(3).half(), "step": 7, "list": [torch.tensor(2.0), {"a": 1}]}
dcp.save(state, checkpoint_id=folder)
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_what_ranks_of_pytorch_wrote_is_loaded(tmp_path):
    folder = str(tmp_path / "dcp")
    children = [subprocess.Popen([sys.executable, "-c", WRITER, str(rank), "2", folder], env={**os.environ}) for rank in range(2)]
    assert [child.wait(timeout=120) for child in children] == [0, 0]

    def load():
        here = programs.mesh()
        zeros = mt.zeros(*programs.SHAPE, device="cpu")
        state = {
            "model": {f"w{i}": distribute_tensor(zeros, here, programs.PLACEMENTS[i + 4]) for i in range(4)},
            "plain": mt.zeros(3, device="cpu"), "step": 0, "list": [mt.zeros((), device="cpu"), {"a": 0}],
        }  # fmt: skip
        checkpoint.load(state, checkpoint_id=folder)
        for i in range(4):
            assert state["model"][f"w{i}"].full_tensor().tolist() == programs.whole(i).tolist()
        assert (state["plain"].tolist(), state["step"], state["list"][0].item(), state["list"][1]) == ([1, 1, 1], 7, 2, {"a": 1})

    on_ranks(4, load)


def test_one_process_of_pytorch(tmp_path):
    import torch
    import torch.distributed.checkpoint as dcp

    turned = torch.arange(60.0).reshape(10, 6).t()
    dcp.save({"w": turned, "view": torch.arange(100.0)[10:20], "step": 3}, checkpoint_id=tmp_path)

    def load():
        mesh = init_device_mesh("cpu", (2,))
        state = {"w": distribute_tensor(mt.zeros(6, 10, device="cpu"), mesh, [Shard(1)]), "view": mt.zeros(10, device="cpu"), "step": 0}
        checkpoint.load(state, checkpoint_id=tmp_path)
        assert state["w"].full_tensor().tolist() == turned.tolist()
        assert state["view"].tolist() == list(range(10, 20)) and state["step"] == 3

    on_ranks(2, load)


def test_signatures_and_names_are_those_of_pytorch():
    import inspect

    import torch.distributed.checkpoint as theirs
    from torch.distributed.checkpoint import state_dict as their_states

    from metatensor.distributed.checkpoint import state_dict

    names = ["save", "load", "async_save", "save_state_dict", "load_state_dict", "FileSystemReader", "FileSystemWriter",
             "DefaultSavePlanner", "DefaultLoadPlanner"]  # fmt: skip
    pairs = [(getattr(checkpoint, name), getattr(theirs, name)) for name in names]
    pairs += [(getattr(state_dict, name), getattr(their_states, name)) for name in state_dict.__all__]
    for ours, other in pairs:
        assert list(inspect.signature(ours).parameters) == list(inspect.signature(other).parameters), ours
