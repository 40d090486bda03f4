"""Train a tiny mixture-of-experts GPT whose batches, sequences and experts are divided among ranks.

    python examples/train_moe.py                                             # one process
    python examples/train_moe.py --simulate 4 --experts-over 4               # four ranks in this process
    python examples/train_moe.py --simulate 8 --context 2 --experts-over 4 --tensor 2
    python examples/train_moe.py --simulate 512 --context 8 --experts-over 8 --meta    # shapes and communication, no data
    mpiexec -n 4 python examples/train_moe.py --context 2 --experts-over 4   # four processes (needs metatensor-mpi)

Each prints the same losses, without --meta. The ranks form a mesh of "data" x "context" x "tensor": a batch is divided along the first
dimension, its sequences along the second, and each expert along the third. --experts-over ranks with different tokens
share the experts. With --log FILE every rank writes losses and communication as JSON to FILE.RANK.
"""

import argparse
import json

from train_ddp import BATCH, CONTEXT, GPT, VOCABULARY, WIDTH, Block

import metatensor as mt
from metatensor import distributed as dist
from metatensor import nn
from metatensor.distributed.tensor import DTensor, Shard, distribute_tensor
from metatensor.distributed.tensor.experimental import context_parallel
from metatensor.distributed.tensor.experimental._attention import set_rotate_method
from metatensor.distributed.tensor.parallel import ExpertParallel, ExpertTensorParallel, parallelize_module
from metatensor.nn import functional as F

EXPERTS, ACTIVE, HIDDEN = 8, 2, 64


class Experts(nn.Module):
    """Feed-forward networks with gates, one for each group of tokens."""

    def __init__(self):
        super().__init__()
        self.w1, self.w3 = (nn.Parameter(mt.randn(EXPERTS, HIDDEN, WIDTH) / WIDTH**0.5) for _ in range(2))
        self.w2 = nn.Parameter(mt.randn(EXPERTS, WIDTH, HIDDEN) / HIDDEN**0.5)

    def forward(self, tokens, num_tokens_per_expert):
        w1, w2, w3 = (one.to_local() if isinstance(one, DTensor) else one for one in (self.w1, self.w2, self.w3))
        ends = num_tokens_per_expert.cumsum(0, dtype=mt.int32)
        hidden = F.silu(F.grouped_mm(tokens, w1.mT, offs=ends)) * F.grouped_mm(tokens, w3.mT, offs=ends)
        return F.grouped_mm(hidden, w2.mT, offs=ends)


class MixtureOfExperts(nn.Module):
    """Each token goes to the experts with the highest scores."""

    def __init__(self):
        super().__init__()
        self.gate, self.experts = nn.Linear(WIDTH, EXPERTS, bias=False), Experts()

    def forward(self, x):
        tokens = x.reshape(-1, WIDTH)
        scores, chosen = self.gate(tokens).softmax(-1).topk(ACTIVE)
        counts = (chosen.reshape(-1, 1) == mt.arange(EXPERTS, device=x.device)).sum(0)
        order = chosen.flatten().argsort(stable=True)  # (token, choice) pairs, by expert
        rows = order // ACTIVE
        out = self.experts(tokens.index_select(0, rows), counts) * scores.flatten().index_select(0, order).unsqueeze(1)
        return mt.zeros_like(tokens).index_add(0, rows, out).view_as(x)


class SparseBlock(Block):
    def __init__(self):
        super().__init__()
        del self.hidden, self.out
        self.mixture = MixtureOfExperts()

    def feed_forward(self, x):
        return self.mixture(x)


def parallelize(model, device, data, context, tensor, experts_over):
    """Divide the experts; let DistributedDataParallel average the gradients of everything else."""
    ranks = mt.arange(data * context * tensor, device="cpu").reshape(-1, experts_over, tensor)
    mesh = dist.DeviceMesh(device, ranks, mesh_dim_names=("replicas", "experts", "tensor"))
    if tensor > 1:
        style = ExpertTensorParallel(reduce_op="avg")
    else:
        mesh, style = mesh["replicas", "experts"], ExpertParallel(reduce_op="avg")
    parallelize_module(model, mesh, {"blocks.*.mixture.experts": style})
    divided = [name for name, one in model.named_parameters() if isinstance(one, DTensor)]
    nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, divided)
    return nn.parallel.DistributedDataParallel(model)


def train(steps=20, device="cpu", context=1, tensor=1, experts_over=1, method="ring", rotate="allgather"):
    """Train on this rank's part of each batch. Return the losses of the whole batches and a log of the communication."""
    dist.init_process_group()
    data = dist.get_world_size() // (context * tensor)
    set_rotate_method(rotate)
    mt.manual_seed(0)
    with mt.device(device):
        model = GPT(SparseBlock)
    batches = mt.randint(VOCABULARY, (steps, max(BATCH, data), CONTEXT + 1), device=device)
    with dist.CommunicationLog() as log:
        mesh = dist.init_device_mesh(device, (data, context, tensor), mesh_dim_names=("data", "context", "tensor"))
        model = parallelize(model, device, data, context, tensor, experts_over)
        optimizer = mt.optim.AdamW(model.parameters(), lr=3e-3)
        losses = []
        for batch in batches:
            mine = distribute_tensor(batch, mesh["data"], [Shard(0)], src_data_rank=None).to_local()
            tokens, targets, places = mine[:, :-1], mine[:, 1:], mt.arange(CONTEXT, device=device)
            with context_parallel(mesh["context"], buffers=[tokens, targets, places], buffer_seq_dims=[1, 1, 0], method=method):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(tokens, places).flatten(0, 1), targets.flatten())
                loss.backward()
            optimizer.step()
            mean = loss.detach()
            dist.all_reduce(mean, dist.ReduceOp.AVG)
            if device != "meta":
                losses.append(mean.item())
    dist.destroy_process_group()
    return losses, log


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--simulate", type=int, default=1, metavar="RANKS", help="run this many ranks in one process")
    parser.add_argument("--meta", action="store_true", help="without data")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--context", type=int, default=1, metavar="RANKS", help="divide sequences")
    parser.add_argument("--tensor", type=int, default=1, metavar="RANKS", help="divide each expert")
    parser.add_argument("--experts-over", type=int, default=1, metavar="RANKS", help="divide the experts")
    parser.add_argument("--method", choices=["ring", "ulysses"], default="ring", help="how attention runs over sequences")
    parser.add_argument("--rotate", choices=["allgather", "alltoall"], default="allgather", help="how keys travel in a ring")
    parser.add_argument("--log", metavar="FILE", help="write losses and communication as JSON")
    given = parser.parse_args()
    options = [given.steps, "meta" if given.meta else "cpu", given.context, given.tensor, given.experts_over, given.method, given.rotate]
    if dist.is_available():  # mpiexec has started this process
        results = [train(*options)]
    else:
        results = dist.sim.run(train, *options, world_size=given.simulate, ranks="groups" if given.meta else "all")
    for losses, log in results:
        rank = log[0].rank
        if rank == 0:
            print("losses", " ".join(f"{loss:.4f}" for loss in losses))
            print("bytes communicated by rank 0:", log.bytes_by_kind())
        if given.log:
            with open(f"{given.log}.{rank}", "w", encoding="utf-8") as file:
                json.dump({"losses": losses, "log": log.what()}, file)


if __name__ == "__main__":
    main()
