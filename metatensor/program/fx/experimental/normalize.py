"""Transformers that give calls one form."""

from __future__ import annotations

import operator
from typing import Any

import metatensor as mt
from metatensor.program.fx.interpreter import Transformer
from metatensor.program.fx.node import Node
from metatensor.program.fx.operator_schemas import normalize_function, normalize_module
from metatensor.program.fx.proxy import Proxy

__all__ = ["NormalizeArgs", "NormalizeOperators"]


class NormalizeArgs(Transformer):
    """Rewrites the arguments of calls to functions and layers: by keyword, or in the order of the signature.

    Parameters
    ----------
    module : GraphModule
    normalize_to_only_use_kwargs : bool
        Pass all arguments by keyword. Default True.
    """

    def __init__(self, module: Any, normalize_to_only_use_kwargs: bool = True) -> None:
        super().__init__(module)
        self.normalize_to_only_use_kwargs = normalize_to_only_use_kwargs
        self.node_map: dict[Any, Node] = {}

    def run_node(self, n: Node) -> Any:
        """Record one node with normalized arguments."""
        made = super().run_node(n)
        if isinstance(made, Proxy):
            made.node.meta.update(n.meta)
            self.node_map[made] = n
        return made

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record the call of a function and return its proxy."""
        found = normalize_function(target, args, kwargs, normalize_to_only_use_kwargs=self.normalize_to_only_use_kwargs)
        return super().call_function(target, *((args, kwargs) if found is None or not _takes_names(target) else found))

    def call_module(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record the call of a submodule and return its proxy."""
        found = normalize_module(self.module, target, args, kwargs, self.normalize_to_only_use_kwargs)
        return super().call_module(target, *((args, kwargs) if found is None else found))


def _takes_names(target: Any) -> bool:
    """Return False for functions in C whose parameters have no names, such as those of `operator`."""
    return getattr(target, "__module__", None) not in ("_operator", "builtins", "math")


class NormalizeOperators(Transformer):
    """Replaces calls of binary operators by Python's operators, such as ``+`` for ``torch.add``."""

    binary_magic_method_remap = {
        mt.add: operator.add, mt.mul: operator.mul, mt.sub: operator.sub, mt.div: operator.truediv,
        mt.floor_divide: operator.floordiv, mt.remainder: operator.mod, mt.eq: operator.eq, mt.ne: operator.ne, mt.lt: operator.lt,
        mt.le: operator.le, mt.gt: operator.gt, mt.ge: operator.ge,
    }  # fmt: skip

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record the call of a function and return its proxy."""
        if target in self.binary_magic_method_remap and len(args) == 2 and not kwargs and isinstance(args[0], Proxy):
            return super().call_function(self.binary_magic_method_remap[target], args, {})
        return super().call_function(target, args, kwargs)


