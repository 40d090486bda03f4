"""Train a small GPT and a small mixture-of-experts model under each parallelism: mpiexec -n 4 python -m distributed.training FOLDER.

Run it in the folder ``tests``. Each rank writes the losses and the communication of each run to FOLDER/RANK.json.
"""

import json
import sys
from pathlib import Path

import metatensor as mt
from metatensor import distributed as dist
from metatensor import nn
from metatensor.distributed.fsdp import fully_shard
from metatensor.distributed.pipelining import PipelineStage, Schedule1F1B
from metatensor.distributed.tensor import DTensor, Shard, distribute_tensor
from metatensor.distributed.tensor.experimental import context_parallel
from metatensor.distributed.tensor.parallel import (
    ColwiseParallel,
    ExpertParallel,
    ExpertTensorParallel,
    RowwiseParallel,
    parallelize_module,
)
from metatensor.nn import functional as F

VOCABULARY, LENGTH, WIDTH, HEADS, EXPERTS, ACTIVE, BATCH, MICROBATCHES = 16, 16, 16, 4, 4, 2, 8, 4
STEPS = 20

# The sizes of the mesh, the ranks that share experts, and whether parameters are sharded (fully_shard) instead of copied (DDP).
LAYOUTS = {
    "gpt": {
        2: {
            "DDP": {"dp": 2}, "FSDP": {"dp": 2, "shard": True}, "TP": {"tp": 2}, "PP": {"pp": 2}, "CP": {"cp": 2},
            "FSDP + CP": {"cp": 2, "shard": True},
        },
        4: {
            "DDP": {"dp": 4}, "FSDP": {"dp": 4, "shard": True}, "TP": {"tp": 4}, "PP": {"pp": 4}, "CP": {"cp": 4},
            "FSDP + TP": {"dp": 2, "tp": 2, "shard": True}, "PP + DDP": {"pp": 2, "dp": 2}, "PP + FSDP": {"pp": 2, "dp": 2, "shard": True},
            "FSDP + TP + CP": {"tp": 2, "cp": 2, "shard": True},
        },
    },
    "moe": {
        2: {
            "DDP": {"dp": 2}, "FSDP": {"dp": 2, "shard": True}, "TP": {"tp": 2}, "PP": {"pp": 2}, "CP": {"cp": 2}, "EP": {"dp": 2, "ep": 2},
            "FSDP + EP": {"dp": 2, "ep": 2, "shard": True}, "CP + EP": {"cp": 2, "ep": 2},
        },
        4: {
            "DDP": {"dp": 4}, "FSDP": {"dp": 4, "shard": True}, "TP": {"tp": 4}, "PP": {"pp": 4}, "CP": {"cp": 4}, "EP": {"dp": 4, "ep": 4},
            "FSDP + EP": {"dp": 4, "ep": 2, "shard": True}, "PP + EP": {"pp": 2, "dp": 2, "ep": 2},
            "FSDP + TP + EP": {"dp": 2, "tp": 2, "ep": 2, "shard": True},
        },
    },
}  # fmt: skip


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Parameter(mt.randn(EXPERTS, 2 * WIDTH, WIDTH) / 4)
        self.w2 = nn.Parameter(mt.randn(EXPERTS, WIDTH, 2 * WIDTH) / 4)

    def forward(self, tokens, num_tokens_per_expert):
        w1, w2 = (one.to_local() if isinstance(one, DTensor) else one for one in (self.w1, self.w2))
        ends = num_tokens_per_expert.cumsum(0, dtype=mt.int32)
        return F.grouped_mm(F.gelu(F.grouped_mm(tokens, w1.mT, offs=ends)), w2.mT, offs=ends)


class Mixture(nn.Module):
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


