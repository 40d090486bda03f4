"""Trees of nested containers: flattening into leaves, unflattening, and mapping over leaves."""

from __future__ import annotations

import dataclasses
import json
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, NamedTuple

__all__ = [
    "Context", "FlattenFunc", "GetAttrKey", "KeyEntry", "KeyPath", "LeafSpec", "MappingKey", "PyTree", "SUPPORTED_NODES",
    "SequenceKey", "TreeSpec", "UnflattenFunc", "arg_tree_leaves", "is_namedtuple", "key_get", "keystr",
    "register_pytree_node", "tree_all", "tree_all_only", "tree_any", "tree_any_only", "tree_flatten",
    "tree_flatten_with_path", "tree_is_leaf", "tree_iter", "tree_leaves", "tree_leaves_with_path", "tree_map",
    "tree_map_", "tree_map_only", "tree_map_only_", "tree_map_with_path", "tree_structure", "tree_unflatten",
    "treespec_dumps", "treespec_loads", "treespec_pprint",
]  # fmt: skip

Context = Any
PyTree = Any
FlattenFunc = Callable[[Any], tuple[list, Any]]
UnflattenFunc = Callable[[Iterable[Any], Any], Any]
KeyEntry = Any
KeyPath = tuple
IsLeaf = Callable[[Any], bool]


@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """A step of a path: an index of a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """Return the element at the index."""
        return sequence[self.idx]


@dataclasses.dataclass(frozen=True)
class MappingKey:
    """A step of a path: a key of a mapping."""

    key: Hashable

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """Return the value of the key."""
        return mapping[self.key]


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """A step of a path: an attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """Return the attribute."""
        return getattr(obj, self.name)


class NodeDef(NamedTuple):
    """The functions that flatten and unflatten a type of container."""

    type: Any
    flatten_fn: FlattenFunc
    unflatten_fn: UnflattenFunc
    flatten_with_keys_fn: Callable[[Any], tuple[list, Any]] | None


SUPPORTED_NODES: dict[Any, NodeDef] = {}
_serialized: dict[str, Any] = {}
_names: dict[Any, str] = {}
_codecs: dict[Any, tuple[Any, Any]] = {}


