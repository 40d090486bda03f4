"""Structures of arguments and results in exported programs: text that describes how flat values are nested."""

from __future__ import annotations

import json
from collections import OrderedDict, defaultdict, deque
from typing import Any

from metatensor.program.encoding import Malformed
from metatensor.program.torchscript.values import named_tuple

__all__ = ["Structure"]

_DEPTH = 64


class Structure:
    """How values are nested.

    Parameters
    ----------
    kind : str or None
        The class, such as "builtins.tuple", or None for one value.
    keys : list, optional
        Keys of a dict, or names of the fields of a named tuple.
    children : list of Structure
        The structures of the parts.
    """

    def __init__(self, kind: str | None, keys: list[Any] | None, children: list[Structure], name: str = "") -> None:
        self.kind, self.keys, self.children, self.name = kind, keys, children, name
        self._tuple: Any = None

    @classmethod
    def of(cls, text: Any, fields: dict[str, list[str]]) -> Structure:
        """Return the structure that a text stands for. `fields` has the names of the fields of named tuples."""
        try:
            made = json.loads(text) if isinstance(text, str) else None
        except (ValueError, RecursionError):
            made = None
        if not isinstance(made, list) or len(made) != 2:
            raise Malformed("the structure of the arguments or of the result is not given")
        if made[0] != 1:
            raise Malformed(f"structures have version {made[0]!r:.20}, this reads version 1")
        return cls._of(made[1], fields, 0)

    @classmethod
    def _of(cls, spec: Any, fields: dict[str, list[str]], depth: int) -> Structure:
        if depth > _DEPTH or not isinstance(spec, dict) or not isinstance(spec.get("children_spec"), list):
            raise Malformed("a structure is nested too deeply or has no parts")
        kind, context = spec.get("type"), spec.get("context")
        children = [cls._of(one, fields, depth + 1) for one in spec["children_spec"]]
        if kind is None:
            if children:
                raise Malformed("a value has parts")
            return cls(None, None, [])
        keys, name = None, ""
        if kind in ("builtins.dict", "collections.OrderedDict", "collections.defaultdict"):
            if isinstance(context, dict):
                context = context.get("dict_context")
            try:
                keys = json.loads(context) if isinstance(context, str) else context
            except (ValueError, RecursionError):
                keys = None
            if not isinstance(keys, list) or len(keys) != len(children):
                raise Malformed("a dict has not as many keys as values")
            if not all(isinstance(key, (str, int, float, bool)) for key in keys):
                raise Malformed("a key of a dict is neither text nor a number")
        elif kind == "collections.namedtuple":
            name = str(context)
            keys = fields.get(name, [f"field{i}" for i in range(len(children))])
            if len(keys) != len(children):
                raise Malformed(f"the named tuple {name[:60]} has {len(children)} values and {len(keys)} names")
        elif kind not in ("builtins.tuple", "builtins.list", "collections.deque", "torch.Size"):
            raise NotImplementedError(f"arguments or results of class {kind!r:.80}")
        return cls(kind, keys, children, name)

    @property
    def count(self) -> int:
        """The number of values."""
        return 1 if self.kind is None else sum(one.count for one in self.children)

    def flat(self, value: Any, where: str) -> list[Any]:
        """Flatten a nested value. Raise TypeError, which names `where`, if it has another structure."""
        if self.kind is None:
            return [value]
        if self.kind in ("builtins.dict", "collections.OrderedDict", "collections.defaultdict"):
            if not isinstance(value, dict) or set(value) != set(self.keys or ()):
                keys = sorted(map(str, value)) if isinstance(value, dict) else type(value).__name__
                raise TypeError(f"{where} must have the keys {sorted(map(str, self.keys or ()))}, got {keys}")
            parts = [value[key] for key in self.keys or ()]
        else:
            if not isinstance(value, (list, tuple, deque)) or len(value) != len(self.children):
                found = len(value) if isinstance(value, (list, tuple, deque)) else type(value).__name__
                raise TypeError(f"{where} must have {len(self.children)} elements, got {found}")
            parts = list(value)
        return [leaf for one, part in zip(self.children, parts) for leaf in one.flat(part, where)]

    def nested(self, values: list[Any]) -> Any:
        """Nest flat values. They are removed from the beginning of the list."""
        if self.kind is None:
            return values.pop(0)
        parts = [one.nested(values) for one in self.children]
        if self.kind == "builtins.tuple":
            return tuple(parts)
        if self.kind in ("builtins.list", "torch.Size"):
            return parts
        if self.kind == "collections.deque":
            return deque(parts)
        if self.kind == "collections.namedtuple":
            self._tuple = self._tuple or named_tuple(self.name.rpartition(".")[2] or "NamedTuple", self.keys or ())
            return self._tuple(*parts)
        pairs = zip(self.keys or (), parts)
        if self.kind == "collections.OrderedDict":
            return OrderedDict(pairs)
        return defaultdict(None, pairs) if self.kind == "collections.defaultdict" else dict(pairs)
