"""Graphs of ONNX models, prepared for running: nodes with their operators, attributes, and what is released after each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from metatensor.checkpoint.errors import CheckpointError
from metatensor.checkpoint.reading import shown
from metatensor.program.onnx.importing.operators import TABLE, Operator
from metatensor.program.onnx.importing.values import Known

__all__ = ["MAX_DEPTH", "Builder", "Graph", "Step"]

MAX_NODES = 200_000
"""Largest number of nodes of a model, including subgraphs and function bodies."""
MAX_DEPTH = 32
"""How deeply graphs and functions may be nested."""

DOMAINS = {"ai.onnx": ""}
_GRAPHS = (5, 10)
"""Types of attributes that have graphs."""


class Step:
    """A node."""

    __slots__ = ("attributes", "domain", "frees", "inputs", "kind", "name", "operator", "outputs", "proto", "version", "weak")

    def __init__(self, proto: Any, domain: str, version: int) -> None:
        self.proto = proto
        self.name: str = proto.name
        self.kind: str = proto.op_type
        self.domain, self.version = domain, version
        self.inputs: list[str] = list(proto.input)
        self.outputs: list[str] = list(proto.output)
        self.attributes: dict[str, Any] = {}
        self.operator: Operator | None = None
        self.frees: list[str] = []
        self.weak: dict[Any, Any] = {}
        """Graphs of the function that computes the node, by the types of its inputs."""

    def __str__(self) -> str:
        kind = f"{self.domain}.{self.kind}" if self.domain else self.kind
        return f"node {shown(self.name or next(filter(None, self.outputs), ''))} ({kind})"


class Graph:
    """A graph: nodes in order, names of inputs and outputs, and constant tensors by name."""

    __slots__ = ("captured", "constants", "inputs", "outputs", "steps")

    def __init__(self, inputs: list[str], outputs: list[str], constants: dict[str, Any], steps: list[Step]) -> None:
        self.inputs, self.outputs, self.constants, self.steps = inputs, outputs, constants, steps
        made = set(inputs) | set(constants)
        captured: set[str] = set()
        uses: list[set[str]] = []
        for step in steps:
            used = {name for name in step.inputs if name}
            for value in step.attributes.values():
                for graph in value if isinstance(value, list) else [value]:
                    if isinstance(graph, Graph):
                        used |= graph.captured
            uses.append(used)
            captured |= used - made
            made |= set(step.outputs)
        self.captured: set[str] = captured | (set(outputs) - made)
        last: set[str] = set(outputs) | set(constants) | {""}
        for step, used in zip(reversed(steps), reversed(uses), strict=True):
            step.frees = [name for name in (used | set(step.outputs)) - last if name not in captured]
            last |= used | set(step.outputs)


class Builder:
    """Prepares the graphs of a model."""

    def __init__(
        self, file: str, opsets: dict[str, int], functions: dict[tuple[str, str], Any], initializer: Callable[[Any, str], Any],
        constant: Callable[[Any], Any],
    ) -> None:
        self.file, self.opsets, self.functions = file, opsets, functions
        self._initializer, self._constant = initializer, constant
        self._nodes = MAX_NODES
        self.missing: set[str] = set()
        """Operators that are neither in the table nor functions."""

    def graph(self, proto: Any, prefix: str = "", depth: int = 0, opsets: dict[str, int] | None = None, given: Any = None) -> Graph:
        """Return a graph. If it is in a function, `given` has the attributes of the call of that function."""
        if depth > MAX_DEPTH:
            raise CheckpointError(self.file, "its graphs are nested too deeply")
        for values in (proto.initializer, proto.input, proto.output):
            self._check_text(value.name for value in values)
        constants = {message.name: self._initializer(message, prefix + message.name) for message in proto.initializer}
        for message in proto.sparse_initializer:
            constants[message.values.name] = self._constant(message)
        inputs = [value.name for value in proto.input]
        steps = [self._step(node, prefix, depth, opsets or self.opsets, given) for node in proto.node]
        return Graph(inputs, [value.name for value in proto.output], constants, steps)

    def function(self, proto: Any, given: dict[str, Any], depth: int = 0) -> Graph:
        """Return the body of a function for the attributes of a call."""
        if depth > MAX_DEPTH:
            raise CheckpointError(self.file, f"the function {shown(proto.name)} calls itself, or functions are nested too deeply")
        opsets = {DOMAINS.get(one.domain, one.domain): one.version for one in proto.opset_import} or self.opsets
        defaults = {one.name: self._attribute(one, "", depth, opsets, None) for one in proto.attribute_proto}
        steps = [self._step(node, "", depth, opsets, {**defaults, **given}) for node in proto.node]
        self._check_text((*proto.input, *proto.output))
        return Graph(list(proto.input), list(proto.output), {}, steps)

    def _check_text(self, texts: Iterable[Any]) -> None:
        """Raise an error if a text is not UTF-8. Protocol buffers give such a text as bytes."""
        for text in texts:
            if isinstance(text, bytes):
                raise CheckpointError(self.file, f"the name {text!r:.60} is not UTF-8")

    def _step(self, proto: Any, prefix: str, depth: int, opsets: dict[str, int], given: Any) -> Step:
        self._nodes -= 1
        if self._nodes < 0:
            raise CheckpointError(self.file, f"it has more than {MAX_NODES:,} nodes")
        self._check_text((proto.name, proto.op_type, proto.domain, *proto.input, *proto.output))
        domain = DOMAINS.get(proto.domain, proto.domain)
        step = Step(proto, domain, opsets.get(domain, 1))
        nested = any(attribute.type in _GRAPHS for attribute in proto.attribute)
        label = f"{prefix}{proto.name or next(iter(proto.output), '')}" if nested else ""
        for attribute in proto.attribute:
            if attribute.ref_attr_name:
                if given is not None and attribute.ref_attr_name in given:
                    step.attributes[attribute.name] = given[attribute.ref_attr_name]
                continue
            step.attributes[attribute.name] = self._attribute(attribute, f"{label}.{attribute.name}.", depth + 1, opsets, given)
        function = self.functions.get((domain, proto.op_type))
        if function is None:
            step.operator = TABLE.get((domain, proto.op_type))
        if function is None and step.operator is None and not _has_schema_function(domain, proto.op_type, step.version):
            self.missing.add(f"{domain}.{proto.op_type}" if domain else proto.op_type)
        return step

    def _attribute(self, proto: Any, prefix: str, depth: int, opsets: dict[str, int], given: Any) -> Any:
        kind = proto.type
        if kind == 1:
            return proto.f
        if kind == 2:
            return proto.i
        if kind == 3:
            return proto.s.decode("utf-8", "replace")
        if kind == 4:
            return self._constant(proto.t)
        if kind == 5:
            return self.graph(proto.g, prefix, depth, opsets, given)
        if kind == 6:
            return list(proto.floats)
        if kind == 7:
            return list(proto.ints)
        if kind == 8:
            return [text.decode("utf-8", "replace") for text in proto.strings]
        if kind == 9:
            return [self._constant(one) for one in proto.tensors]
        if kind == 10:
            return [self.graph(one, prefix, depth, opsets, given) for one in proto.graphs]
        if kind == 11:
            return self._constant(proto.sparse_tensor)
        if kind == 13:
            return proto.tp
        raise CheckpointError(self.file, f"the attribute {shown(proto.name)} has the type {kind}, which is not supported")

    def body(self, step: Step, depth: int, types: Iterable[bytes]) -> Graph | None:
        """Return the graph of the function that computes a node: the model's, or that of the operator's schema."""
        own = self.functions.get((step.domain, step.kind))
        key = None if own is not None else tuple(types)
        found = step.weak.get(key)
        if found is None:
            proto = own if own is not None else _schema_function(step, list(key or ()))
            if proto is None:
                return None
            given = step.attributes if own is not None else {**_defaults(step), **step.attributes}
            found = step.weak[key] = self.function(proto, given, depth)
        return found


def _schema(domain: str, kind: str, version: int) -> Any:
    import onnx

    try:
        return onnx.defs.get_schema(kind, version, domain)
    except (onnx.defs.SchemaError, TypeError):
        return None


def _has_schema_function(domain: str, kind: str, version: int) -> bool:
    schema = _schema(domain, kind, version)
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def _defaults(step: Step) -> dict[str, Any]:
    """Return the default values of a node's attributes that are numbers or strings, or lists of these."""
    schema = _schema(step.domain, step.kind, step.version)
    found: dict[str, Any] = {}
    for name, attribute in schema.attributes.items():
        value = attribute.default_value
        if value is not None and value.type in (1, 2, 3, 6, 7, 8) and value.name:
            found[name] = {1: value.f, 2: value.i, 3: value.s.decode(), 6: list(value.floats), 7: list(value.ints),
                           8: [text.decode() for text in value.strings]}[value.type]  # fmt: skip
    return found


def _schema_function(step: Step, types: list[bytes]) -> Any:
    """Return the function by which the ``onnx`` package defines an operator, or None."""
    import onnx

    schema = _schema(step.domain, step.kind, step.version)
    if schema is None:
        return None
    if schema.has_function:
        versions = [v for v in schema.function_opset_versions if v <= step.version] or schema.function_opset_versions[:1]
        body = schema.get_function_with_opset_version(versions[-1])
    elif schema.has_context_dependent_function:
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= step.version]
        versions = versions or schema.context_dependent_function_opset_versions[:1]
        proto = onnx.NodeProto()
        proto.CopyFrom(step.proto)
        del proto.attribute[:]
        for name, value in step.attributes.items():
            if not isinstance(value, (Graph, Known)):
                proto.attribute.append(onnx.helper.make_attribute(name, value))
            else:
                proto.attribute.extend(one for one in step.proto.attribute if one.name == name)
        body = schema.get_context_dependent_function_with_opset_version(versions[-1], proto.SerializeToString(), types)
    else:
        return None
    if isinstance(body, bytes):
        proto = onnx.FunctionProto()
        proto.ParseFromString(body)
        body = proto
    return body
