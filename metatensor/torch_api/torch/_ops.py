"""``torch.ops``: operators by namespace. ``torch.ops.aten`` has metatensor's own operators under PyTorch's names."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.absent import function
from metatensor._core.op import registry
from metatensor.library import Namespace
from metatensor.overloads import OpOverload, OpOverloadPacket, packet
from metatensor.torch_api._extensions import known_schemas

__all__ = ["OpOverload", "OpOverloadPacket", "Packet", "classes", "ops"]

Packet = OpOverloadPacket


def kernel_elsewhere(name: str) -> Any:
    """Return a function that raises NotImplementedError, with the overload ``default``: an operator that no program here runs.

    Programs name such operators in lists, such as that of the operators whose results a selective checkpoint keeps.
    """
    made: Any = function(name, "it is one of PyTorch's kernels, and metatensor runs other operators instead")
    made.default = made
    return made


# Kernels of attention that PyTorch chooses among. `nn.functional.scaled_dot_product_attention` runs others here.
_ATTENTION = frozenset("""
    _scaled_dot_product_attention_math _scaled_dot_product_cudnn_attention _scaled_dot_product_fused_attention_overrideable
""".split())


class _Aten:
    """The operators of PyTorch's dispatcher that metatensor has."""

    __name__ = "torch.ops.aten"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return packet("aten", name)
        except AttributeError:
            if name in _ATTENTION:
                setattr(self, name, kernel_elsewhere(f"ops.aten.{name}"))
                return self.__dict__[name]
            raise AttributeError(f"torch.ops.aten has no operator {name!r} (metatensor stands in the place of PyTorch)") from None


class _Collectives:
    """``torch.ops._c10d_functional``: functional collectives, with the arguments that these operators have."""

    __name__ = "torch.ops._c10d_functional"

    @staticmethod
    def all_reduce(input: Any, reduce_op: str, group_name: Any) -> Any:
        """Return the tensor, reduced over the ranks."""
        return _functional().all_reduce(input, reduce_op, group_name)

    @staticmethod
    def all_gather_into_tensor(input: Any, group_size: int, group_name: Any) -> Any:
        """Return the tensors of all ranks, concatenated along the first dimension."""
        return _functional().all_gather_tensor(input, 0, group_name)

    @staticmethod
    def reduce_scatter_tensor(input: Any, reduce_op: str, group_size: int, group_name: Any) -> Any:
        """Return this rank's part of the rows, reduced over the ranks."""
        return _functional().reduce_scatter_tensor(input, reduce_op, 0, group_name)

    @staticmethod
    def all_to_all_single(input: Any, output_split_sizes: Any, input_split_sizes: Any, group_name: Any) -> Any:
        """Send the r-th part of the rows to rank r, and return the rows that the ranks send to this one."""
        return _functional().all_to_all_single(input, output_split_sizes, input_split_sizes, group_name)

    @staticmethod
    def broadcast(input: Any, src: int, group_name: Any) -> Any:
        """Return a copy of the tensor of rank ``src``."""
        return _functional().broadcast(input, src, group_name)

    @staticmethod
    def wait_tensor(tensor: Any) -> Any:
        """Wait for a collective and return its result."""
        return _functional().wait_tensor(tensor)


for _one in vars(_Collectives).values():
    if isinstance(_one, staticmethod):
        _one.__func__.default = _one.__func__  # type: ignore[attr-defined]


class _VariableLengths:
    """``torch.ops.torch_attn``: the kernels of `torch.nn.attention.varlen`, which runs other operators here."""

    __name__ = "torch.ops.torch_attn"

    _varlen_attn = staticmethod(kernel_elsewhere("ops.torch_attn._varlen_attn"))


def _functional() -> Any:
    """Return the module of functional collectives, which is imported when it is needed."""
    from metatensor.distributed import _functional_collectives

    return _functional_collectives


class _Ops:
    """Namespaces of operators as attributes."""

    __name__ = "torch.ops"
    __path__: list[str] = []

    def __init__(self) -> None:
        self.aten = _Aten()
        self._c10d_functional = _Collectives()
        self.torch_attn = _VariableLengths()
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
