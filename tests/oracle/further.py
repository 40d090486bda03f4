"""Operators that PyTorch's database leaves out, in the form of its entries: their samples follow from our schemas."""

import functools
import re
from typing import NamedTuple

import torch

from metatensor._core import op as ops
from metatensor.testing.samples import Spec, find_samples

from . import database
from .twins import tree_map

# What has no counterpart in PyTorch, or none that says anything about values.
_OWN = re.compile(r"^_|::|^(cpu|cuda|tolist|pin_memory|share_memory_|set_|type|tensor|as_tensor|asarray|numel|dim_order|embedding_renorm_)$")


class Sample(NamedTuple):
    """One call, in the words of PyTorch's database."""

    input: object
    args: tuple
    kwargs: dict


class Entry:
    """What `database` and `values` read of an entry of PyTorch's database."""

    variant_test_name = "further"
    decorators = skips = ()

    def __init__(self, name, function, found):
        self.name, self.op, self._samples = name, function, found

    def supported_dtypes(self, device):
        return {torch.float32}

    def sample_inputs(self, device, dtype, requires_grad=False):
        for sample in self._samples:
            arguments = {name: tree_map(_tensor, value) for name, value in sample.arguments.items()}
            if arguments:
                yield Sample(arguments.pop("input" if "input" in arguments else next(iter(arguments))), (), arguments)


def _tensor(x):
    if isinstance(x, Spec):
        return torch.from_numpy(x.array()).to(getattr(torch, x.dtype))
    return x if not type(x).__module__.startswith("metatensor") else getattr(torch, str(x).rpartition(".")[2])


@functools.cache
def _found():
    known = {entry.name for entry in database.entries()} | {entry.op for entry in database.entries()}
    aliases = {alias.name for entry in database.entries() for alias in entry.aliases}
    made = []
    for name, op in sorted(ops.registry.items()):
        base = name.removesuffix("_") if not name.endswith("__") else name
        if _OWN.search(name) or {name, base} & (known | aliases) or "." in name and name.partition(".")[0] not in ("nn", "special", "linalg", "fft"):
            continue
        function = database._lookup(name) or getattr(torch.Tensor, name, None)
        if not callable(function) or function in known:
            continue
        found = find_samples(op, op.schemas[0], ("float32",))
        if found and not name.endswith("_"):
            made.append(Entry(name, function, found[:3]))
    return made


def further_entries(names=None):
    """Entries for the operators of the registry that PyTorch's database leaves out."""
    return [entry for entry in _found() if names is None or entry.name in names]
