"""Train the GPT of train_ddp.py with fully_shard: parameters, gradients and optimizer states are sharded.

    python examples/train_fsdp.py                              # one process
    python examples/train_fsdp.py --simulate 4                 # four ranks in this process
    python examples/train_fsdp.py --simulate 512 --meta        # shapes and communication of 512 ranks, no data
    mpiexec -n 4 python examples/train_fsdp.py                 # four processes (needs metatensor-mpi)

Each rank creates only its parts of the parameters. The losses are those of train_ddp.py.
"""

import train_ddp
from train_ddp import GPT, train_on_batches

import metatensor as mt
from metatensor import distributed as dist
from metatensor.distributed.fsdp import fully_shard


def train(steps=20, device="cpu"):
    """Train on this rank's part of each batch. Return the losses of the whole batches and a log of the communication."""
    dist.init_process_group()
    mt.manual_seed(0)
    mesh = dist.init_device_mesh(device, (dist.get_world_size(),))
    with mt.deferred_init(), mt.device(device):
        model = GPT()
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    if device != "meta":
        mt.materialize(model)
    return train_on_batches(model, steps, device)


if __name__ == "__main__":
    train_ddp.main(train)
