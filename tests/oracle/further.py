"""Operators that PyTorch's database leaves out, in the form of its entries: their samples follow from our schemas."""

import functools
import re
from typing import NamedTuple

import torch

from metatensor._core.op import registry
from metatensor.testing.samples import Spec
from metatensor.testing.search import find_samples

from . import database
from .twins import tree_map

# What has no counterpart in PyTorch, or none that says anything about values.
_OWN = re.compile("^_|::|^(cpu|cuda|tolist|pin_memory|type|tensor|as_tensor|asarray|numel|dim_order)$")


class Sample(NamedTuple):
    """One call, in the words of PyTorch's database."""

    input: object
    args: tuple
    kwargs: dict


class Entry:
    """What `database` and `values` read of an entry of PyTorch's database."""

    variant_test_name = "further"
    decorators = skips = ()

    def __init__(self, name, function):
        self.name, self.op = name, function

    def supported_dtypes(self, device):
        return {torch.float32}

    def sample_inputs(self, device, dtype, requires_grad=False):
        op = registry[self.name]
        for sample in find_samples(op.functional, op.functional.overloads[0], ("float32",), "cpu")[:3]:
            arguments = {name: tree_map(_tensor, value) for name, value in sample.arguments.items()}
            if arguments:
                yield Sample(arguments.pop("input" if "input" in arguments else next(iter(arguments))), (), arguments)


def _tensor(x):
    if isinstance(x, Spec):
        return torch.from_numpy(x.array()).to(getattr(torch, x.dtype))
    return getattr(torch, str(x).rpartition(".")[2]) if type(x).__module__.startswith("metatensor") else x


@functools.cache
def _all():
    """Functions that the database has under no name. In-place ones are left to those that they are named after."""
    known = {name for entry in database.entries() for name in (entry.name, *(alias.name for alias in entry.aliases))}
    functions = {entry.op for entry in database.entries()}
    made = []
    for name in sorted(registry):
        space = name.rpartition(".")[0]
        if _OWN.search(name) or name in known or name.endswith("_") or space not in ("", "nn.functional", "special", "linalg", "fft"):
            continue
        function = database._lookup(name) or getattr(torch.Tensor, name, None)
        if callable(function) and function not in functions:
            made.append(Entry(name, function))
    return made


def further_entries(names=None):
    """Entries for the operators of the registry that PyTorch's database leaves out; only those of the given names."""
    return [entry for entry in _all() if names is None or entry.name in names]
