"""``torch.ops``: operators by namespace. ``torch.ops.aten`` has metatensor's own operators under PyTorch's names."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.op import registry
from metatensor.library import Namespace
from metatensor.overloads import OpOverload, OpOverloadPacket, packet
from metatensor.torch_api._extensions import known_schemas

__all__ = ["OpOverload", "OpOverloadPacket", "Packet", "classes", "ops"]

Packet = OpOverloadPacket


class _Aten:
    """The operators of PyTorch's dispatcher that metatensor has."""

    __name__ = "torch.ops.aten"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return packet("aten", name)
        except AttributeError:
            raise AttributeError(f"torch.ops.aten has no operator {name!r} (metatensor stands in the place of PyTorch)") from None


class _Ops:
    """Namespaces of operators as attributes."""

    __name__ = "torch.ops"
    __path__: list[str] = []

    def __init__(self) -> None:
        self.aten = _Aten()
        self.loaded_libraries: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = Space(name)
        setattr(self, name, found)
        return found

    def load_library(self, path: Any) -> None:
        """Declare the operators of a known compiled library. Raise OSError for any other, because it needs PyTorch."""
        known = known_schemas(path)
        if known is not None:
            from metatensor.torch_api.torch.library import define, impl

            package, schemas = known
            for schema in schemas:
                name, bracket, rest = schema.partition("(")
                if f"{package}::{name}" not in registry:
                    define(f"{package}::{name}", bracket + rest)
                    if name == "_cuda_version":
                        impl(f"{package}::{name}", "default", lambda: -1)
            self.loaded_libraries.add(str(path))
            return
        raise OSError(f"torch.ops.load_library: {path} is compiled against PyTorch and cannot be loaded without it")

    def import_module(self, module: str) -> None:
        """Import a module that defines operators."""
        import importlib

        importlib.import_module(module)


class Space(Namespace):
    """A namespace of operators, each of which has the overload ``default``."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = super().__getattr__(name)
        return packet(*found.name.split("::"))


class _Classes:
    """Namespace of the classes of compiled extensions. There are none."""

    __name__ = "torch.classes"
    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"torch.classes.{name}: classes of compiled extensions need PyTorch")

    def load_library(self, path: Any) -> None:
        """Declare the operators of a known compiled library. Raise OSError for any other."""
        ops.load_library(path)


ops = _Ops()
classes = _Classes()
_ = mt
