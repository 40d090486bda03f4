"""A Llama-3-8B-shaped training step on many devices in several layouts, and formulas of its memory.

In the formulas: T tokens, width d, hidden h, vocabulary V, L layers, width kv of keys and values, t ranks of tensor parallelism.
"""

import importlib.util
from collections import Counter
from pathlib import Path

import metatensor as mt
from metatensor import distributed as dist
from metatensor import nn
from metatensor.distributed.tensor import Replicate
from metatensor.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from metatensor.nn import functional as F

PATH = Path(__file__).parents[1] / "examples" / "llama3.py"


def llama3():
    spec = importlib.util.spec_from_file_location("llama3_example", PATH)
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


EXAMPLE = llama3()
TENSOR_PARALLEL = {
    "model.embed_tokens": ColwiseParallel(output_layouts=Replicate()),
    **{f"model.layers.*.self_attn.{name}_proj": ColwiseParallel() for name in "qkv"},
    "model.layers.*.self_attn.o_proj": RowwiseParallel(),
    **{f"model.layers.*.mlp.{name}_proj": ColwiseParallel() for name in ("gate", "up")},
    "model.layers.*.mlp.down_proj": RowwiseParallel(),
    "lm_head": ColwiseParallel(output_layouts=Replicate()),
}


def model_of(config):
    with mt.device("meta"):
        return EXAMPLE.Llama3(config).to(mt.bfloat16)


def tokens(batch, length):
    return mt.empty(batch, length, dtype=mt.int64, device="meta")


def tensor_parallel(config, batch, length, degree):
    dist.init_process_group()
    mesh = dist.init_device_mesh("meta", (dist.get_world_size() // degree, degree), mesh_dim_names=("dp", "tp"))
    model = parallelize_module(model_of(config), mesh["tp"], TENSOR_PARALLEL)
    return model, mt.optim.AdamW(model.parameters()), tokens(batch, length)


def data_parallel(config, batch, length, zero):
    dist.init_process_group()
    model = nn.parallel.DistributedDataParallel(model_of(config))
    if zero:
        optimizer = dist.optim.ZeroRedundancyOptimizer(model.parameters(), mt.optim.AdamW)
    else:
        optimizer = mt.optim.AdamW(model.parameters())
    x = tokens(batch, length)
    train(model, optimizer, x)  # buckets are as in all later steps from the second one on
    return model, optimizer, x


def train(model, optimizer, x):
    F.cross_entropy(model(x).flatten(0, 1), x.flatten()).backward()
    optimizer.step()


# Formulas ---------------------------------------------------------------------------------------------------

CONFIG = EXAMPLE.Config()
L, d, h, V = CONFIG.layers, CONFIG.width, CONFIG.hidden, CONFIG.vocabulary
heads, kv = CONFIG.heads, CONFIG.kv_heads * CONFIG.head_width
T = 4096
NORMS = (2 * L + 1) * d
MATRICES = 2 * V * d + L * (2 * d * d + 2 * d * kv + 3 * d * h)
TENSORS = 9 * L + 3


def after(one):
    """Return the bytes by category after the step."""
    return one.memory.timeline("category")[-1][1]


def saved(one):
    """Return the bytes that the forward pass leaves for the backward pass, except for results of collectives."""
    memory = one.memory
    begin = next(i for i, event in enumerate(memory.events) if event.walk)
    alive = Counter()
    for storage in memory.storages:
        if storage.born < begin and (storage.died is None or storage.died >= begin):
            alive[storage.category] += storage.nbytes
    return alive


def activations(t):
    """Saved activations of one rank."""
    rotations = 2 * 2 * T * CONFIG.head_width  # cosines and sines
    norm = 2 * T * d + 4 * T  # the result, for the products after it, and the reciprocal deviation in float32
    stream = 2 * 2 * T * d  # the sums after attention and MLP, which the norms after them save
    attention = 2 * T * (d + 2 * kv) // t + 2 * T * d // t  # q, k, v and the result
    attention += 4 * T * heads // t + 24  # the logarithms of the sums, and the state of the random generator
    mlp = 4 * 2 * T * h // t  # gate, silu(gate), up, and their product
    logits = 2 * T * V + 2  # logarithms of probabilities, and the sum of the weights
    return rotations + L * (2 * norm + stream + attention + mlp) + norm + logits