def register_pytree_node(
    cls: Any,
    flatten_fn: FlattenFunc,
    unflatten_fn: UnflattenFunc,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Any], Any] | None = None,
    from_dumpable_context: Callable[[Any], Any] | None = None,
    flatten_with_keys_fn: Callable[[Any], tuple[list, Any]] | None = None,
) -> None:
    """Register a class whose instances are inner nodes of trees. Instances of subclasses remain leaves.

    Parameters
    ----------
    cls : type
    flatten_fn : callable
        Function of an instance that returns a list of children and a context.
    unflatten_fn : callable
        Function of children and a context that returns an instance.
    serialized_type_name : str, optional
        Name in serialized specs. Default: the qualified name of the class.
    to_dumpable_context, from_dumpable_context : callable, optional
        Conversion of the context to a str and back. Default: JSON.
    flatten_with_keys_fn : callable, optional
        Like `flatten_fn`, but with (key, child) pairs instead of children. Functions that return paths need it.

    Raises
    ------
    ValueError
        If the class is registered already.
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"register_pytree_node: {cls} is registered already")
    _register(cls, flatten_fn, unflatten_fn, serialized_type_name, to_dumpable_context, from_dumpable_context, flatten_with_keys_fn)


_register_pytree_node = register_pytree_node


def _register(
    cls: Any, flatten: Any, unflatten: Any, name: str | None = None, dump: Any = None, load: Any = None, with_keys: Any = None
) -> None:
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten, unflatten, with_keys)
    name = name or f"{cls.__module__}.{cls.__qualname__}"
    _serialized[name] = cls
    _names[cls] = name
    _codecs[cls] = (dump, load)


def register_dataclass(cls: Any, *, field_names: list[str] | None = None, drop_field_names: list[str] | None = None,
                       serialized_type_name: str | None = None) -> None:  # fmt: skip
    """Register a dataclass whose instances are inner nodes. Fields whose value is None are not children.

    `field_names` defaults to the fields that are arguments of the constructor. `drop_field_names` are left out.
    """
    fields = field_names if field_names is not None else [f.name for f in dataclasses.fields(cls) if f.init]
    fields = [name for name in fields if name not in (drop_field_names or ())]

    def flatten(value: Any) -> tuple[list, Any]:
        given = [name for name in fields if getattr(value, name) is not None]
        return [getattr(value, name) for name in given], (given, [name for name in fields if name not in given])

    def unflatten(values: Iterable[Any], context: Any) -> Any:
        return cls(**dict(zip(context[0], values, strict=True)), **dict.fromkeys(context[1]))

    def with_keys(value: Any) -> tuple[list, Any]:
        values, context = flatten(value)
        return [(GetAttrKey(name), v) for name, v in zip(context[0], values, strict=True)], context

    register_pytree_node(cls, flatten, unflatten, serialized_type_name=serialized_type_name, flatten_with_keys_fn=with_keys)


# Built-in containers ----------------------------------------------------------------------------------------------------


def is_namedtuple(obj: Any) -> bool:
    """Return whether `obj` is a named tuple, or a class of named tuples."""
    cls = obj if isinstance(obj, type) else type(obj)
    return issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def _sequence(make: Callable[[Any], Any]) -> tuple[Any, Any, Any, Any, Any]:
    return (lambda d: (list(d), None), lambda values, _: make(values), None, None,
            lambda d: ([(SequenceKey(i), v) for i, v in enumerate(d)], None))  # fmt: skip


def _dict_flatten(d: Mapping) -> tuple[list, Any]:
    return list(d.values()), list(d.keys())


def _dict_unflatten(values: Iterable[Any], context: Any) -> dict:
    return dict(zip(context, values, strict=True))


def _dict_flatten_with_keys(d: Mapping) -> tuple[list, Any]:
    return [(MappingKey(k), v) for k, v in d.items()], list(d.keys())


def _namedtuple_flatten_with_keys(d: Any) -> tuple[list, Any]:
    return [(GetAttrKey(name), getattr(d, name)) for name in d._fields], type(d)


for _cls, _made in ((tuple, _sequence(tuple)), (list, _sequence(list))):
    _register(_cls, _made[0], _made[1], f"builtins.{_cls.__name__}", None, None, _made[4])
_register(deque, lambda d: (list(d), d.maxlen), lambda values, maxlen: deque(values, maxlen=maxlen), "collections.deque",
          with_keys=lambda d: ([(SequenceKey(i), v) for i, v in enumerate(d)], d.maxlen))  # fmt: skip
_register(dict, _dict_flatten, _dict_unflatten, "builtins.dict", None, None, _dict_flatten_with_keys)
_register(OrderedDict, _dict_flatten, lambda values, keys: OrderedDict(zip(keys, values, strict=True)), "collections.OrderedDict",
          with_keys=_dict_flatten_with_keys)  # fmt: skip
_register(
    defaultdict,
    lambda d: (list(d.values()), [d.default_factory, list(d.keys())]),
    lambda values, context: defaultdict(context[0], zip(context[1], values, strict=True)),
    "collections.defaultdict",
    with_keys=lambda d: ([(MappingKey(k), v) for k, v in d.items()], [d.default_factory, list(d.keys())]),
)
_register(namedtuple, lambda d: (list(d), type(d)), lambda values, cls: cls(*values), "collections.namedtuple",  # type: ignore[arg-type]
          with_keys=_namedtuple_flatten_with_keys)  # fmt: skip


def _node_type(value: Any) -> Any:
    cls = type(value)
    if cls in SUPPORTED_NODES:
        return cls
    if is_namedtuple(cls):
        return namedtuple
    if is_structseq_class(cls):  # such as the result of an operator with several outputs
        _register(cls, lambda values: (list(values), None), lambda values, _: cls(values), f"{cls.__module__}.{cls.__qualname__}")
        return cls
    return None


def is_structseq_class(cls: type) -> bool:
    """Return whether a class is a C struct sequence, such as ``torch.return_types.max``."""
    return cls.__bases__ == (tuple,) and isinstance(getattr(cls, "n_sequence_fields", None), int)


def _get_node_type(tree: Any) -> Any:
    """Return the key of a value in `SUPPORTED_NODES`, if it is a container."""
    return namedtuple if is_namedtuple(tree) else type(tree)


def tree_is_leaf(tree: Any, is_leaf: IsLeaf | None = None) -> bool:
    """Return whether `tree` is a leaf: either not a container, or a value for which `is_leaf` returns true."""
    return (is_leaf is not None and is_leaf(tree)) or _node_type(tree) is None


# Structure ----------------------------------------------------------------------------------------------------------------


class TreeSpec:
    """The structure of a tree.

    Parameters
    ----------
    type : type, optional
        Type of the root node. None for a leaf.
    context : any, optional
        Data besides the children from which the node is rebuilt, such as the keys of a dict.
    children : iterable of TreeSpec
        Structures of the children.
    """

    __slots__ = ("_children", "_context", "num_children", "num_leaves", "num_nodes", "type")

    def __init__(self, type: Any, context: Any = None, children: Iterable[TreeSpec] = ()) -> None:
        self.type = type
        self._context = context
        self._children = list(children)
        self.num_children: int = len(self._children)
        self.num_nodes: int = 1 + sum(child.num_nodes for child in self._children)
        self.num_leaves: int = 1 if type is None else sum(child.num_leaves for child in self._children)

    @property
    def context(self) -> Any:
        """Data besides the children from which the node is rebuilt, such as the keys of a dict."""
        return self._context

    @property
    def children_specs(self) -> list[TreeSpec]:
        """The specs of the children."""
        return self._children

    def children(self) -> list[TreeSpec]:
        """Return the specs of the children."""
        return self._children

    def child(self, index: int) -> TreeSpec:
        """Return the spec of one child."""
        return self._children[index]

    def is_leaf(self) -> bool:
        """Return whether this is the spec of a leaf."""
        return self.type is None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return self.type is other.type and self._context == other._context and self._children == other._children

    def __hash__(self) -> int:
        return hash((self.type, self.num_leaves, self.num_nodes, tuple(self._children)))

    def __repr__(self) -> str:
        if self.type is None:
            return "*"
        return f"TreeSpec({getattr(self.type, '__name__', self.type)}, {self._context!r}, {self._children!r})"

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Return the tree with the given leaves. Raise ValueError if their number is wrong."""
        return tree_unflatten(leaves, self)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """Return the subtrees of `tree` at the positions where this spec has leaves.

        Raise ValueError if `tree` does not have this structure above those positions.
        """
        if self.type is None:
            return [tree]
        if _node_type(tree) is not self.type:
            raise ValueError(f"the trees differ: expected a {getattr(self.type, '__name__', self.type)}, got {type(tree).__name__}")
        parts, context = SUPPORTED_NODES[self.type].flatten_fn(tree)
        if self.type in (dict, OrderedDict, defaultdict):
            if set(_keys(context)) != set(_keys(self._context)):
                raise ValueError(f"the trees differ: expected the keys {_keys(self._context)}, got {_keys(context)}")
            parts = [tree[key] for key in _keys(self._context)]
        elif len(parts) != self.num_children or context != self._context:
            raise ValueError(f"the trees differ: expected {self.num_children} parts, got {len(parts)}")
        return [found for part, child in zip(parts, self._children, strict=True) for found in child.flatten_up_to(part)]


