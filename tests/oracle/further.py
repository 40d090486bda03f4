"""Entries for operators that are not in PyTorch's database, with samples generated from metatensor's schemas."""

import functools
import re
from typing import NamedTuple

import torch

from metatensor._core.op import registry
from metatensor.testing.samples import Spec
from metatensor.testing.search import find_samples

from . import database
from .twins import tree_map

# Operators that have no counterpart in PyTorch, or whose values cannot be compared.
_OWN = re.compile("^_|::|^(cpu|cuda|tolist|pin_memory|type|tensor|as_tensor|asarray|numel|dim_order)$")


class Sample(NamedTuple):
    """A sample with the attributes of those in PyTorch's database."""

    input: object
    args: tuple
    kwargs: dict


class Entry:
    """An entry with the attributes of PyTorch's database that `database` and `values` read."""

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
    """Return the functions that are not in the database. In-place variants are covered by their operators."""
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
    """Return entries for the registered operators that are not in PyTorch's database, or for those of the given names."""
    return [entry for entry in _all() if names is None or entry.name in names]
