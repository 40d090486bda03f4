"""How ``import torch.x`` finds a module of metatensor.

A module of ours stands in `sys.modules` under both names, so that there is one of each. Those that only exist because
PyTorch has them are files in ``torch/`` beside this one, under PyTorch's names; the others are in
`interchange.torch_modules.SHARED`.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from metatensor.interchange.torch_modules import target_of
from metatensor.torch_api import _children

__all__ = ["TorchFinder"]


def _spec_of(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError:  # what is above it is no package
        return None


def _offered_as(name: str) -> str | None:
    """Return the name of the module that a package offers as an attribute under PyTorch's name for it, or None.

    "metatensor.distributions.location_scale" for "metatensor.distributions.normal": such a module lies in that package.
    """
    package, _, last = name.rpartition(".")
    module = getattr(sys.modules.get(package), last, None)
    return module.__name__ if isinstance(module, ModuleType) and module.__name__.startswith(f"{package}.") else None


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
        if fullname in _children.MODULES:
            return _children.find(fullname, path)
        if fullname != "torch" and not fullname.startswith("torch."):
            return None
        ours: str | None = target_of(fullname)
        found = _spec_of(ours)
        if found is None:
            ours = _offered_as(ours)
            found = _spec_of(ours) if ours else None
        if found is None:
            return None
        spec = ModuleSpec(fullname, _Alias(ours), origin=found.origin)  # type: ignore[arg-type]
        spec.submodule_search_locations = found.submodule_search_locations
        return spec

    def find_distributions(self, context: Any = None) -> Iterable[Any]:
        from metatensor.torch_api._distribution import TorchDistribution

        if context is None or context.name is None or context.name == "torch":
            yield TorchDistribution()
