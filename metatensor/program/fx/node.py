"""Nodes of a graph, each of which is one operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from metatensor.program.fx.immutable_collections import frozen

if TYPE_CHECKING:
    from metatensor.program.fx.graph import Graph

__all__ = ["Argument", "BaseArgumentTypes", "Node", "Target", "has_side_effect", "map_aggregate", "map_arg"]

Target = Callable[..., Any] | str
BaseArgumentTypes = str | int | float | bool | complex
Argument = Any

_impure: set[Any] = set()


def has_side_effect(fn: Any) -> Any:
    """Mark a function as having side effects, so that dead code elimination keeps its calls. Return the function."""
    _impure.add(fn)
    return fn


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """Apply `fn` to each leaf of nested tuples, lists, dicts and slices."""
    if isinstance(a, tuple):
        parts = [map_aggregate(one, fn) for one in a]
        return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
    if isinstance(a, list):
        return [map_aggregate(one, fn) for one in a]
    if isinstance(a, dict):
        return {key: map_aggregate(value, fn) for key, value in a.items()}
    if isinstance(a, slice):
        return slice(map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn))
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """Apply `fn` to each node in nested tuples, lists, dicts and slices."""
    return map_aggregate(a, lambda leaf: fn(leaf) if isinstance(leaf, Node) else leaf)


class Node:
    """One operation of a graph.

    Nodes are created by `Graph.create_node` and its shorthands.

    Parameters
    ----------
    graph : Graph
        The graph that the node belongs to.
    name : str
        Name of the result, unique in the graph.
    op : str
        Kind of operation: "placeholder", "get_attr", "call_function", "call_method", "call_module" or "output".
    target : callable or str
        The function for "call_function", else the name of an argument, attribute, method or submodule.
    args, kwargs : tuple and dict
        Arguments. A node among them represents its result.
    return_type : any, optional
        Stored as `type`.

    Raises
    ------
    ValueError
        If `target` is not callable for "call_function", or not a str for another kind.
    """

    def __init__(
        self, graph: Graph, name: str, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], return_type: Any = None
    ) -> None:
        if op == "call_function" and not callable(target):
            raise ValueError(f"Node: the target of call_function must be callable, got {target!r}")
        if op != "call_function" and not isinstance(target, str):
            raise ValueError(f"Node: the target of {op} must be a str, got {target!r}")
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, return_type
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._erased = False
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = {}
        self._input_nodes: dict[Node, None] = {}
        self._set(args, kwargs)

    def _set(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for node in self._input_nodes:
            node.users.pop(self, None)
        self._args, self._kwargs, self._input_nodes = frozen(tuple(args)), frozen(dict(kwargs)), {}

        def note(node: Node) -> Node:
            self._input_nodes[node] = None
            node.users[self] = None
            return node

        map_arg((self._args, self._kwargs), note)

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments. A node among them represents its result."""
        return self._args

    @args.setter
    def args(self, value: tuple[Any, ...]) -> None:
        self._set(value, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments. A node among them represents its result."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, value: dict[str, Any]) -> None:
        self._set(self._args, value)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, without duplicates."""
        return list(self._input_nodes)

    def update_arg(self, idx: int, arg: Any) -> None:
        """Replace the positional argument at `idx`."""
        self.args = (*self._args[:idx], arg, *self._args[idx + 1 :])

    def update_kwarg(self, key: str, arg: Any) -> None:
        """Replace the keyword argument `key`."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_all_uses_with(
        self, replace_with: Node, delete_user_cb: Callable[[Node], bool] = lambda user: True, *, propagate_meta: bool = False
    ) -> list[Node]:
        """Use `replace_with` instead of this node in all nodes that use it.

        Parameters
        ----------
        replace_with : Node
        delete_user_cb : callable
            Function that returns whether a given user is changed. Default: all users are.
        propagate_meta : bool
            If True, `meta` is copied to `replace_with`. Default: False.

        Returns
        -------
        list of Node
            The nodes that were changed.
        """
        if propagate_meta:
            replace_with.meta.update(self.meta)
        changed = [user for user in list(self.users) if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Use `new_input` instead of `old_input` in the arguments."""
        args, kwargs = map_arg((self._args, self._kwargs), lambda node: new_input if node is old_input else node)
        self._set(args, kwargs)

    def _neighbour(self, step: int) -> Node:
        place = self.graph._nodes.index(self) + step
        return self.graph._nodes[place] if 0 <= place < len(self.graph._nodes) else self.graph._root

    @property
    def next(self) -> Node:
        """The node after this one."""
        return self._neighbour(1)

    @property
    def prev(self) -> Node:
        """The node before this one."""
        return self._neighbour(-1)

    def prepend(self, x: Node) -> None:
        """Move the node `x` of the same graph directly before this one."""
        self.graph._move(x, self, 0)

    def append(self, x: Node) -> None:
        """Move the node `x` of the same graph directly after this one."""
        self.graph._move(x, self, 1)

    def is_impure(self, impure_random: bool = True) -> bool:
        """Return whether dead code elimination must keep this node.

        This holds for placeholders, outputs and calls of modules, and for calls of functions and methods whose names,
        or calls of `has_side_effect`, mark them as having side effects, and for nodes whose ``meta["writes"]`` is not empty.
        `impure_random` is ignored.
        """
        if self.op in ("placeholder", "output", "call_module") or self.meta.get("writes"):
            return True
        if self.op == "call_function":
            name = getattr(self.target, "__name__", "")
            return self.target in _impure or name in ("_assert", "setitem") or name.endswith("_") and not name.endswith("__")
        return self.op == "call_method" and self.target.endswith("_") and not self.target.endswith("__")

    def format_node(self, *_: Any, **__: Any) -> str:
        """Return the node as a line of text."""
        target = self.target if isinstance(self.target, str) else getattr(self.target, "__name__", repr(self.target))
        if self.op == "output":
            return f"return {self._args[0]!r}"
        args = ", ".join([*map(repr, self._args), *(f"{key}={value!r}" for key, value in self._kwargs.items())])
        return f"%{self.name} : [num_users={len(self.users)}] = {self.op}[target={target}]({args})"

    def __repr__(self) -> str:
        return self.name
