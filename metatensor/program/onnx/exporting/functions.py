"""Modules as functions of an ONNX model: each run of a module becomes one node, and modules that do the same share a function."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from onnx import helper

__all__ = ["DOMAIN", "with_functions"]

DOMAIN = "metatensor.modules"
"""The domain of the functions."""


def with_functions(nodes: Sequence[Any], outputs: Iterable[str], opset: int) -> tuple[list[Any], list[Any]]:
    """Return the graph's nodes with those of each module replaced by a function call, and the functions, inner ones first.

    Parameters
    ----------
    nodes : sequence of NodeProto
        Nodes in order. Their names begin with the path of their module and a slash.
    outputs : iterable of str
        The outputs of the graph.
    opset : int
        The version of the operator set.
    """
    folding = _Folding(opset)
    kept = folding.fold(list(nodes), 0, set(outputs))
    return kept, folding.functions


def _path(node: Any) -> list[str]:
    path = node.name.rpartition("/")[0]
    return path.split(".") if path else []


def _computation(node: Any) -> bytes:
    """Return what a node computes, without its metadata."""
    copy = type(node)()
    copy.CopyFrom(node)
    del copy.metadata_props[:]
    copy.doc_string = ""
    return copy.SerializeToString(deterministic=True)  # type: ignore[no-any-return]


class _Folding:
    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.functions: list[Any] = []
        self.known: dict[bytes, Any] = {}
        self.names: set[str] = set()
        self.calls = 0

    def fold(self, nodes: list[Any], depth: int, needed: set[str]) -> list[Any]:
        """Replace each run of nodes of a module deeper than `depth` by a call. Values in `needed` are used elsewhere."""
        found = []
        uses: dict[str, int] = {}
        for node in nodes:
            for name in set(node.input):
                uses[name] = uses.get(name, 0) + 1
        for key, run in groupby(nodes, lambda node: "".join(_path(node)[depth : depth + 1])):
            inside = list(run)
            if not key:
                found += inside
                continue
            own: dict[str, int] = {}
            for node in inside:
                for name in set(node.input):
                    own[name] = own.get(name, 0) + 1
            outer = {name for node in inside for name in node.output if name in needed or uses.get(name, 0) > own.get(name, 0)}
            path = _path(inside[0])[: depth + 1]
            inner = self.fold(inside, depth + 1, outer)
            found += [self.called(inner, path, outer)] if len(inner) > 1 else inner
        return found

    def called(self, nodes: list[Any], path: list[str], outer: set[str]) -> Any:
        """Return a call of the function that has these nodes."""
        made = {name for node in nodes for name in node.output}
        inputs = list(dict.fromkeys(name for node in nodes for name in node.input if name and name not in made))
        outputs = [name for node in nodes for name in node.output if name in outer]
        new = {name: f"x{i}" for i, name in enumerate(inputs)} | {name: f"y{i}" for i, name in enumerate(outputs)}
        body = []
        for i, node in enumerate(nodes):
            copy = type(node)()
            copy.CopyFrom(node)
            for names in (copy.input, copy.output):
                for k, name in enumerate(names):
                    if name:
                        names[k] = new.setdefault(name, f"v{len(new)}")
            copy.name = f"{node.op_type}_{i}"
            entries = [entry for entry in copy.metadata_props if entry.key != "module"]  # other modules may share the function
            del copy.metadata_props[:]
            copy.metadata_props.extend(entries)
            copy.doc_string = re.sub(r"module: [^;]*;?\s*", "", copy.doc_string)
            body.append(copy)
        key = b"\0".join([str(len(inputs)).encode(), str(len(outputs)).encode(), *map(_computation, body)])
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self.defined(".".join(path), body, len(inputs), len(outputs))
        elif any(a != b for a, b in zip(found.node, body)):  # called from several places
            for node in found.node:
                entries = [entry for entry in node.metadata_props if entry.key != "source"]
                del node.metadata_props[:]
                node.metadata_props.extend(entries)
                node.doc_string = re.sub(r"source: [^;]*;?\s*", "", node.doc_string)
        self.calls += 1
        call = helper.make_node(found.name, inputs, outputs, domain=DOMAIN, name=f"{'.'.join(path)}/{found.name}_{self.calls}")
        if nodes[0].metadata_props:
            entry = call.metadata_props.add()
            entry.key, entry.value = "module", ".".join(path)
        return call

    def defined(self, path: str, body: list[Any], inputs: int, outputs: int) -> Any:
        """Add a function, and return it."""
        wish = re.sub(r"\W", "_", path)
        wish = f"m_{wish}" if wish[0].isdigit() else wish
        name, n = wish, 1
        while name in self.names:
            name, n = f"{wish}_{n}", n + 1
        self.names.add(name)
        imports = [helper.make_opsetid("", self.opset), *(helper.make_opsetid(d, 1) for d in dict.fromkeys(n.domain for n in body) if d)]
        self.functions.append(helper.make_function(DOMAIN, name, [f"x{i}" for i in range(inputs)], [f"y{i}" for i in range(outputs)],
                                                   body, imports))  # fmt: skip
        return self.functions[-1]
