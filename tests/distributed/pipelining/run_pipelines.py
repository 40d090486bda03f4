"""Train pipelines on this rank, and write losses and messages: mpiexec -n 4 python -m distributed.pipelining.run_pipelines DIR cpu.

Run it in the folder ``tests``.
"""

import json
import sys
from pathlib import Path

import metatensor as mt
from distributed.pipelining.models import trained
from metatensor import distributed as dist
from metatensor import nn
from metatensor.distributed import pipelining

KINDS = [("GPipe", 1), ("1F1B", 1), ("LoopedBFS", 2), ("Interleaved1F1B", 2), ("InterleavedZeroBubble", 2), ("ZBVZeroBubble", 2),
         ("DualPipeV", 2)]  # fmt: skip


def by_hand(device):
    """Stages made by hand, which tell each other the shapes of their outputs."""
    rank, size = dist.get_rank(), dist.get_world_size()
    mt.manual_seed(rank)
    with mt.device(device):
        module = nn.Linear(4 + rank, 5 + rank)
        x, target = mt.ones(8, 4), mt.zeros(8, 4 + size)
    stage = pipelining.PipelineStage(module, rank, size, device)
    schedule = pipelining.Schedule1F1B(stage, 4, nn.functional.mse_loss)
    for _ in range(2):
        losses = []
        schedule.step(*((x,) if rank == 0 else ()), target=target if rank == size - 1 else None, losses=losses)
    return [] if device == "meta" else [one.item() for one in losses]


def run(device="cpu"):
    """Return losses and messages of each pipeline."""
    found = {}
    dist.init_process_group()
    for name, each in KINDS:
        with dist.CommunicationLog() as log:
            losses, _ = trained(name, each, 20 if name == "1F1B" else 2, device=device)
        found[name] = losses, log.what()
    with dist.CommunicationLog() as log:
        found["by hand"] = by_hand(device), log.what()
    return found


if __name__ == "__main__":
    results = run(sys.argv[2])
    (Path(sys.argv[1]) / f"{dist.get_rank()}.json").write_text(json.dumps(results))
    dist.destroy_process_group()
