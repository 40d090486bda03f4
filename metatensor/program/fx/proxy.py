"""Proxies, which record the operations on them, and the base class of tracers.

A `Proxy` is not a tensor. Operators that get one as an argument call its ``__torch_function__``.
"""

from __future__ import annotations

import dataclasses
import dis
import enum
import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

import metatensor as mt
from metatensor._core.op import Op, OpMethod
from metatensor.overloads import OpOverload
from metatensor.program.fx.graph import Graph
from metatensor.program.fx.node import Node, map_aggregate
from metatensor.program.fx.signatures import spelled_out

__all__ = ["Attribute", "GraphAppendingTracer", "ParameterProxy", "Proxy", "Scope", "ScopeContextManager", "TraceError", "TracerBase",
           "assert_fn", "find_tracer", "first_proxy", "has_proxy"]  # fmt: skip


class TraceError(ValueError):
    """Raised if traced code needs the value of a proxy."""


class Scope:
    """The module whose forward is traced.

    Attributes
    ----------
    module_path : str
    module_type : type or None
    """

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path, self.module_type = module_path, module_type


class ScopeContextManager:
    """Context in which a `Scope` has the fields of another one."""

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._scope, self._current = scope, current_scope
        self._before = scope.module_path, scope.module_type

    def __enter__(self) -> Scope:
        self._scope.module_path, self._scope.module_type = self._current.module_path, self._current.module_type
        return self._scope

    def __exit__(self, *exc: object) -> None:
        self._scope.module_path, self._scope.module_type = self._before


def assert_fn(x: Any) -> None:
    """Raise AssertionError unless `x` is true. Target of the nodes that record assertions."""
    if not x:
        raise AssertionError("an assertion of the traced code does not hold")


def _refuse_mutation(target: Any) -> None:
    """Raise RuntimeError for an operator that changes its first argument in place."""
    if isinstance(target, Op) and target.functional is not target:
        raise RuntimeError(f"fx: {target.__name__}() changes an argument in place; the tracer has check_mutable_operations on")


# What an argument of a node can be, besides nodes, containers and what a tracer makes nodes of.
_PLAIN = (
    str, int, float, bool, complex, bytes, type(None), type(...), mt.dtype, mt.device, mt.memory_format, mt.layout, mt.Generator, mt.Tensor,
    Op, OpOverload, enum.Enum,
)  # fmt: skip


