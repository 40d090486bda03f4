"""Train a tiny GPT with DistributedDataParallel: on simulated ranks, or on the processes that mpiexec starts.

    python examples/train_ddp.py                            # one process
    python examples/train_ddp.py --simulate 4               # four ranks in this process
    python examples/train_ddp.py --simulate 512 --meta      # shapes and communication of 512 ranks, no data
    mpiexec -n 4 python examples/train_ddp.py               # four processes (needs metatensor-mpi)

Each prints the same losses. With --log FILE every rank writes losses and communication as JSON to FILE.RANK.
"""

import argparse
import json

import metatensor as mt
from metatensor import distributed as dist
from metatensor import nn
from metatensor.nn import functional as F

VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS, BATCH = 32, 16, 32, 4, 2, 8


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
        return x + self.feed_forward(self.norm2(x))

    def feed_forward(self, x):
        return self.out(F.gelu(self.hidden(x)))


class GPT(nn.Module):
    def __init__(self, block=Block):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens, places=None):
        x = self.tokens(tokens) + self.places(mt.arange(tokens.shape[1], device=tokens.device) if places is None else places)
        return self.head(self.norm(self.blocks(x)))


def train(steps=20, device="cpu"):
    """Train on this rank's part of each batch. Return the losses of the whole batches, a log of the communication, and the rank."""
    dist.init_process_group()
    mt.manual_seed(0)
    with mt.device(device):
        model = GPT()
    return train_on_batches(model, steps, device, nn.parallel.DistributedDataParallel)


def train_on_batches(model, steps, device, parallelize=lambda model: model):
    """Train a parallelized model. Return the same as `train`."""
    rank, size = dist.get_rank(), dist.get_world_size()
    data = mt.randint(VOCABULARY, (steps, max(BATCH, size), CONTEXT + 1), device=device)
    with dist.CommunicationLog() as log:
        model = parallelize(model)
        optimizer = mt.optim.AdamW(model.parameters(), lr=3e-3)
        losses = []
        for batch in data:
            mine = batch[rank::size]
            optimizer.zero_grad()
            loss = F.cross_entropy(model(mine[:, :-1]).flatten(0, 1), mine[:, 1:].flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            mean = loss.detach()
            dist.all_reduce(mean, dist.ReduceOp.AVG)
            if device != "meta":
                losses.append(mean.item())
    dist.destroy_process_group()
    return losses, log, rank


def main(train=train):
    parser = argparse.ArgumentParser()
    parser.add_argument("--simulate", type=int, default=1, metavar="RANKS", help="run this many ranks in one process")
    parser.add_argument("--meta", action="store_true", help="without data")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--log", metavar="FILE", help="write losses and communication as JSON")
    given = parser.parse_args()
    device = "meta" if given.meta else "cpu"
    if dist.is_available():  # mpiexec has started this process
        results = [train(given.steps, device)]
    else:
        results = dist.sim.run(train, given.steps, device, world_size=given.simulate)
    for losses, log, rank in results:
        if rank == 0:
            print("losses", " ".join(f"{loss:.4f}" for loss in losses))
            print("bytes communicated by rank 0:", log.bytes_by_kind())
        if given.log:
            with open(f"{given.log}.{rank}", "w", encoding="utf-8") as file:
                json.dump({"losses": losses, "log": log.what()}, file)


if __name__ == "__main__":
    main()
