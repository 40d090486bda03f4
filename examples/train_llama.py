"""Train Llama with data, tensor and pipeline parallelism together: on simulated ranks, or on the processes that mpiexec starts.

    python examples/train_llama.py --model 405b --mesh pp=8,dp=8,tp=8      # 512 simulated ranks, no data: seconds on a laptop
    python examples/train_llama.py --mesh dp=2,tp=2 --cpu                  # 4 simulated ranks with data, a tiny model
    mpiexec -n 4 python examples/train_llama.py --mesh dp=2,tp=2 --cpu     # 4 processes (needs metatensor-mpi), the same losses

"dp" shards parameters, gradients and optimizer states (fully_shard), "tp" the matrix products and the sequence, "pp" the layers.
"""

import argparse
import math

from llama3 import Block, Config, RopeScaling, rotations

import metatensor as mt
from metatensor import distributed as dist
from metatensor import nn
from metatensor.distributed.fsdp import fully_shard
from metatensor.distributed.pipelining import PipelineStage, Schedule1F1B
from metatensor.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from metatensor.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from metatensor.nn import functional as F

MODELS = {
    "tiny": Config(layers=4, heads=4, kv_heads=2, width=32, hidden=64, vocabulary=64),
    "8b": Config(),
    "70b": Config(layers=80, heads=64, width=8192, hidden=28672),
    "405b": Config(layers=126, heads=128, width=16384, hidden=53248, rope_scaling=RopeScaling()),
}


