"""Measure a training step of Llama 3.1 405B on 512 simulated ranks.

    python -m benchmarks.many_devices                                               # data parallelism over 64, tensor over 8
    python -m benchmarks.many_devices --dp 8 --tp 8 --pp 8 --micro-batches 8        # sharded parameters, tensors, a pipeline
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import metatensor as mt
from metatensor import distributed as dist
from metatensor.distributed import fsdp, pipelining
from metatensor.distributed.tensor import Replicate
from metatensor.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from llama3 import Config, Decoder, RopeScaling, rotations

CONFIGS = {
    "8b": Config(),
    "70b": Config(layers=80, heads=64, width=8192, hidden=28672),
    "405b": Config(layers=126, heads=128, width=16384, hidden=53248, rope_scaling=RopeScaling()),
}
PLAN = {
    "model.embed_tokens": ColwiseParallel(output_layouts=Replicate()),
    **{f"model.layers.*.self_attn.{name}_proj": ColwiseParallel() for name in "qkv"},
    "model.layers.*.self_attn.o_proj": RowwiseParallel(),
    **{f"model.layers.*.mlp.{name}_proj": ColwiseParallel() for name in ("gate", "up")},
    "model.layers.*.mlp.down_proj": RowwiseParallel(),
    "lm_head": ColwiseParallel(output_layouts=Replicate()),
}


class Stage(mt.nn.Module):
    """Some consecutive layers, with the embedding before the first and the head after the last."""

    def __init__(self, config: Config, rank: int, stages: int) -> None:
        super().__init__()
        layers = config.layers // stages + (rank < config.layers % stages)
        self.model = Decoder(replace(config, layers=layers))
        self.lm_head = mt.nn.Linear(config.width, config.vocabulary, bias=False) if rank == stages - 1 else None
        if rank:
            self.model.embed_tokens = None
        if rank < stages - 1:
            self.model.norm = None

    def forward(self, x: Any) -> Any:
        if self.model.embed_tokens is not None:
            x = self.model.embed_tokens(x)
        cos, sin = rotations(self.model.config, x.shape[1], x)
        for layer in self.model.layers:
            x = layer(x, cos, sin)
        return x if self.lm_head is None else self.lm_head(self.model.norm(x))


def loss(logits: Any, x: Any) -> Any:
    """Return the cross entropy."""
    return mt.nn.functional.cross_entropy(logits.flatten(0, 1), x.flatten())


def setup(config: Config, dp: int, tp: int, pp: int, micro_batches: int, length: int) -> Any:
    """Create the stage and the optimizer of a rank. Parameters are sharded over ``dp`` if there is a pipeline."""
    dist.init_process_group()
    mesh = dist.init_device_mesh("meta", (pp, dp, tp), mesh_dim_names=("pp", "dp", "tp"))
    rank = mesh.get_local_rank("pp") if pp > 1 else 0
    x = mt.empty(micro_batches, length, dtype=mt.int64, device="meta")
    with mt.device("meta"):
        stage = Stage(config, rank, pp).to(mt.bfloat16)
        between = mt.empty(1, length, config.width, dtype=mt.bfloat16)
        logits = mt.empty(1, length, config.vocabulary, dtype=mt.bfloat16)
    missing = {name for name, module in (("lm_head", stage.lm_head), ("model.embed_tokens", stage.model.embed_tokens)) if module is None}
    parallelize_module(stage, mesh["tp"], {name: style for name, style in PLAN.items() if name not in missing})
    if pp == 1:
        return stage, None, mt.optim.AdamW(stage.parameters()), x, mesh.get_group("dp")
    if dp > 1:
        for block in stage.model.layers:
            fsdp.fully_shard(block, mesh=mesh["dp"], reshard_after_forward=False)
        fsdp.fully_shard(stage, mesh=mesh["dp"], reshard_after_forward=False)
    made = pipelining.PipelineStage(
        stage, rank, pp, mt.device("meta"), (between if rank else x[:1],), (between if rank < pp - 1 else logits,),
        group=mesh.get_group("pp"),
    )  # fmt: skip
    return rank, pipelining.Schedule1F1B(made, micro_batches, loss), mt.optim.AdamW(stage.parameters()), x, pp


def step(stage: Any, schedule: Any, optimizer: Any, x: Any, group: Any) -> None:
    """Train on one batch. The model is stage ``stage`` of ``group`` stages of a pipeline, or a whole model.

    The latter averages gradients over the group.
    """
    if schedule is not None:
        schedule.step(*([x] if stage == 0 else []), **({"target": x} if stage == group - 1 else {}))
        optimizer.step()
        return
    for one in x.unbind():
        loss(stage(one[None]), one).backward()
    works = []
    for parameter in stage.parameters():
        grad = parameter.grad.to_local() if hasattr(parameter.grad, "to_local") else parameter.grad
        works.append(dist.all_reduce(grad, dist.ReduceOp.AVG, group=group, async_op=True))
    for work in works:
        work.wait()
    optimizer.step()


def main() -> None:
    """Run the step and print what it took, and what it predicts."""
    parser = argparse.ArgumentParser(description=__doc__.partition(".")[0])
    parser.add_argument("--model", choices=CONFIGS, default="405b")
    parser.add_argument("--dp", type=int, default=64, help="ranks of data parallelism")
    parser.add_argument("--tp", type=int, default=8, help="ranks of tensor parallelism")
    parser.add_argument("--pp", type=int, default=1, help="stages of the pipeline; with several, data parallelism shards parameters")
    parser.add_argument("--micro-batches", type=int, default=1, help="sequences of a step on a rank")
    parser.add_argument("--length", type=int, default=4096, help="tokens of a sequence")
    parser.add_argument("--devices", default="H100", help="the device or system")
    given = parser.parse_args()
    ranks = given.dp * given.tp * given.pp
    start, spent = time.perf_counter(), time.process_time()
    found = mt.analysis.profile_ranks(
        step, CONFIGS[given.model], given.dp, given.tp, given.pp, given.micro_batches, given.length, setup=setup, topology=given.devices,
        world_size=ranks,
    )  # fmt: skip
    seconds, spent = time.perf_counter() - start, time.process_time() - spent
    print(found)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"\n{ranks} ranks: {seconds:.2f} s, of which {spent:.2f} s of processor time; {memory:.3f} GB of memory")


if __name__ == "__main__":
    main()
