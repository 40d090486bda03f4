"""Train torchtitan's Llama on simulated ranks: its model and its parallelize file, unmodified.

    git clone --branch v0.2.2 https://github.com/pytorch/torchtitan
    pip install tyro tensorboardX
    cd tests
    python -m libraries.torchtitan_llama ../torchtitan --fsdp 2 --tp 2              # tiny, with data on cpu: losses
    python -m libraries.torchtitan_llama ../torchtitan --fsdp 8 --tp 8 --meta --model 8B

torchtitan's packages import triton, torchdata, datasets and tokenizers for other purposes, so stand-ins are enough.
"""

import argparse
import importlib.abc
import importlib.machinery
import sys
import types
import warnings

ABSENT = ("datasets", "tokenizers", "torchao", "torchdata", "triton")


class Absent(types.ModuleType):
    """A package that is imported and not used. Its attributes are classes and decorators that do nothing."""

    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "jit":
            return lambda function=None, **_: function or (lambda one: one)
        if name == "autotune":
            return lambda *_, **__: lambda function: function
        return type(name, (), {"__init__": lambda self, *_, **__: None})


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the absent packages."""

    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.partition(".")[0] in ABSENT else None

    def create_module(self, spec):
        return Absent(spec.name)

    def exec_module(self, module):
        pass


def train(given):
    """Train the model for some steps on one rank. Return the placements of the logits and the losses."""
    import torch
    import torchtitan.distributed.parallel_dims
    from torch.distributed.tensor.parallel import loss_parallel
    from torchtitan.config import JobConfig
    from torchtitan.distributed import ParallelDims
    from torchtitan.models.llama3 import llama3_args
    from torchtitan.models.llama3.infra.parallelize import parallelize_llama
    from torchtitan.models.llama3.model.model import Transformer

    device = "meta" if given.meta else "cpu"
    torchtitan.distributed.parallel_dims.device_type = device
    torch.distributed.init_process_group()
    torch.manual_seed(3)
    config = JobConfig()
    config.training.seq_len, config.compile.enable = given.length, False
    config.training.mixed_precision_param = given.precision
    args = llama3_args[given.model]
    args.update_from_config(config)
    ranks = given.replicate * given.fsdp * given.tp
    dims = ParallelDims(dp_replicate=given.replicate, dp_shard=given.fsdp, cp=1, tp=given.tp, pp=1, ep=1, etp=1, world_size=ranks)
    with torch.device("meta"):
        model = Transformer(args)
    model = parallelize_llama(model, dims, config)
    model.to_empty(device=device)
    with torch.no_grad():
        model.init_weights()
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = (torch.arange(2 * given.length, device=device).reshape(2, given.length) * 7) % args.vocab_size
    losses = []
    for _ in range(given.steps):
        with loss_parallel():
            logits = model(tokens)
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten())
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss = loss.detach()
        losses.append(None if given.meta else round((loss.full_tensor() if hasattr(loss, "full_tensor") else loss).item(), 4))
    return getattr(logits, "placements", ()), losses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", help="folder of torchtitan's repository at v0.2.2")
    for name in ("replicate", "fsdp", "tp"):
        parser.add_argument(f"--{name}", type=int, default=1)
    parser.add_argument("--model", default="debugmodel", help="debugmodel, 8B, 70B or 405B")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--precision", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--meta", action="store_true", help="without data; one rank of each class is run")
    given = parser.parse_args()

    from metatensor import torch_api
    from metatensor.distributed import sim

    warnings.simplefilter("ignore")
    torch_api.install()
    sys.path.insert(0, given.checkout)
    sys.meta_path.insert(0, Finder())
    ranks = given.replicate * given.fsdp * given.tp
    found = sim.run(train, given, world_size=ranks, record=True, ranks="groups" if given.meta else "all")
    placements, losses = found[0]
    print(f"{ranks} ranks, logits {placements}, losses {losses}, bytes {found.logs[0].bytes_by_kind()}")


if __name__ == "__main__":
    main()