def _keys(context: Any) -> list:
    """Return the keys in the context of a dict or a defaultdict. A defaultdict's context starts with its factory."""
    of_default = len(context) == 2 and isinstance(context[1], list) and (callable(context[0]) or context[0] is None)
    return list(context[1] if of_default else context)


class LeafSpec(TreeSpec):
    """The spec of a leaf."""

    def __init__(self) -> None:
        super().__init__(None)


_LEAF = LeafSpec()


def tree_flatten(tree: Any, is_leaf: IsLeaf | None = None) -> tuple[list[Any], TreeSpec]:
    """Return the leaves of a tree from left to right, and its structure.

    Parameters
    ----------
    tree : any
        Nested tuples, lists, dicts, named tuples and other registered containers.
    is_leaf : callable, optional
        Function that returns true for containers to treat as leaves.

    Returns
    -------
    leaves : list
    treespec : TreeSpec

    Examples
    --------
    >>> from metatensor.utils._pytree import tree_flatten
    >>> leaves, spec = tree_flatten({"a": [1, 2], "b": (3,)})
    >>> leaves
    [1, 2, 3]
    """
    leaves: list[Any] = []

    def walk(value: Any) -> TreeSpec:
        kind = _node_type(value)
        if kind is None or (is_leaf is not None and is_leaf(value)):
            leaves.append(value)
            return _LEAF
        parts, context = SUPPORTED_NODES[kind].flatten_fn(value)
        return TreeSpec(kind, context, [walk(part) for part in parts])

    return leaves, walk(tree)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """Return the tree with the given leaves and structure. Raise ValueError if the number of leaves is wrong."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"tree_unflatten: expected a TreeSpec, got {type(treespec).__name__}")
    given = list(leaves)
    if len(given) != treespec.num_leaves:
        raise ValueError(f"tree_unflatten: expected {treespec.num_leaves} leaves, got {len(given)}")
    rest = iter(given)

    def build(spec: TreeSpec) -> Any:
        if spec.type is None:
            return next(rest)
        return SUPPORTED_NODES[spec.type].unflatten_fn([build(child) for child in spec._children], spec._context)

    return build(treespec)


def tree_iter(tree: Any, is_leaf: IsLeaf | None = None) -> Iterable[Any]:
    """Iterate over the leaves."""
    yield from tree_flatten(tree, is_leaf)[0]


def tree_leaves(tree: Any, is_leaf: IsLeaf | None = None) -> list[Any]:
    """Return the leaves."""
    return tree_flatten(tree, is_leaf)[0]


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list[Any]:
    """Return the leaves of all arguments."""
    return tree_leaves((*args, *kwargs.values()))


def tree_structure(tree: Any, is_leaf: IsLeaf | None = None) -> TreeSpec:
    """Return the structure of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf | None = None) -> Any:
    """Apply `func` to each leaf and return the tree of the results.

    Parameters
    ----------
    func : callable
        Function of a leaf of `tree` and of the subtrees at its position in each of `rests`.
    tree : any
    *rests : any
        Further trees, which have the structure of `tree` above its leaves.
    is_leaf : callable, optional
        Function that returns true for containers to treat as leaves.

    Examples
    --------
    >>> from metatensor.utils._pytree import tree_map
    >>> tree_map(lambda x, y: x + y, {"a": [1, 2]}, {"a": [10, 20]})
    {'a': [11, 22]}
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves, *(spec.flatten_up_to(rest) for rest in rests)]
    return tree_unflatten([func(*row) for row in zip(*columns, strict=True)], spec)


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf | None = None) -> Any:
    """Call `func` as `tree_map` does, and return `tree` itself."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def map_only(kind: Any, /) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Return a decorator that restricts a function to some leaves. It returns all others unchanged.

    `kind` is a type, a tuple of types, or a predicate.
    """
    fits = kind if callable(kind) and not isinstance(kind, type) else lambda value: isinstance(value, kind)

    def decorate(func: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda value: func(value) if fits(value) else value

    return decorate


def tree_map_only(kind: Any, /, func: Callable[[Any], Any], tree: Any, is_leaf: IsLeaf | None = None) -> Any:
    """Apply `func` to the leaves selected by `kind`, as in `map_only`, and return the tree of the results."""
    return tree_map(map_only(kind)(func), tree, is_leaf=is_leaf)


def tree_map_only_(kind: Any, /, func: Callable[[Any], Any], tree: Any, is_leaf: IsLeaf | None = None) -> Any:
    """Call `func` for the leaves selected by `kind`, as in `map_only`, and return `tree` itself."""
    return tree_map_(map_only(kind)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf | None = None) -> bool:
    """Return whether `pred` is true for all leaves."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf | None = None) -> bool:
    """Return whether `pred` is true for at least one leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(kind: Any, /, pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf | None = None) -> bool:
    """Return whether `pred` is true for all leaves of the given type or types."""
    return all(pred(leaf) for leaf in tree_leaves(tree, is_leaf) if isinstance(leaf, kind))


def tree_any_only(kind: Any, /, pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf | None = None) -> bool:
    """Return whether `pred` is true for at least one leaf of the given type or types."""
    return any(pred(leaf) for leaf in tree_leaves(tree, is_leaf) if isinstance(leaf, kind))


# Paths --------------------------------------------------------------------------------------------------------------------


def tree_flatten_with_path(tree: Any, is_leaf: IsLeaf | None = None) -> tuple[list[tuple[tuple, Any]], TreeSpec]:
    """Return (path, leaf) pairs from left to right, and the structure of the tree.

    A path is a tuple of keys. Raise ValueError for containers registered without `flatten_with_keys_fn`.
    """
    found: list[tuple[tuple, Any]] = []

    def walk(value: Any, path: tuple) -> None:
        kind = _node_type(value)
        if kind is None or (is_leaf is not None and is_leaf(value)):
            found.append((path, value))
            return
        with_keys = SUPPORTED_NODES[kind].flatten_with_keys_fn
        if with_keys is None:
            raise ValueError(f"tree_flatten_with_path: {kind} was registered without flatten_with_keys_fn")
        for key, part in with_keys(value)[0]:
            walk(part, (*path, key))

    walk(tree, ())
    return found, tree_structure(tree, is_leaf)


def tree_leaves_with_path(tree: Any, is_leaf: IsLeaf | None = None) -> list[tuple[tuple, Any]]:
    """Return (path, leaf) pairs from left to right."""
    return tree_flatten_with_path(tree, is_leaf)[0]


def tree_map_with_path(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf | None = None) -> Any:
    """Apply `func` to each leaf as `tree_map` does, with the path of the leaf as an additional first argument."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    columns = [[path for path, _ in pairs], [leaf for _, leaf in pairs], *(spec.flatten_up_to(rest) for rest in rests)]
    return tree_unflatten([func(*row) for row in zip(*columns, strict=True)], spec)


