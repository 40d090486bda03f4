"""Import of ``torch`` and its submodules from metatensor.

A module of metatensor is entered in `sys.modules` under both names, so that it exists only once. Modules that exist
only because PyTorch has them are files in ``torch/``, next to this one, with PyTorch's names. All others are listed in
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
    except ModuleNotFoundError:  # its parent is not a package
        return None


def _offered_as(name: str) -> str | None:
    """Return the name of the module that a package exposes as an attribute under PyTorch's module name, or None.

    For "metatensor.distributions.normal" this is "metatensor.distributions.location_scale".
    """
    package, _, last = name.rpartition(".")
    module = getattr(sys.modules.get(package), last, None)
    return module.__name__ if isinstance(module, ModuleType) and module.__name__.startswith(f"{package}.") else None


class _Alias:
    """A loader that imports another module and enters that one in `sys.modules`."""

    def __init__(self, target: str) -> None:
        self.target = target

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = importlib.import_module(self.target)


class TorchFinder:
    """Finder for torch and its submodules.

    It does not inherit from `importlib.abc.MetaPathFinder`, because importing that takes 10 ms and adds nothing
    here.
    """

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname in _children.MODULES:
            return _children.find(fullname, path)
        if fullname != "torch" and not fullname.startswith("torch."):
            return None
        ours = target_of(fullname)
        found = _spec_of(ours)
        if found is None:
            ours = _offered_as(ours) or ""
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
