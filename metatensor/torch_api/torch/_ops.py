"""``torch.ops``: operators by namespace. ``torch.ops.aten`` has metatensor's own."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.op import Op, registry
from metatensor.library import Namespace
from metatensor.torch_api._extensions import known_schemas

__all__ = ["OpOverload", "OpOverloadPacket", "Packet", "classes", "ops"]

OpOverload = OpOverloadPacket = Op

# Where an operator of ATen is called otherwise here.
_ATEN = {
    "convolution": "convolution", "_to_copy": "_to_copy", "gelu": "nn.functional.gelu", "silu": "nn.functional.silu",
    "scaled_dot_product_attention": "nn.functional.scaled_dot_product_attention",
    "_softmax": "softmax", "_log_softmax": "log_softmax", "linear": "nn.functional.linear", "leaky_relu": "nn.functional.leaky_relu",
}  # fmt: skip


class _Aten:
    """The operators of ATen, as far as they are functions of PyTorch's."""

    __name__ = "torch.ops.aten"

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            for candidate in (_ATEN.get(name), name, f"nn.functional.{name}", f"linalg.{name.removeprefix('linalg_')}",
                              f"special.{name.removeprefix('special_')}", f"fft.{name.removeprefix('fft_')}"):  # fmt: skip
                if candidate in registry:
                    return Packet(registry[candidate], f"aten.{name}")
        raise AttributeError(f"torch.ops.aten has no operator {name!r} (metatensor stands in the place of PyTorch)")


class Packet:
    """An operator with its overloads as attributes: they are one operator here, which tells them apart itself."""

    def __init__(self, op: Any, name: str) -> None:
        self._op = op
        self._name = name

    def __str__(self) -> str:
        return self._name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._op(*args, **kwargs)

    def overloads(self) -> list[str]:
        """The names of the overloads that are declared here."""
        return [overload.qualname[len(self._op.name) + 1 :] or "default" for overload in self._op.overloads]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in _OVERLOADS and name not in self.overloads():
            raise AttributeError(f"{self!r} has no overload {name!r}")
        return self._op

    def __repr__(self) -> str:
        return f"<op {self._op.name}>"

    def __hash__(self) -> int:
        return hash(self._op)

    def __eq__(self, other: object) -> bool:
        return self._op is getattr(other, "_op", other)


_OVERLOADS = {"default", "Tensor", "Scalar", "int", "dim", "dim_IntList", "out", "self", "Tensor_Scalar", "Tensor_Tensor", "Scalar_Tensor",
              "ScalarList", "names", "dtype", "size", "vec", "float", "input", "correction", "binary_out"}  # fmt: skip


class _Ops:
    """Namespaces as attributes."""

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
        """Declare the operators of a compiled library, where they are known; OSError for any other: it needs PyTorch."""
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
        raise OSError(f"torch.ops.load_library: {path} is compiled against PyTorch, which metatensor stands in the place of")

    def import_module(self, module: str) -> None:
        """Import a module that defines operators."""
        import importlib

        importlib.import_module(module)


class Space(Namespace):
    """A namespace whose operators have their overload ``default``."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = super().__getattr__(name)
        return Packet(found, found.name.replace("::", "."))


class _Classes:
    """Classes of compiled extensions: there are none."""

    __name__ = "torch.classes"
    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"torch.classes.{name}: classes of compiled extensions need PyTorch")

    def load_library(self, path: Any) -> None:
        """OSError: a compiled library needs PyTorch."""
        ops.load_library(path)


ops = _Ops()
classes = _Classes()
_ = mt
