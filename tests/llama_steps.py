"""A Llama-3-8B-shaped training step on many devices, in several layouts."""

import importlib.util
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
