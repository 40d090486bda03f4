"""Train a small decoder in layouts of a plan: mpiexec -n 4 python -m plan.on_mpi FOLDER, in the folder ``tests``.

Each rank writes the losses and the communication of each layout to FOLDER/RANK.json.
"""

import json
import sys
from pathlib import Path

import metatensor as mt
from metatensor import distributed as dist
from metatensor.distributed import CommunicationLog
from metatensor.nn import functional as F
from metatensor.plan import Degrees
from plan.transformers_like import Decoder

BATCH, LENGTH, VOCABULARY, STEPS = 4, 8, 32, 3
SIZES = ((4, 1, 1, 1), (4, 1, 1, 3), (2, 2, 1, 2), (1, 4, 1, 0, True), (2, 1, 2, 1), (1, 2, 2))
LAYOUTS = [Degrees(*sizes, precision="fp32") for sizes in SIZES]


def loss(output, target):
    return F.cross_entropy(output.flatten(0, 1), target.flatten())


def decoder():
    return Decoder(width=32, depth=2, vocabulary=VOCABULARY)


def searched():
    with mt.device("meta"):
        return mt.plan.search(decoder(), mt.empty(1, LENGTH, dtype=mt.int64), devices="4xH100", global_batch=BATCH, precision="fp32",
                              schedules=["1F1B"], micro_batches=[1], recompute=["none"], keep=None)  # fmt: skip


def run(plan, degrees, device="cpu"):
    """Return the losses of a few steps on this rank, and the communication of the last one."""
    dist.init_process_group()
    mt.manual_seed(0)
    with mt.device(device):
        x, target = (mt.randint(0, VOCABULARY, (BATCH, LENGTH)) for _ in range(2))
        step = plan.apply(decoder(), loss=loss, optimizer=lambda ps: mt.optim.AdamW(ps, lr=0.01), which=degrees, device=device)
        own, losses = (step.own(x), step.own(target)), []
        for _ in range(STEPS):
            with CommunicationLog() as log:
                value = step.step(*own)
            losses.append(step.mean_loss(value))
    found = [[one.kind, one.bytes, list(one.group)] for one in log]
    dist.destroy_process_group()
    return [value.item() for value in losses] if device != "meta" else None, found


if __name__ == "__main__":
    dist.init_process_group()
    rank = dist.get_rank()
    dist.destroy_process_group()
    plan = searched()
    found = [run(plan, degrees) for degrees in LAYOUTS]
    (Path(sys.argv[1]) / f"{rank}.json").write_text(json.dumps(found))
