"""Which nodes a backend supports."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from typing import Any

from metatensor.program.fx.node import Node
from metatensor.program.fx.passes.tools_common import CALLABLE_NODE_OPS, get_node_target

__all__ = ["IsNodeSupported", "OpSupports", "OperatorSupport", "OperatorSupportBase", "any_chain", "chain", "create_op_support"]

TargetTypeName = str
SupportDict = Mapping[str, Any]
IsNodeSupported = Callable[[Mapping[str, Any], Node], bool]


class OperatorSupportBase(abc.ABC):
    """The nodes that a backend supports. Subclasses define `is_node_supported`."""

    @abc.abstractmethod
    def is_node_supported(self, submodules: Mapping[str, Any], node: Node) -> bool:
        """Return whether a node is supported. `submodules` are those of the module by name."""


class OperatorSupport(OperatorSupportBase):
    """Support by target and dtypes.

    Parameters
    ----------
    support_dict : dict, optional
        Maps the name of each supported target, see `get_node_target`, to None or to the dtypes of the arguments: a pair of
        those for each positional argument, and a dict for keyword arguments. They are compared with ``meta["tensor_meta"]``.
    """

    _support_dict: SupportDict = {}

    def __init__(self, support_dict: SupportDict | None = None) -> None:
        self._support_dict = support_dict or {}

    def is_node_supported(self, submodules: Mapping[str, Any], node: Node) -> bool:
        """Return whether a node is supported."""
        if node.op not in CALLABLE_NODE_OPS:
            return True
        target = get_node_target(submodules, node)
        if target not in self._support_dict:
            return False
        if self._support_dict[target] is None:
            return True
        positional, named = self._support_dict[target]
        for i, dtypes in enumerate(positional):
            if i < len(node.args) and isinstance(node.args[i], Node) and not _has_dtype(node.args[i], dtypes):
                return False
        return all(not isinstance(node.kwargs.get(key), Node) or _has_dtype(node.kwargs[key], dtypes) for key, dtypes in named.items())


def _has_dtype(node: Node, dtypes: Any) -> bool:
    found = node.meta.get("tensor_meta")
    return getattr(found, "dtype", None) in dtypes


def create_op_support(is_node_supported: IsNodeSupported) -> OperatorSupportBase:
    """Return a support that calls a function ``f(submodules, node)``."""

    class Support(OperatorSupportBase):
        """Support decided by a function."""

        def is_node_supported(self, submodules: Mapping[str, Any], node: Node) -> bool:
            return is_node_supported(submodules, node)

    return Support()


def chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Return a support that accepts the nodes that all of these accept."""
    return create_op_support(lambda submodules, node: all(one.is_node_supported(submodules, node) for one in op_support))


def any_chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Return a support that accepts the nodes that any of these accepts."""
    return create_op_support(lambda submodules, node: any(one.is_node_supported(submodules, node) for one in op_support))


class OpSupports:
    """Supports that reject some nodes, for use with `chain`."""

    @classmethod
    def decline_if_input_dtype(cls, dtype: Any) -> OperatorSupportBase:
        """Return a support that rejects nodes with an input of a dtype. Inputs need ``meta["tensor_meta"]`` or ``"val"``."""

        def supported(submodules: Mapping[str, Any], node: Node) -> bool:
            for given in node.all_input_nodes:
                found = given.meta.get("tensor_meta", given.meta.get("val"))
                if found is not None and getattr(found, "dtype", None) == dtype:
                    return False
            return True

        return create_op_support(supported)

    @classmethod
    def decline_if_node_in_names(cls, disallow_set: set[str]) -> OperatorSupportBase:
        """Return a support that rejects nodes whose names are in a set."""
        return create_op_support(lambda submodules, node: node.name not in disallow_set)
