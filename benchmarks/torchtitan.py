"""Compare predictions with torchtitan's published runs of Llama 3.1 8B under FSDP: ``python -m benchmarks.torchtitan``.

The two rows in bfloat16 without float8: 8 and 128 GPUs, two sequences of 8192 tokens on each, selective activation checkpointing (every
second product and the attention are saved). The second was compiled, which is not modelled here.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import metatensor as mt
from metatensor import distributed as dist
from metatensor.distributed import fsdp
from metatensor.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from llama3 import Config, Llama3

BATCH, LENGTH = 2, 8192


def contexts() -> Any:
    """Return the contexts of a selective checkpoint: every second product is computed again, and all else but attention."""
    products = [0, 0]

    def policy(context: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
        name = str(op)
        if "attention" in name:
            return CheckpointPolicy.MUST_SAVE
        if ".mm." in name or "linear" in name:
            products[context.is_recompute] += 1
            return CheckpointPolicy.MUST_SAVE if products[context.is_recompute] % 2 else CheckpointPolicy.PREFER_RECOMPUTE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


class Checkpointed(mt.nn.Module):
    """A block whose activations are computed again in part."""

    def __init__(self, block: Any) -> None:
        super().__init__()
        self.block = block

    def forward(self, x: Any, cos: Any, sin: Any) -> Any:
        return checkpoint(self.block, x, cos, sin, use_reentrant=False, context_fn=contexts)


def setup() -> tuple[Any, Any, Any]:
    """Create the sharded model and the optimizer, and make a first step."""
    dist.init_process_group()
    mesh = dist.init_device_mesh("meta", (dist.get_world_size(),))
    with mt.device("meta"):
        model, x = Llama3(Config()), mt.empty(BATCH, LENGTH, dtype=mt.int64)
    layers = model.model.layers
    precision = fsdp.MixedPrecisionPolicy(param_dtype=mt.bfloat16, reduce_dtype=mt.float32)
    for number in range(len(layers)):
        layers[number] = Checkpointed(layers[number])
        fsdp.fully_shard(layers[number], mesh=mesh, mp_policy=precision)
    fsdp.fully_shard(model, mesh=mesh, mp_policy=precision)
    optimizer = mt.optim.AdamW(model.parameters(), fused=True)
    step(model, optimizer, x)
    return model, optimizer, x


def step(model: Any, optimizer: Any, x: Any) -> None:
    """Train on one batch."""
    mt.nn.functional.cross_entropy(model(x).flatten(0, 1).float(), x.flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()


def main() -> None:
    """Print the table."""
    published = json.loads((Path(__file__).parent / "data" / "published.json").read_text())
    rows = published["measured_memory"]["sections"]["torchtitan"]["rows"]
    print("| GPUs | kernels | tokens/s, published | predicted | error | reserved GiB, published | predicted | error |")
    print("|--:|---|--:|--:|--:|--:|--:|--:|")
    for row in rows:
        if row.get("techniques") not in ("FSDP", "FSDP + torch.compile"):
            continue
        gpus = int(row["table"].partition(" GPUs")[0].rpartition(" ")[2])
        found = mt.analysis.profile_ranks(step, setup=setup, topology=f"{gpus}xH100")
        memory = found.classes[0].memory
        assert found.seconds is not None and memory is not None
        speed, reserved = BATCH * LENGTH / found.seconds, memory.reserved().peak_reserved / 2**30
        known, most = row["tokens_per_s_per_gpu"], row["memory_GiB"]
        print(f"| {gpus} | {row['techniques']} | {known:,} | {speed:,.0f} | {speed / known - 1:+.1%} "
              f"| {most} | {reserved:.1f} | {reserved / most - 1:+.1%} |")  # fmt: skip


if __name__ == "__main__":
    main()
