"""What ranks save and load, for simulated ranks and for processes of MPI.

    mpiexec -n 2 python -m distributed.checkpoint.programs PROGRAM FOLDER    (in the folder ``tests``)
"""

import itertools
import os
import signal
import sys
import threading

import metatensor as mt
from metatensor import distributed as dist
from metatensor.distributed import checkpoint
from metatensor.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh
from metatensor.distributed.tensor.placement_types import _StridedShard

R = Replicate()
PLACEMENTS = [
    [R, R], [Shard(0), R], [R, Shard(0)], [Shard(1), R], [Shard(0), Shard(1)], [Shard(1), Shard(0)], [Shard(0), Shard(0)],
    [_StridedShard(0, split_factor=2), Shard(0)], [R, Shard(2)],
]  # fmt: skip
SHAPE = (7, 6, 5)  # uneven on any mesh


def whole(number, scale=1.0):
    """Return the tensor that is saved for the placements with a number."""
    return mt.arange(210.0, device="cpu").reshape(SHAPE) * (number + 1) * scale


def mesh():
    """Return a mesh of two dimensions with all ranks."""
    size = dist.get_world_size()
    return init_device_mesh("cpu", (2, size // 2) if size % 2 == 0 else (1, size))


def state(shift=0, scale=1.0):
    """Return a state dict in which the tensor with a number has the placements with that number plus ``shift``."""
    here = mesh()
    placements = PLACEMENTS[shift:] + PLACEMENTS[:shift]
    model = {f"w{i}": distribute_tensor(whole(i, scale), here, given) for i, given in enumerate(placements)}
    return {
        "model": model, "step": round(7 * scale), "half": mt.ones(3, device="cpu", dtype=mt.bfloat16) * scale,
        "lists": [distribute_tensor(mt.tensor(scale), here, [R, R]), {"betas": (0.9, 0.99)}],
        "empty": distribute_tensor(mt.empty(0, 3, device="cpu"), here, PLACEMENTS[1]),
    }  # fmt: skip


def cleared(found):
    """Set all values of a state dict to others."""
    for tensor in [*found["model"].values(), found["half"], found["lists"][0]]:
        tensor.zero_()
    found["step"] = found["lists"][1]["betas"] = None
    return found


def check(found, scale=1.0):
    """Check the values of a state dict."""
    for i in range(len(PLACEMENTS)):
        assert found["model"][f"w{i}"].full_tensor().tolist() == whole(i, scale).tolist(), i
    assert found["half"].tolist() == [scale] * 3 and found["half"].dtype is mt.bfloat16
    assert (found["step"], found["lists"][0].item(), found["lists"][1]) == (round(7 * scale), scale, {"betas": (0.9, 0.99)})


def save(folder, scale=1.0):
    """Save a state dict."""
    checkpoint.save(state(0, scale), checkpoint_id=folder)


def save_later(folder):
    """Save in threads, while the ranks communicate."""
    found = state()
    done = checkpoint.async_save(found, checkpoint_id=folder)
    cleared(found)
    for _ in range(20):
        dist.all_reduce(mt.ones(3))
    done.result(60)
    dist.barrier()


def load(folder):
    """Load it with all other placements."""
    for shift in range(len(PLACEMENTS)):
        found = cleared(state(shift))
        checkpoint.load(found, checkpoint_id=folder)
        check(found)


def load_into(folder):
    """Load a part of a safetensors file into distributed parameters."""
    from .counting import counted

    path = os.path.join(folder, "model.safetensors")
    weight = mt.arange(256.0 * 1024, device="cpu").reshape(256, 1024)
    if dist.get_rank() == 0:
        mt.save({"weight": weight, "bias": mt.ones(256, device="cpu")}, path)
    dist.barrier()
    for placements in ([Shard(0), Shard(0)], [Shard(1), Shard(1)], [Shard(0), Shard(1)]):
        model = mt.nn.Linear(1024, 256, device="meta")
        model.weight = mt.nn.Parameter(distribute_tensor(model.weight.detach(), mesh(), placements))
        model.bias = mt.nn.Parameter(distribute_tensor(model.bias.detach(), mesh(), [R, R]))
        with counted() as reads:
            mt.load_into(model, path)
        needed = weight.nbytes // dist.get_world_size() + 1024
        assert needed <= reads.total() < needed + 2000, (reads.total(), needed)
        assert model.weight.full_tensor().tolist() == weight.tolist()


class Failing(checkpoint.DefaultSavePlanner):
    """A planner that fails on the last rank, after some items."""

    def resolve_data(self, write_item):
        if dist.get_rank() == dist.get_world_size() - 1 and write_item.index.fqn == "model.w4":
            self.fail()
        return super().resolve_data(write_item)

    def fail(self):
        raise OSError("no space left")


def fail(folder):
    """Fail on one rank."""
    save(folder)
    try:
        checkpoint.save(state(0, 2.0), checkpoint_id=folder, planner=Failing())
    except checkpoint.CheckpointException as error:
        last = dist.get_world_size() - 1
        assert list(error.failures) == [last] and f"rank {last}: OSError" in str(error), error
    else:
        raise AssertionError("the failure of one rank was not noticed")
    load(folder)


class Dying(Failing):
    """A planner that kills the last rank."""

    def fail(self):
        os.kill(os.getpid(), signal.SIGKILL)


def die(folder):
    """Die on one rank, with a checkpoint in the folder."""
    save(folder)
    checkpoint.save(state(0, 2.0), checkpoint_id=folder, planner=Dying())
    print("not reached")


def generations(folder, first, seconds):
    """Save generations, and print the number of each when it is complete. After some seconds, the last rank is killed."""
    if dist.get_rank() == dist.get_world_size() - 1:
        threading.Timer(float(seconds), lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
    for generation in itertools.count(int(first)):
        save(folder, float(generation))
        if dist.get_rank() == 0:
            print(generation, flush=True)


def main():
    """Run a program on this process."""
    program, folder, *rest = sys.argv[1:]
    dist.init_process_group()
    globals()[program](folder, *rest)
    dist.barrier()
    if dist.get_rank() == 0:
        print("passed", dist.get_world_size(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
