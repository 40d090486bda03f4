"""Measure a training step of Llama 3.1 405B on 512 simulated ranks: ``python -m benchmarks.many_devices [--dp 64] [--tp 8]``."""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path
from typing import Any

import metatensor as mt
from metatensor import distributed as dist
from metatensor.distributed.tensor import Replicate
from metatensor.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from llama3 import Config, Llama3, RopeScaling

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


def setup(config: Config, dp: int, tp: int, length: int) -> Any:
    """Create the model and the optimizer of a rank."""
    dist.init_process_group()
    mesh = dist.init_device_mesh("meta", (dp, tp), mesh_dim_names=("dp", "tp"))
    with mt.device("meta"):
        model = Llama3(config).to(mt.bfloat16)
    parallelize_module(model, mesh["tp"], PLAN)
    return model, mt.optim.AdamW(model.parameters()), mt.empty(1, length, dtype=mt.int64, device="meta"), mesh["dp"].get_group()


def step(model: Any, optimizer: Any, x: Any, group: Any) -> None:
    """Train on one batch, and average gradients over the group."""
    mt.nn.functional.cross_entropy(model(x).flatten(0, 1), x.flatten()).backward()
    works = []
    for parameter in model.parameters():
        grad = parameter.grad.to_local() if hasattr(parameter.grad, "to_local") else parameter.grad
        works.append(dist.all_reduce(grad, dist.ReduceOp.AVG, group=group, async_op=True))
    for work in works:
        work.wait()
    optimizer.step()


def main() -> None:
    """Run the step and print what it took, and what it predicts."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--model", choices=CONFIGS, default="405b")
    parser.add_argument("--dp", type=int, default=64, help="ranks of data parallelism")
    parser.add_argument("--tp", type=int, default=8, help="ranks of tensor parallelism")
    parser.add_argument("--length", type=int, default=4096, help="tokens of a sequence")
    parser.add_argument("--devices", default="H100", help="the device or system")
    given = parser.parse_args()
    ranks = given.dp * given.tp
    start, spent = time.perf_counter(), time.process_time()
    found = mt.analysis.profile_ranks(
        step, CONFIGS[given.model], given.dp, given.tp, given.length, setup=setup, over=given.devices, world_size=ranks
    )
    seconds, spent = time.perf_counter() - start, time.process_time() - spent
    print(found)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"\n{ranks} ranks: {seconds:.2f} s, of which {spent:.2f} s of processor time; {memory:.3f} GB of memory")


if __name__ == "__main__":
    main()