def keystr(kp: tuple) -> str:
    """Return a path as text, such as ``"[0]['a'].b"``."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: tuple) -> Any:
    """Return the part of `obj` at a path."""
    for key in kp:
        obj = key.get(obj)
    return obj


# Serialization ------------------------------------------------------------------------------------------------------------


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """Return a structure as JSON. Raise NotImplementedError if the context of a type is not serializable."""

    def encode(spec: TreeSpec) -> dict[str, Any]:
        if spec.type is None:
            return {"type": None, "context": None, "children_spec": []}
        dump = _codecs[spec.type][0]
        context = json.dumps(spec._context) if dump is None else dump(spec._context)
        return {"type": _names[spec.type], "context": context, "children_spec": [encode(child) for child in spec._children]}

    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"treespec_dumps: expected a TreeSpec, got {type(treespec).__name__}")
    try:
        return json.dumps([1, encode(treespec)])
    except TypeError as error:
        raise NotImplementedError(f"treespec_dumps: {error}") from None


def treespec_loads(serialized: str) -> TreeSpec:
    """Return the structure written by `treespec_dumps`.

    Raise ValueError for an unknown protocol and NotImplementedError for a type that is not registered.
    """
    protocol, tree = json.loads(serialized)
    if protocol != 1:
        raise ValueError(f"treespec_loads: unknown protocol {protocol}")

    def decode(spec: dict[str, Any]) -> TreeSpec:
        if spec["type"] is None:
            return _LEAF
        kind = _serialized.get(spec["type"])
        if kind is None:
            raise NotImplementedError(f"treespec_loads: the type {spec['type']!r} is not registered")
        load = _codecs[kind][1]
        context = json.loads(spec["context"]) if load is None else load(spec["context"])
        return TreeSpec(kind, context, [decode(child) for child in spec["children_spec"]])

    return decode(tree)


def treespec_pprint(treespec: TreeSpec) -> str:
    """Return a structure as readable text, with ``*`` for leaves."""
    return repr(tree_unflatten(["*"] * treespec.num_leaves, treespec))