class Block(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        if model == "moe":
            self.mlp = Mixture()
        else:
            self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        batch, length, _ = x.shape
        normal = self.norm1(x)
        q, k, v = (one(normal).view(batch, length, -1, WIDTH // HEADS).transpose(1, 2) for one in (self.q, self.k, self.v))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(attended.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class Decoder(nn.Module):
    """The whole model, or a stage of it."""

    def __init__(self, model, layers):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleDict({str(i): Block(model) for i in range(layers)})
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def keep(self, index, count):
        """Remove what belongs to other stages."""
        layers = len(self.blocks)
        self.blocks = nn.ModuleDict({str(i): self.blocks[str(i)] for i in range(index * layers // count, (index + 1) * layers // count)})
        if index > 0:
            self.tokens = self.places = None
        if index < count - 1:
            self.norm = self.head = None

    def forward(self, x, places=None):
        if self.tokens is not None:
            x = self.tokens(x) + self.places(mt.arange(x.shape[1], device=x.device) if places is None else places)
        for block in self.blocks.values():
            x = block(x)
        return x if self.head is None else self.head(self.norm(x))


def loss_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def parallelize(decoder, model, mesh, ep, shard):
    """Divide a model, or a stage of it, among the ranks of the mesh dimensions "dp", "cp" and "tp"."""
    tp, data, size = mesh["tp"], mesh["dp", "cp"]._flatten("data"), mesh.size() // mesh["pp"].size()
    divided = model == "moe" and (ep > 1 or tp.size() > 1)
    names = ("pp", "replicas", "experts", "tensor")
    sizes = (mesh["pp"].size(), size // tp.size() // ep, ep, tp.size())
    experts = dist.init_device_mesh(mesh.device_type, sizes, mesh_dim_names=names) if divided else None
    for block in decoder.blocks.values():
        if tp.size() > 1:
            plan = {"q": ColwiseParallel(), "k": ColwiseParallel(), "v": ColwiseParallel(), "o": RowwiseParallel()}
            mlp = {"mlp.0": ColwiseParallel(), "mlp.2": RowwiseParallel()} if model == "gpt" else {}
            parallelize_module(block, tp, plan | mlp)
        if divided:
            style = ExpertTensorParallel if tp.size() > 1 else ExpertParallel
            where = experts["replicas", "experts", "tensor"] if tp.size() > 1 else experts["replicas", "experts"]
            if shard:
                where = where[where.mesh_dim_names[1:]]  # fully_shard reduces over the replicas
            parallelize_module(block.mlp.experts, where, style(reduce_op="sum" if shard else "avg"))
        if shard:
            if divided:
                fully_shard(block.mlp.experts, mesh=experts["replicas"]).set_gradient_divide_factor(data.size())
            fully_shard(block, mesh=data)
    if shard:
        return fully_shard(decoder, mesh=data)
    if data.size() == 1:
        return decoder
    own = [name for name, one in decoder.named_parameters() if isinstance(one, DTensor)]
    nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(decoder, own)
    return nn.parallel.DistributedDataParallel(decoder, process_group=data.get_group())


def layers_for(pp=1, **_):
    """Return how many layers the model has: at least one for each stage."""
    return max(2, pp)


def train(model, device="cpu", layers=2, *, pp=1, dp=1, cp=1, tp=1, ep=1, shard=False):
    """Train on this rank's part of each batch, in a connected world. Return the losses of the whole batches and a log.

    Only ranks of the last stage have losses.
    """
    mt.manual_seed(0)
    with mt.device(device):
        decoder = Decoder(model, layers)
        batches = mt.randint(VOCABULARY, (BATCH, LENGTH + 1)).repeat(STEPS, 1, 1)  # learned by heart
    with dist.CommunicationLog() as log:
        mesh = dist.init_device_mesh(device, (pp, dp, cp, tp), mesh_dim_names=("pp", "dp", "cp", "tp"))
        stage = mesh.get_local_rank("pp")
        decoder.keep(stage, pp)
        parallel = parallelize(decoder, model, mesh, ep, shard)
        optimizer = mt.optim.AdamW(decoder.parameters(), lr=1e-2)
        batches = distribute_tensor(batches, mesh["dp"], [Shard(1)], src_data_rank=None).to_local()
        schedule = pipeline(parallel, stage, mesh, batches.shape[1] // MICROBATCHES, device) if pp > 1 else None
        losses = []
        for batch in batches:
            tokens, targets, places, found = batch[:, :-1], batch[:, 1:], mt.arange(LENGTH, device=device), []
            optimizer.zero_grad()
            if schedule is not None:
                schedule.step(*[tokens] if stage == 0 else [], target=targets if stage == pp - 1 else None, losses=found)
            else:
                with context_parallel(mesh["cp"], buffers=[tokens, targets, places], buffer_seq_dims=[1, 1, 0]):
                    found.append(loss_of(parallel(tokens, places), targets))
                    found[0].backward()
            optimizer.step()
            if found:
                mean = mt.stack(found).mean().detach()
                dist.all_reduce(mean, dist.ReduceOp.AVG, mesh["data"].get_group())
                if device != "meta":
                    losses.append(mean.item())
    return losses, log


def pipeline(module, stage, mesh, rows, device):
    between = mt.empty(rows, LENGTH, WIDTH, device="meta")
    first, last = mt.empty(rows, LENGTH, dtype=mt.int64, device="meta"), mt.empty(rows, LENGTH, VOCABULARY, device="meta")
    count, group = mesh["pp"].size(), mesh.get_group("pp")
    given, returned = between if stage else first, between if stage < count - 1 else last
    return Schedule1F1B(PipelineStage(module, stage, count, device, given, returned, group=group), MICROBATCHES, loss_of)


def run(model, device, layout, layers=None):
    """Connect this rank, and train. Return losses and a log."""
    dist.init_process_group()
    return train(model, device, layers or layers_for(**layout), **layout)


def train_all():
    """Train with each layout for the size of the world. Return losses and logs by model and layout."""
    dist.init_process_group()
    found, size = {}, dist.get_world_size()
    for model, layouts in LAYOUTS.items():
        for name, layout in layouts[size].items():
            found[f"{model} {name}"] = train(model, "cpu", layers_for(**layout), **layout)
    return found


if __name__ == "__main__":
    results = {name: (losses, log.what()) for name, (losses, log) in train_all().items()}
    (Path(sys.argv[1]) / f"{dist.get_rank()}.json").write_text(json.dumps(results))
    dist.destroy_process_group()