class TracerBase:
    """Base class of tracers: creates nodes in a graph, and proxies for them.

    Attributes
    ----------
    check_mutable_operations : bool
        Raise RuntimeError when a traced call of an operator as a function changes an argument in place. Methods and
        ``out=`` are not checked. Default False.
    record_stack_traces : bool
        Note in ``meta["stack_trace"]`` of each node which line of the traced code created it. Default False.
    trace_asserts : bool
        Record ``assert`` statements about proxies as nodes. Default False: they raise TraceError.
    proxy_buffer_attributes : bool
        Return a proxy when traced code reads a buffer, as for parameters. Default False.
    traced_func_name : str
        The method of a module that is traced. Default "forward".
    """

    graph: Graph
    root: Any = None
    check_mutable_operations: bool = False
    record_stack_traces: bool = False
    trace_asserts: bool = False
    proxy_buffer_attributes: bool = False
    traced_func_name: str = "forward"
    scope: Scope
    module_stack: dict[str, Any]
    node_name_to_scope: dict[str, tuple[str, Any]]

    def create_node(
        self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str | None = None, type_expr: Any = None
    ) -> Node:
        """Add a node to the graph."""
        if kind == "call_function" and self.check_mutable_operations:
            _refuse_mutation(target)
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        scope = getattr(self, "scope", None)
        if scope is not None:
            self.node_name_to_scope[node.name] = (scope.module_path, scope.module_type)
        if getattr(self, "module_stack", None):
            node.meta["nn_module_stack"] = dict(self.module_stack)
        return node

    def proxy(self, node: Node) -> Any:
        """Return a proxy for the result of a node."""
        return Proxy(node, self)

    def create_proxy(
        self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str | None = None, type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Any] | None = None,
    ) -> Any:  # fmt: skip
        """Add a node and return a proxy for it. Its arguments may contain proxies."""
        node = self.create_node(kind, target, self.create_arg(tuple(args)), self.create_arg(dict(kwargs)), name, type_expr)
        if self.record_stack_traces and "stack_trace" not in node.meta:
            node.meta["stack_trace"] = _lines_of_code()
        return self.proxy(node) if proxy_factory_fn is None else proxy_factory_fn(node)

    def create_arg(self, a: Any) -> Any:
        """Replace the proxies in nested containers by their nodes.

        A dataclass becomes a node that constructs one. An object with a method ``__fx_create_arg__`` becomes what that returns.

        Raises
        ------
        NotImplementedError
            If an argument is of a class that graphs cannot hold.
        RuntimeError
            If a key of a dict is a proxy.
        """
        if isinstance(a, Proxy):
            return a.node
        if isinstance(a, tuple):
            parts = [self.create_arg(one) for one in a]
            return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
        if isinstance(a, list):
            return [self.create_arg(one) for one in a]
        if isinstance(a, dict):
            for key in a:
                if has_proxy(key):
                    raise RuntimeError(f"fx: the key {key!r} of a dict depends on the values of a trace, so a graph cannot hold the dict")
            return {self.create_arg(key): self.create_arg(value) for key, value in a.items()}
        if isinstance(a, slice):
            return slice(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, range):
            return range(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        return self._leaf(a)

    def _leaf(self, a: Any) -> Any:
        if isinstance(a, (*_PLAIN, Node)):
            return a
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if dataclasses.is_dataclass(a) and not isinstance(a, type):
            fields = {field.name: self.create_arg(getattr(a, field.name)) for field in dataclasses.fields(a)}
            return self.create_node("call_function", type(a), (), fields)
        raise NotImplementedError(f"fx: a {type(a).__name__} cannot be an argument or a result in a graph: {a!r:.100}")

    def to_bool(self, obj: Any) -> bool:
        """Raise TraceError. Called when code branches on a proxy."""
        raise TraceError(f"fx: code branches on the value of {obj.node}, which is not known while it is traced")

    def iter(self, obj: Any) -> Iterator[Any]:
        """Raise TraceError. Called when code iterates over a proxy."""
        raise TraceError(f"fx: code loops over {obj.node}, whose length is not known while it is traced")

    def keys(self, obj: Any) -> Any:
        """Return a proxy for ``obj.keys()``. Called for ``**obj``."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """The tracer of proxies that were created without one. It only adds nodes."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph


class Proxy:
    """The result of a node while code is traced. Every operation on it adds a node to the graph.

    Parameters
    ----------
    node : Node
    tracer : TracerBase, optional
        Default: a tracer that only appends nodes to the graph of `node`.
    """

    node: Node
    tracer: TracerBase

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __getattr__(self, name: str) -> Any:
        if name[:2] == name[-2:] == "__":
            raise AttributeError(name)
        return Attribute(self, name)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tracer = find_tracer((args, kwargs))
        if isinstance(func, OpMethod) or getattr(func, "__objclass__", None) is mt.Tensor or vars(mt.Tensor).get(func.__name__) is func:
            return tracer.create_proxy("call_method", func.__name__, args, kwargs or {})
        wish: dict[str, Any] = {}
        kwargs = kwargs or {}
        if isinstance(func, Op):
            space, _, name = func.name.partition(".")
            if space in ("fft", "linalg", "special"):
                wish["name"] = f"{space}_{name}"
            args, kwargs = spelled_out(func, args, kwargs)
        return tracer.create_proxy("call_function", func, args, kwargs, **wish)

    def keys(self) -> Any:
        """Return what the tracer's `keys` returns."""
        return self.tracer.keys(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        found = _running(sys._getframe(1))
        if found is not None and found[0].opname == "UNPACK_SEQUENCE":
            return (operator.getitem(self, index) for index in range(found[0].arg or 0))  # type: ignore[call-overload]
        return self.tracer.iter(self)

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts and _asserts(_running(sys._getframe(1))):
            self.tracer.create_proxy("call_function", assert_fn, (self,), {})
            return True
        return self.tracer.to_bool(self)

    def __len__(self) -> int:
        raise RuntimeError("fx: len() of a proxy is not known while code is traced; wrap('len') makes it a node")

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.node.name})"


