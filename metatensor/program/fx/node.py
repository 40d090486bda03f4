"""Nodes of a graph, each of which is one operation."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from metatensor._core.dtype import spelling
from metatensor._core.op import Op
from metatensor.overloads import OpOverload
from metatensor.program.fx.immutable_collections import frozen, immutable_dict, immutable_list

if TYPE_CHECKING:
    from metatensor.program.fx.graph import Graph
    from metatensor.program.fx.operator_schemas import ArgsKwargsPair

__all__ = ["Argument", "BaseArgumentTypes", "Node", "Target", "has_side_effect", "map_aggregate", "map_arg"]

Target = Callable[..., Any] | str
BaseArgumentTypes = str | int | float | bool | complex
Argument = Any

_impure: set[Any] = set()
_side_effectful_functions = _impure


def has_side_effect(fn: Any) -> Any:
    """Mark a function as having side effects, so that dead code elimination keeps its calls. Return the function."""
    _impure.add(fn)
    return fn


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """Apply `fn` to each leaf of nested tuples, lists, dicts and slices. The lists and dicts returned cannot be modified."""
    if isinstance(a, tuple):
        parts = [map_aggregate(one, fn) for one in a]
        return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
    if isinstance(a, list):
        return immutable_list([map_aggregate(one, fn) for one in a])
    if isinstance(a, dict):
        return immutable_dict({key: map_aggregate(value, fn) for key, value in a.items()})
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
        self._prev = self._next = self
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

    # Arguments ----------------------------------------------------------------------

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
        """Replace the positional argument at `idx`. Raise IndexError if there is none."""
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Any) -> None:
        """Insert a positional argument before the one at `idx`, or after the last one.

        Raise AssertionError if there are fewer than `idx` arguments.
        """
        if not 0 <= idx <= len(self._args):
            raise AssertionError(f"Node.insert_arg: {self} has {len(self._args)} arguments, so none can be inserted at {idx}")
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key: str, arg: Any) -> None:
        """Replace the keyword argument `key`."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_all_uses_with(
        self, replace_with: Node, delete_user_cb: Callable[[Node], bool] | None = None, *, propagate_meta: bool = False
    ) -> list[Node]:
        """Use `replace_with` instead of this node in all nodes that use it.

        Parameters
        ----------
        replace_with : Node
        delete_user_cb : callable
            Function that returns whether a given user is changed. Default: all users are.
        propagate_meta : bool
            If True, `meta` is copied to `replace_with`, which must have none. Default: False.

        Returns
        -------
        list of Node
            The nodes that were changed.

        Raises
        ------
        AssertionError
            If `propagate_meta` is true and `replace_with` has metadata.
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(f"Node.replace_all_uses_with: {replace_with} has metadata, which would be overwritten")
            replace_with.meta.update(self.meta)
        changed = [user for user in list(self.users) if delete_user_cb is None or delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Use `new_input` instead of `old_input` in the arguments."""
        args, kwargs = map_arg((self._args, self._kwargs), lambda node: new_input if node is old_input else node)
        self._set(args, kwargs)

    def normalized_arguments(
        self, root: Any, arg_types: tuple[Any, ...] | None = None, kwarg_types: dict[str, Any] | None = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> ArgsKwargsPair | None:  # fmt: skip
        """Return the arguments in the order and under the names of the callee's signature.

        Parameters
        ----------
        root : Module
            The module with the submodules that the graph calls.
        arg_types, kwarg_types : tuple and dict, optional
            Ignored.
        normalize_to_only_use_kwargs : bool
            Return all arguments by keyword. Default: False.

        Returns
        -------
        ArgsKwargsPair or None
            None if there is no signature that fits, or for other nodes than calls of functions and modules.
        """
        from metatensor.program.fx.operator_schemas import normalize_function, normalize_module

        if self.op == "call_function":
            return normalize_function(self.target, self._args, self._kwargs, arg_types, kwarg_types, normalize_to_only_use_kwargs)
        if self.op == "call_module":
            return normalize_module(root, self.target, self._args, self._kwargs, normalize_to_only_use_kwargs)
        return None

    # The place in the graph ---------------------------------------------------------

    @property
    def next(self) -> Node:
        """The node after this one. That of the last node is the graph's root, whose `op` is "root"."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before this one. That of the first node is the graph's root, whose `op` is "root"."""
        return self._prev

    def _unlink(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    def _remove_from_list(self) -> None:
        self._unlink()

    def prepend(self, x: Node) -> None:
        """Move the node `x` of the same graph directly before this one. Raise AssertionError for one of another graph."""
        if x.graph is not self.graph:
            raise AssertionError(f"Node.prepend: {x} belongs to another graph")
        if x is self:
            return
        x._unlink()
        self._link_before(x)

    def _link_before(self, x: Node) -> None:
        x._prev, x._next = self._prev, self
        x._prev._next = self._prev = x

    def append(self, x: Node) -> None:
        """Move the node `x` of the same graph directly after this one. Raise AssertionError for one of another graph."""
        if x is not self._next:
            self._next.prepend(x)

    def __lt__(self, other: Node) -> bool:
        """Return whether this node stands before another one in their graph."""
        node = self._next
        while node.op != "root":
            if node is other:
                return True
            node = node._next
        return False

    def __gt__(self, other: Node) -> bool:
        return other < self

    def __le__(self, other: Node) -> bool:
        return self is other or self < other

    def __ge__(self, other: Node) -> bool:
        return self is other or other < self

    # What the node is ---------------------------------------------------------------

    @property
    def stack_trace(self) -> str | None:
        """The lines of code that created the node, ``meta["stack_trace"]``, or None."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Return whether dead code elimination must keep this node.

        These are placeholders and outputs; calls of functions and methods that their names or `has_side_effect` mark as having
        side effects; nodes whose ``meta["writes"]`` is not empty; and calls of modules without the attribute
        ``_is_impure = False``. `impure_random` is ignored.
        """
        if self.op in ("placeholder", "output") or self.meta.get("writes"):
            return True
        if self.op == "call_module":
            owner = self.graph.owning_module
            found = None
            if owner is not None:
                try:
                    found = owner.get_submodule(self.target)
                except AttributeError:
                    raise AssertionError(f"Node.is_impure: the module has no submodule {self.target!r}") from None
            return bool(getattr(found, "_is_impure", owner is None))
        if self.op == "call_function":
            if self.target in _impure or self._kwargs.get("out") is not None:
                return True
            name = getattr(self.target, "__name__", "")
            if name in ("_assert", "setitem", "assert_fn", "_assert_is_none"):
                return True
            return (_in_place(name) or self._kwargs.get("inplace") is True) and not _operators(self.target) and self._writes_to_others()
        return self.op == "call_method" and (_in_place(self.target) or self.target == "__setitem__") and self._writes_to_others()

    def _writes_to_others(self) -> bool:
        """Return False if an in-place call changes only a new tensor that no other node uses."""
        first = self._args[0] if self._args else None
        if not isinstance(first, Node) or len(first.users) > 1:
            return True
        computed = first.op == "call_function" and _operators(first.target) and first.target is not operator.getitem
        return first.op != "call_module" and not computed

    def _rename(self, candidate: str) -> None:
        """Rename the node. A number is appended if the name is taken."""
        if candidate != self.name:
            self.name = self.graph._name(candidate)

    def _pretty_print_target(self, target: Any) -> str:
        """Return the target of a call of a function as text: its module and name."""
        if isinstance(target, str):
            return target
        if getattr(builtins, getattr(target, "__name__", "") or " ", None) is target:
            return f"builtins.{getattr(target, '__name__', target)}"
        if _operators(target):
            return f"operator.{target.__name__}"
        if isinstance(target, Op):
            return f"{spelling()}.{target.name}"
        if isinstance(target, OpOverload):
            return f"torch.ops.{target}"
        name = getattr(target, "__name__", None)
        return repr(target) if name is None else f"{getattr(target, '__module__', None) or ''}.{name}".lstrip(".")

    def format_node(
        self, placeholder_names: list[str] | None = None, maybe_return_typename: list[str] | None = None, *,
        include_tensor_metadata: bool = False,
    ) -> str | None:  # fmt: skip
        """Return the node as a line of text.

        Parameters
        ----------
        placeholder_names : list of str, optional
            If it is not empty, the name of a placeholder is appended to it, and None is returned instead of its line.
        maybe_return_typename : list of str, optional
            Its only element is replaced by the annotation of what the graph returns.
        include_tensor_metadata : bool
            Also give the dtype and shape of ``meta["val"]`` or ``meta["tensor_meta"]``. Default: False.
        """
        if self.op == "placeholder" and placeholder_names:
            placeholder_names.append(self.name)
            return None
        if self.op == "output":
            if self.type is not None and maybe_return_typename:
                maybe_return_typename[0] = f" -> {_type_name(self.type)}"
            return f"return {self._args[0]!r}" if self._args else "return"
        kind = "" if self.type is None else f"{_type_name(self.type)} "
        known = self.meta.get("val", self.meta.get("tensor_meta")) if include_tensor_metadata else None
        if known is not None and hasattr(known, "shape"):
            kind += f"{known.dtype!r}{list(known.shape)} "
        head = f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}[target={self._pretty_print_target(self.target)}]"
        if self.op == "placeholder":
            return head + (f"(default={self._args[0]!r})" if self._args else "")
        if self.op == "get_attr":
            return head
        return f"{head}(args = {_text(self._args)}, kwargs = {_text(self._kwargs)})"

    def __repr__(self) -> str:
        return self.name


def _get_qualified_name(func: Callable[..., Any]) -> str:
    """Return the name of a function with its module."""
    if getattr(builtins, func.__name__, None) is func:
        return func.__name__
    module = {"_operator": "operator"}.get(func.__module__ or "", func.__module__) if not isinstance(func, Op) else spelling()
    return f"{module}.{func.name if isinstance(func, Op) else func.__name__}".replace("torch._ops", "torch.ops", 1)


def _type_repr(obj: Any) -> str:
    """Return a type as text, and a function by its name."""
    return _type_name(obj) if isinstance(obj, type) else "..." if obj is ... else getattr(obj, "__name__", repr(obj))


def _in_place(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__")


def _operators(target: Any) -> bool:
    return getattr(operator, getattr(target, "__name__", "") or " ", None) is target


def _type_name(value: Any) -> str:
    if isinstance(value, type):
        return value.__qualname__ if value.__module__ == "builtins" else f"{value.__module__}.{value.__qualname__}"
    return str(value)


def _text(value: Any) -> str:
    """Return arguments as text, in which nodes are marked by a percent sign."""
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return f"({', '.join(map(_text, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_text(one)}" for key, one in value.items()) + "}"
    return f"%{value.name}" if isinstance(value, Node) else str(value)
