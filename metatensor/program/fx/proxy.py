"""Proxies, which record the operations on them, and the base class of tracers.

A `Proxy` is a Tensor of a subclass that overrides every operator, because operators accept only tensors. The data
behind it is never read.
"""

from __future__ import annotations

import dis
import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

import metatensor as mt
from metatensor._core.op import Op
from metatensor._core.storage import make_storage
from metatensor._core.storage_views import tensor_from_storage
from metatensor.program.fx.graph import Graph
from metatensor.program.fx.node import Node, map_aggregate

__all__ = ["Attribute", "Proxy", "TraceError", "TracerBase", "find_tracer", "has_proxy"]


class TraceError(ValueError):
    """Raised if traced code needs the value of a proxy."""


def _refuse_mutation(target: Any) -> None:
    """Raise RuntimeError for an operator that changes its first argument in place."""
    if isinstance(target, Op) and target.functional is not target:
        raise RuntimeError(f"fx: {target.__name__}() changes an argument in place; the tracer has check_mutable_operations on")


class TracerBase:
    """Base class of tracers: creates nodes in a graph, and proxies for them.

    Attributes
    ----------
    check_mutable_operations : bool
        Raise RuntimeError when a traced call of an operator as a function changes an argument in place. Methods and
        ``out=`` are not checked. Default False.
    """

    graph: Graph
    root: Any = None
    check_mutable_operations: bool = False

    def create_node(
        self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str | None = None, type_expr: Any = None
    ) -> Node:
        """Add a node to the graph."""
        if kind == "call_function" and self.check_mutable_operations:
            _refuse_mutation(target)
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node: Node) -> Any:
        """Return a proxy for the result of a node."""
        return Proxy(node, self)

    def create_proxy(
        self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str | None = None, type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Any] | None = None,
    ) -> Any:  # fmt: skip
        """Add a node and return a proxy for it. Its arguments may contain proxies."""
        node = self.create_node(kind, target, self.create_arg(tuple(args)), self.create_arg(dict(kwargs)), name, type_expr)
        return self.proxy(node) if proxy_factory_fn is None else proxy_factory_fn(node)

    def create_arg(self, a: Any) -> Any:
        """Replace the proxies in nested containers by their nodes."""
        return map_aggregate(a, self._leaf)

    def _leaf(self, a: Any) -> Any:
        return a.node if isinstance(a, Proxy) else a

    def to_bool(self, obj: Any) -> bool:
        """Raise TraceError. Called when code branches on a proxy."""
        raise TraceError(f"fx: code branches on the value of {obj.node}, which is not known while it is traced")

    def iter(self, obj: Any) -> Iterator[Any]:
        """Raise TraceError. Called when code iterates over a proxy."""
        raise TraceError(f"fx: code loops over {obj.node}, whose length is not known while it is traced")

    def keys(self, obj: Any) -> Any:
        """Return a proxy for ``obj.keys()``. Called for ``**obj``."""
        return Attribute(obj, "keys")()


_OWN = frozenset(("node", "tracer", "root", "attr", "_node"))


def _behind() -> Any:
    """Return a 0-d tensor that needs no device plugin. Operators accept it together with tensors on any device."""
    return tensor_from_storage(make_storage("cpu", 8, bytearray(8)), mt.int64, (), (), 0)