class Attribute(Proxy):
    """An attribute of a proxy. Using it adds a node that reads it, and calling it adds a method call."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node that reads the attribute. It is created on first access, because method calls do not need it."""
        self._node = self._node or _read(self.root, self.attr)
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"


def _read(root: Proxy, attr: str) -> Node:
    """Add a node that reads an attribute of another node's result."""
    return root.tracer.create_proxy("call_function", getattr, (root, attr), {}).node


class ParameterProxy(Proxy):
    """A proxy of a parameter, whose shape is known while code is traced. See ``Tracer(param_shapes_constant=True)``."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Any) -> None:
        super().__init__(node, tracer)
        self.name, self.param = name, param

    @property
    def shape(self) -> Any:
        """The shape of the parameter."""
        return self.param.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions of the parameter."""
        return self.param.ndim

    def size(self, *args: Any) -> Any:
        """Return the shape of the parameter, or one size."""
        return self.param.size(*args)

    def dim(self) -> int:
        """Return the number of dimensions of the parameter."""
        return self.param.dim()

    def numel(self) -> int:
        """Return the number of elements of the parameter."""
        return self.param.numel()

    nelement = numel


def find_tracer(values: Any) -> TracerBase:
    """Return the tracer of the proxies in nested containers. Raise ValueError unless there is exactly one."""
    found: list[TracerBase] = []

    def note(leaf: Any) -> None:
        if isinstance(leaf, Proxy) and leaf.tracer not in found:
            found.append(leaf.tracer)

    map_aggregate(values, note)
    if not found or any(not isinstance(one, GraphAppendingTracer) or one.graph is not found[0].graph for one in found[1:]):
        raise ValueError(f"fx: expected proxies of one tracer, found {len(found)} tracers")
    return found[0]


def first_proxy(values: Any) -> Proxy | None:
    """Return the first proxy in nested containers, or None."""
    if isinstance(values, (tuple, list)):
        return next((found for found in map(first_proxy, values) if found is not None), None)
    if isinstance(values, dict):
        return first_proxy(list(values.values()))
    if isinstance(values, slice):
        return first_proxy((values.start, values.stop, values.step))
    return values if isinstance(values, Proxy) else None


def has_proxy(values: Any) -> bool:
    """Return whether nested containers hold a proxy."""
    return first_proxy(values) is not None


# Looking at the code that runs -----------------------------------------------------------------------------------------


def _running(frame: Any) -> list[dis.Instruction] | None:
    """Return the instructions of a frame from the current one on, or None if it cannot be found."""
    found = list(dis.get_instructions(frame.f_code))
    for i, one in enumerate(found):
        if one.offset == frame.f_lasti:
            return found[i:]
    return None


def _asserts(found: list[dis.Instruction] | None) -> bool:
    """Return whether the instructions raise AssertionError if the current one's value is false."""
    rest = [one for one in (found or ())[:8] if one.opname not in ("CACHE", "NOP", "NOT_TAKEN", "TO_BOOL", "EXTENDED_ARG")]
    jump = next((i for i, one in enumerate(rest) if "JUMP" in one.opname and "TRUE" in one.opname), None)
    if jump is None or jump > 1 or len(rest) <= jump + 1:
        return False
    after = rest[jump + 1]
    return after.opname == "LOAD_ASSERTION_ERROR" or after.opname == "LOAD_COMMON_CONSTANT" and after.argval is AssertionError


def _lines_of_code() -> str:
    """Return the lines of code that are running, outermost first, without those of this package."""
    lines: list[str] = []
    frame: Any = sys._getframe(2)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith("metatensor."):
            lines.append(f'  File "{frame.f_code.co_filename}", line {frame.f_lineno}, in {frame.f_code.co_name}')
        frame = frame.f_back
    return "\n".join(reversed(lines))


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


# In-place operators are recorded as ones that compute a new tensor, because Python falls back to these.
for _name in "add sub mul truediv floordiv mod pow matmul lshift rshift and or xor".split():
    _target = getattr(operator, f"{_name}_" if _name in ("and", "or") else _name)
    _operator(_name, _target)
    _reflected(_name, _target)
for _name in ("eq", "ne", "lt", "le", "gt", "ge", "getitem", "neg", "pos", "invert", "abs"):
    _operator(_name, getattr(operator, _name))
_operator("divmod", divmod)
_operator("round", round)
