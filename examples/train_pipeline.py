"""Train a tiny GPT as a pipeline: on simulated ranks, or on the processes that mpiexec starts.

    python examples/train_pipeline.py                                       # one process
    python examples/train_pipeline.py --simulate 4 --schedule 1F1B          # four stages on four ranks of this process
    python examples/train_pipeline.py --simulate 4 --replicas 2             # two stages, each on two ranks that average gradients
    python examples/train_pipeline.py --simulate 64 --meta --layers 64 --microbatches 64   # 64 ranks without data
    mpiexec -n 4 python examples/train_pipeline.py --schedule ZBVZeroBubble # four processes (needs metatensor-mpi)

Each prints the same losses. With --log FILE every rank writes losses and communication as JSON to FILE.RANK.
"""

import argparse
import json

import metatensor as mt
from metatensor import distributed as dist
from metatensor import nn
from metatensor.distributed import pipelining
from metatensor.nn import functional as F

VOCABULARY, CONTEXT, WIDTH, HEADS, BATCH = 32, 16, 32, 4, 32


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention_in, self.attention_out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.hidden, self.out = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.attention_in(self.norm1(x)).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attention_out(attended.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.out(F.gelu(self.hidden(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight  # the first and the last stage share it

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places(mt.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.norm(self.blocks(x)))


def loss_of(logits, target):
    return F.cross_entropy(logits.flatten(0, 1), target.flatten())


def train(steps=20, device="cpu", schedule="1F1B", microbatches=8, replicas=1, layers=8):
    """Train the stages of this rank. Return the losses of whole batches (on the ranks of the last stage), a log, the schedule, the rank."""
    dist.init_process_group()
    mesh = dist.init_device_mesh(device, (dist.get_world_size() // replicas, replicas), mesh_dim_names=("pp", "dp"))
    ranks, rank, replica = mesh["pp"].size(), mesh.get_local_rank("pp"), mesh.get_local_rank("dp")
    mt.manual_seed(0)
    with mt.deferred_init(), mt.device(device):
        model = GPT(layers)
    size = max(BATCH, microbatches * replicas)
    tokens = mt.randint(VOCABULARY, (steps, size, CONTEXT + 1), device=device)
    kind = pipelining.get_schedule_class(schedule)
    table = kind.table(ranks, microbatches)
    numbers = sorted({part.stage_index for action in table[rank] for part in action.parts})

    part = size // replicas
    example = tokens[0, : part // microbatches, :-1]
    pipe = pipelining.pipeline(model, (example,), split_policy=pipelining.balanced_stages(ranks * len(numbers)))
    with dist.CommunicationLog() as log:
        stages = [pipe.build_stage(number, device, mesh["pp"].get_group()) for number in numbers]
        for stage in stages:
            if device != "meta":
                mt.materialize(stage.submod)  # the parameters of the other stages are never computed
            if replicas > 1:
                stage.submod = nn.parallel.DistributedDataParallel(stage.submod, process_group=mesh["dp"].get_group())
        run = kind(stages[0] if len(stages) == 1 else stages, microbatches, loss_of)
        optimizer = mt.optim.AdamW([one for stage in stages for one in stage.submod.parameters()], lr=3e-3)
        losses = []
        for batch in tokens:
            mine = batch[replica * part : (replica + 1) * part]
            optimizer.zero_grad()
            found = []
            batch = (mine[:, :-1],) if 0 in numbers else ()
            run.step(*batch, target=mine[:, 1:] if pipe.num_stages - 1 in numbers else None, losses=found, return_outputs=False)
            optimizer.step()
            if found:
                mean = mt.stack(found).mean()
                dist.all_reduce(mean, dist.ReduceOp.AVG, mesh["dp"].get_group())
                if device != "meta":
                    losses.append(mean.item())
    world_rank = dist.get_rank()
    dist.destroy_process_group()
    return losses, log, run, world_rank


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--simulate", type=int, default=1, metavar="RANKS", help="run this many ranks in one process")
    parser.add_argument("--meta", action="store_true", help="without data")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--schedule", default="1F1B")
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--replicas", type=int, default=1, help="ranks on which each stage is")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--log", metavar="FILE", help="write losses and communication as JSON")
    given = parser.parse_args()
    options = given.steps, "meta" if given.meta else "cpu", given.schedule, given.microbatches, given.replicas, given.layers
    if dist.is_available():  # mpiexec has started this process
        results = [train(*options)]
    else:
        results = dist.sim.run(train, *options, world_size=given.simulate)
    for losses, log, run, rank in results:
        if losses:
            print("losses", " ".join(f"{loss:.4f}" for loss in losses))
        if rank == 0:
            times = run.timeline()
            held = [times.in_flight(one) for one in range(run.pp_group_size)]
            print(f"{run!r}\nbubble {times.bubble_fraction:.1%}, activations of microbatches held by each rank: {held}")
            print("bytes communicated by the first rank:", log.bytes_by_kind())
        if given.log:
            with open(f"{given.log}.{rank}", "w", encoding="utf-8") as file:
                json.dump({"losses": losses, "log": log.what()}, file)


if __name__ == "__main__":
    main()