class Proxy(mt.Tensor):
    """A tensor that represents the result of a node. Every operation on it adds a node to the graph.

    Parameters
    ----------
    node : Node
    tracer : TracerBase, optional
        Default: a tracer that only appends nodes to the graph of `node`.
    """

    node: Node
    tracer: TracerBase
    _overrides_operators_only = True

    def __new__(cls, node: Node, tracer: TracerBase | None = None) -> Any:
        made: Any = mt.Tensor._make_subclass(cls, _behind())
        made.tracer = _GraphAppender(node.graph) if tracer is None else tracer
        made.node = node
        return made

    def __getattribute__(self, name: str) -> Any:
        if name in _OWN or name[:2] == name[-2:] == "__":
            return super().__getattribute__(name)
        return Attribute(self, name)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tracer = find_tracer((args, kwargs))
        return tracer.create_proxy("call_function", func, args, kwargs or {})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        count = _unpacked(sys._getframe(1))
        return self.tracer.iter(self) if count is None else (self[index] for index in range(count))

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def __len__(self) -> int:
        raise RuntimeError("fx: len() of a proxy is not known while code is traced; wrap('len') makes it a node")

    def __index__(self) -> int:
        raise TraceError(f"fx: code needs {self.node} as a number, which is not known while it is traced")

    __int__ = __index__

    def __float__(self) -> float:
        raise TraceError(f"fx: code needs {self.node} as a number, which is not known while it is traced")

    def __complex__(self) -> complex:
        raise TraceError(f"fx: code needs {self.node} as a number, which is not known while it is traced")

    def __contains__(self, item: Any) -> bool:
        raise TraceError(f"fx: code tests membership in {self.node}, whose value is not known while it is traced")

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError("fx: items of proxies cannot be assigned; operators such as torch.where or index_put can be traced")

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"Proxy({self.node.name})"


class Attribute(Proxy):
    """An attribute of a proxy. Using it adds a node that reads it, and calling it adds a method call."""

    _node: Node | None

    def __new__(cls, root: Proxy, attr: str) -> Any:
        made: Any = mt.Tensor._make_subclass(cls, _behind())
        made.root, made.attr, made.tracer, made._node = root, attr, root.tracer, None
        return made

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node that reads the attribute. It is created on first access, because method calls do not need it."""
        self._node = self._node or _read(self.root, self.attr)
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


def _read(root: Proxy, attr: str) -> Node:
    """Add a node that reads an attribute of another node's result."""
    return root.tracer.create_proxy("call_function", getattr, (root, attr), {}).node


class _GraphAppender(TracerBase):
    """The tracer of proxies that were created without one. It only adds nodes."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph


def find_tracer(values: Any) -> TracerBase:
    """Return the tracer of the proxies in nested containers. Raise ValueError unless there is exactly one."""
    found: list[TracerBase] = []

    def note(leaf: Any) -> None:
        if isinstance(leaf, Proxy) and leaf.tracer not in found:
            found.append(leaf.tracer)

    map_aggregate(values, note)
    if len(found) != 1:
        raise ValueError(f"fx: expected proxies of one tracer, found {len(found)} tracers")
    return found[0]


def has_proxy(values: Any) -> bool:
    """Return whether nested containers hold a proxy."""
    found: list[Any] = []
    map_aggregate(values, lambda leaf: found.append(leaf) if isinstance(leaf, Proxy) else None)
    return bool(found)


def _unpacked(frame: Any) -> int | None:
    """Return the number of names that the frame's current instruction unpacks into, or None if it does not unpack."""
    for one in dis.get_instructions(frame.f_code):
        if one.offset == frame.f_lasti:
            return one.arg if one.opname == "UNPACK_SEQUENCE" else None
    return None


# Operators ------------------------------------------------------------------------------------------------------------


def _operator(name: str, target: Any) -> None:
    def call(self: Any, *args: Any) -> Any:
        return find_tracer((self, args)).create_proxy("call_function", target, (self, *args), {})

    call.__name__ = f"__{name}__"
    setattr(Proxy, call.__name__, call)


def _reflected(name: str, target: Any) -> None:
    def call(self: Any, other: Any) -> Any:
        return find_tracer((self, other)).create_proxy("call_function", target, (other, self), {})

    call.__name__ = f"__r{name}__"
    setattr(Proxy, call.__name__, call)


_TWO = "add sub mul truediv floordiv mod pow matmul lshift rshift and or xor"
for _name in _TWO.split():
    _target = getattr(operator, f"{_name}_" if _name in ("and", "or") else _name)
    _operator(_name, _target)
    _reflected(_name, _target)
    _operator(f"i{_name}", _target)  # in-place operators are recorded as ones that compute a new tensor
for _name in ("eq", "ne", "lt", "le", "gt", "ge", "getitem", "neg", "pos", "invert", "abs"):
    _operator(_name, getattr(operator, _name))
_operator("divmod", divmod)
_operator("round", round)
