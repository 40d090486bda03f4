"""Train small models in the fastest layout of their plans: mpiexec -n 4 python -m plan.chosen_on_mpi FOLDER, in the folder ``tests``.

Each rank writes losses, the communication of the last step and its memory to FOLDER/RANK.json.
"""

import json
import sys
from pathlib import Path

import metatensor as mt
from metatensor import distributed as dist
from metatensor import nn
from metatensor._core.memory import MemoryTracker
from metatensor.distributed import CommunicationLog
from metatensor.nn import functional as F
from plan.mixtures import SparseLayer
from plan.transformers_like import Decoder, Layer

BATCH, LENGTH, VOCABULARY, STEPS = 16, 32, 64, 3


class VisionTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches, self.layers = nn.Conv2d(3, 64, 8, 8), nn.ModuleList([Layer(64) for _ in range(4)])
        self.norm, self.head = nn.LayerNorm(64), nn.Linear(64, 10)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x).mean(1))


def tokens(n):
    return mt.randint(0, VOCABULARY, (n, LENGTH))


MODELS = {
    "dense": (lambda: Decoder(width=64, depth=4, vocabulary=VOCABULARY), tokens, tokens),
    "experts": (lambda: Decoder(width=64, depth=4, vocabulary=VOCABULARY, layer=SparseLayer), tokens, tokens),
    "vision": (VisionTransformer, lambda n: mt.randn(n, 3, 32, 32), lambda n: mt.randint(0, 10, (n,))),
}
"""What makes a model, and its samples and targets."""


def loss(output, target):
    return F.cross_entropy(output.flatten(0, -2), target.flatten())


def chosen(name):
    """Return the plan of a model. Its kernels are those of the cpu."""
    make, samples, targets = MODELS[name]
    with mt.device("meta"), mt.analysis.policy("meta"):
        known = {n: targets(n) for n in (1, 2, 4, 8, 16)}
        return mt.plan.search(make(), samples(1), devices="4xH100", global_batch=BATCH, precision="fp32", optimizer="sgd",
                              loss=lambda output, n: loss(output, known[n]))  # fmt: skip


def made(name, device):
    """Return the samples and the targets of a step, the same on each rank."""
    _, samples, targets = MODELS[name]
    mt.manual_seed(1)
    with mt.device(device):
        return samples(BATCH), targets(BATCH)


def run(plan, name, device="cpu"):
    """Return the place of this rank in the pipeline, the losses of a few steps, and the communication and memory of the last one."""
    dist.init_process_group()
    batch = made(name, device)
    mt.manual_seed(0)
    with mt.device(device), mt.analysis.policy("meta"):
        step = plan.apply(MODELS[name][0](), loss=loss, optimizer=lambda ps: mt.optim.SGD(ps, lr=0.1), device=device)
        own, losses = [step.own(one) for one in batch], []
        for _ in range(STEPS):
            with CommunicationLog() as log, MemoryTracker() as memory:
                value = step.step(*own)
            losses.append(step.mean_loss(value))
    found = [[one.kind, one.bytes, list(one.group)] for one in log]
    place = step.mesh.get_local_rank("pipeline")
    dist.destroy_process_group()
    return place, [value.item() for value in losses] if device != "meta" else None, found, memory.peak


if __name__ == "__main__":
    dist.init_process_group()
    rank = dist.get_rank()
    dist.destroy_process_group()
    found = {name: run(chosen(name), name) for name in MODELS}
    (Path(sys.argv[1]) / f"{rank}.json").write_text(json.dumps(found))
