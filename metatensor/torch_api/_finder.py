"""How ``import torch.x`` finds a module of metatensor.

A module of ours stands in `sys.modules` under both names, so that there is one of each. Those that only exist because
PyTorch has them are files in ``torch/`` beside this one, under PyTorch's names; the others are `SHARED`.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["SHARED", "TorchFinder", "target_of"]

TREE = "metatensor.torch_api.torch"

SHARED = {
    f"torch.{name}": f"metatensor.{name}"
    for name in ("autograd", "distributed", "fft", "func", "linalg", "masked", "nn", "signal", "special", "utils")
} | {
    "torch.futures": "metatensor.distributed.futures",
    "torch.fx": "metatensor.program.fx",
    "torch.utils.data": "metatensor.data",
}
"""Modules of PyTorch, with all below them, that are modules of metatensor itself."""


def target_of(name: str) -> str:
    """Return the name of the module that answers to ``name``: "metatensor.nn.init" for "torch.nn.init"."""
    parts = name.split(".")
    for count in range(len(parts), 1, -1):
        head = ".".join(parts[:count])
        if head in SHARED:
            return SHARED[head] + name[len(head) :]
    return TREE + name[len("torch") :]


class _Alias:
    """A loader: loads a module by importing another and putting that in its place."""

    def __init__(self, target: str) -> None:
        self.target = target

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = importlib.import_module(self.target)


class TorchFinder:
    """Finds torch and everything below it. (The base class of finders takes 10 ms to import, and offers nothing here.)"""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != "torch" and not fullname.startswith("torch."):
            return None
        ours = target_of(fullname)
        try:
            found = importlib.util.find_spec(ours)
        except ModuleNotFoundError:  # what is above it is no package
            found = None
        if found is None:
            return None
        spec = ModuleSpec(fullname, _Alias(ours), origin=found.origin)  # type: ignore[arg-type]
        spec.submodule_search_locations = found.submodule_search_locations
        return spec

    def find_distributions(self, context: Any = None) -> Iterable[Any]:
        from metatensor.torch_api._distribution import TorchDistribution

        if context is None or context.name is None or context.name == "torch":
            yield TorchDistribution()