class Stage(nn.Module):
    """Some consecutive layers of the model. The first stage has the embedding, the last one the head."""

    def __init__(self, config, length):
        super().__init__()
        self.config, self.length = config, length
        self.embed_tokens = nn.Embedding(config.vocabulary, config.width)
        self.layers = nn.ModuleDict({str(i): Block(config) for i in range(config.layers)})
        self.norm = nn.RMSNorm(config.width, eps=config.norm_eps)
        self.lm_head = nn.Linear(config.width, config.vocabulary, bias=False)

    def keep(self, index, count):
        """Remove what belongs to other stages."""
        here = range(index * len(self.layers) // count, (index + 1) * len(self.layers) // count)
        self.layers = nn.ModuleDict({str(i): self.layers[str(i)] for i in here})
        if index > 0:
            self.embed_tokens = None
        if index < count - 1:
            self.norm = self.lm_head = None

    def forward(self, x):
        x = x if self.embed_tokens is None else self.embed_tokens(x)
        cos, sin = rotations(self.config, self.length, x)
        for layer in self.layers.values():
            x = layer(x, cos, sin)
        return x if self.norm is None else self.lm_head(self.norm(x))


def tensor_parallel(stage, mesh):
    """Shard the matrix products over the ranks of a mesh of one dimension, and the sequence between them."""
    if stage.embed_tokens is not None:
        plan = {"embed_tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1))}
        parallelize_module(stage, mesh, plan, src_data_rank=None)
    if stage.lm_head is not None:
        plan = {"norm": SequenceParallel(), "lm_head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())}
        parallelize_module(stage, mesh, plan, src_data_rank=None)
    whole = PrepareModuleInput(input_layouts=(Shard(1), None, None), desired_input_layouts=(Replicate(), None, None))
    for block in stage.layers.values():
        parallelize_module(block, mesh, {
            "input_layernorm": SequenceParallel(),
            "self_attn": whole,
            "self_attn.q_proj": ColwiseParallel(), "self_attn.k_proj": ColwiseParallel(), "self_attn.v_proj": ColwiseParallel(),
            "self_attn.o_proj": RowwiseParallel(output_layouts=Shard(1)),
            "post_attention_layernorm": SequenceParallel(),
            "mlp": PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate()),
            "mlp.gate_proj": ColwiseParallel(), "mlp.up_proj": ColwiseParallel(),
            "mlp.down_proj": RowwiseParallel(output_layouts=Shard(1)),
        }, src_data_rank=None)  # fmt: skip


def loss_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def clip_gradients(stage, pp, limit=1.0):
    """Scale the gradients of all stages so that their norm is at most `limit`."""
    norm = nn.utils.get_total_norm([p.grad for p in stage.parameters()])
    norm = norm.full_tensor() if isinstance(norm, DTensor) else norm
    square = norm**2
    dist.all_reduce(square, group=pp.get_group())
    nn.utils.clip_grads_with_norm_(stage.parameters(), limit, square.sqrt())


def train(config, sizes, device="cpu", length=16, batch=8, microbatches=4, steps=20):
    """Train on random tokens. Return the losses of the whole batches (on ranks of the last stage), and a log of the communication.

    `sizes` are those of the mesh, by the name of the dimension. A batch has `batch` sequences of `length` tokens.
    """
    dist.init_process_group()
    mesh = dist.init_device_mesh(device, (sizes.get("pp", 1), sizes.get("dp", 1), sizes.get("tp", 1)), mesh_dim_names=("pp", "dp", "tp"))
    pp, dp, tp = mesh["pp"], mesh["dp"], mesh["tp"]
    mt.manual_seed(0)
    with mt.device("meta") if device == "meta" else mt.deferred_init(), mt.device(device):
        stage = Stage(config, length)
    tokens = mt.randint(config.vocabulary, (steps, batch, length + 1), device=device)
    stage.keep(pp.get_local_rank(), pp.size())
    with dist.CommunicationLog() as log:
        if tp.size() > 1:
            tensor_parallel(stage, tp)
        for block in stage.layers.values():
            fully_shard(block, mesh=dp, reshard_after_forward=pp.size() == 1)
        fully_shard(stage, mesh=dp, reshard_after_forward=pp.size() == 1)
        if device != "meta":
            mt.materialize(stage)  # only the parts of this rank
        optimizer = mt.optim.AdamW(stage.parameters(), lr=3e-3)
        first, last = pp.get_local_rank() == 0, pp.get_local_rank() == pp.size() - 1
        tokens = distribute_tensor(tokens, dp, [Shard(1)], src_data_rank=None).to_local()  # this rank's sequences
        losses, part = [], batch // dp.size()
        # What one stage sends to the next. It can be learned by sending, but not if other stages are not run (ranks="groups").
        between = mt.empty(part // microbatches, length // tp.size(), config.width, device="meta")
        received = tokens[0, : part // microbatches, :-1] if first else between
        sent = mt.empty(part // microbatches, length, config.vocabulary, device="meta") if last else between
        part_of_pipeline = PipelineStage(stage, pp.get_local_rank(), pp.size(), device, received, sent, group=pp.get_group())
        schedule = Schedule1F1B(part_of_pipeline, microbatches, loss_of)
        for mine in tokens:
            optimizer.zero_grad()
            found = []
            schedule.step(*[mine[:, :-1]] if first else [], target=mine[:, 1:] if last else None, losses=found)
            clip_gradients(stage, pp)
            optimizer.step()
            if last:
                mean = mt.stack(found).mean()
                dist.all_reduce(mean, dist.ReduceOp.AVG, dp.get_group())
                if device != "meta":
                    losses.append(mean.item())
    dist.destroy_process_group()
    return losses, log


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="tiny")
    parser.add_argument("--mesh", default="dp=2,tp=2", help="sizes of pp, dp and tp")
    parser.add_argument("--cpu", action="store_true", help="with data")
    parser.add_argument("--length", type=int, default=16, help="tokens of a sequence")
    parser.add_argument("--batch", type=int, default=8, help="sequences of a step")
    parser.add_argument("--microbatches", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20)
    given = parser.parse_args()
    sizes = {name: int(size) for name, size in (part.split("=") for part in given.mesh.split(","))}
    arguments = (MODELS[given.model], sizes, "cpu" if given.cpu else "meta", given.length, given.batch, given.microbatches, given.steps)
    if dist.is_available():  # mpiexec has started this process
        results = [train(*arguments)]
    else:
        results = dist.sim.run(train, *arguments, world_size=math.prod(sizes.values()), ranks="all" if given.cpu else "groups")
    for losses, _ in results:
        if losses:
            print("losses", " ".join(f"{loss:.4f}" for loss in losses))
            break
    print("bytes communicated by the first rank:", results[0][1].bytes_by_kind())


if __name__ == "__main__":
    main()
