"""Building the ONNX model of a program."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import onnx
from onnx import TensorProto, helper

from metatensor import __version__
from metatensor._core.capture import ProgramCall, Value
from metatensor.program.onnx.dtypes import element_type
from metatensor.program.onnx.exporting import DEFAULT_OPSET, LEAST_OPSET
from metatensor.program.onnx.exporting import activation as _activation
from metatensor.program.onnx.exporting import creating as _creating
from metatensor.program.onnx.exporting import elementwise as _elementwise
from metatensor.program.onnx.exporting import indexing as _indexing
from metatensor.program.onnx.exporting import norms as _norms
from metatensor.program.onnx.exporting import pooling as _pooling
from metatensor.program.onnx.exporting import products as _products
from metatensor.program.onnx.exporting import reducing as _reducing
from metatensor.program.onnx.exporting import resizing as _resizing
from metatensor.program.onnx.exporting import views as _views
from metatensor.program.onnx.exporting.errors import ExportError, Unsupported, listed
from metatensor.program.onnx.exporting.functions import with_functions
from metatensor.program.onnx.exporting.graph import Graph, Unknown, Var
from metatensor.program.onnx.exporting.lowering import decomposed_calls, prepared
from metatensor.program.onnx.exporting.table import Declined, convert
from metatensor.program.onnx.exporting.writing import Built, with_data
from metatensor.program.onnx.original import KEY, record
from metatensor.program.printing import names_of
from metatensor.program.program import Program
from metatensor.program.running import with_values
from metatensor.program.sizes.expressions import ExpressionError, Size
from metatensor.program.sizes.numbers import filled
from metatensor.program.sizes.pieces import SizesError
from metatensor.program.sizes.program import SizedProgram
from metatensor.program.sizes.refitting import points_of, refitted
from metatensor.program.structure import leaves

__all__ = ["build"]

FAMILIES = (_activation, _creating, _elementwise, _indexing, _norms, _pooling, _products, _reducing, _resizing, _views)
"""The modules that fill the table of conversions."""
_ROUNDS = 12
"""Decompositions inside decompositions."""
_DRAWN = 3
"""Sizes at which the graph of a program with named sizes is made, to find numbers in it that vary."""


def build(
    program: Program, *, opset: int = DEFAULT_OPSET, input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None,
    parameters: bool = True, metadata: bool = True,
    conversions: Mapping[str, Callable[..., Any]] | None = None, functions: bool = False, ignore_writes: bool = False,
    data: bool = True, check: Callable[[ProgramCall], None] | None = None,
) -> Any:  # fmt: skip
    """Return the model of a program, see `Program.to_onnx`: a ``ModelProto``, or without `data` a `Built` that lacks it.

    With `check`, which is called with each call before its conversion, parameters need no data, and the metadata is left out.
    """
    newest = onnx.defs.onnx_opset_version()
    if not LEAST_OPSET <= opset <= newest:
        raise ValueError(f"opset: expected a version from {LEAST_OPSET} to {newest}, got {opset}; "
                         "onnx.version_converter.convert_version can convert the model of one of these versions to another")
    inputs = list({value.number: value for value in program.inputs}.values())
    names = _input_names(program, inputs, input_names)
    how = _Options(names, opset, metadata, dict(conversions or {}), output_names, ignore_writes, check)
    graph, outputs, lowered = _sized(program, how) if isinstance(program, SizedProgram) else _converted(program, how)
    built = _assembled(graph, outputs, lowered, names, parameters, functions, check is not None)
    if metadata and parameters and not conversions:
        entry = record(program, built.tensors, ignore_writes)
        if entry is not None:
            helper.set_model_props(built.model, {**{one.key: one.value for one in built.model.metadata_props}, KEY: entry})
    return with_data(built) if data else built


class _Options(NamedTuple):
    """How a graph is made: the names of inputs, and what was asked for."""

    names: list[str]
    opset: int
    metadata: bool
    conversions: dict[str, Any]
    output_names: Sequence[str] | None
    ignore_writes: bool
    check: Callable[[ProgramCall], None] | None


Converted = tuple[Graph, list[tuple[str, Value]], Program]
"""A graph, its outputs by name, and the program after lowering."""


def _converted(program: Program, how: _Options) -> Converted:
    program = prepared(program, how.ignore_writes)
    stuck: list[Unsupported] = []
    for _ in range(_ROUNDS):
        drawn = _Drawing(program, how)
        if not drawn.failed:
            return drawn.graph, drawn.outputs, program
        stuck = drawn.stuck()
        lowered = decomposed_calls(program, drawn.failed, how.ignore_writes)
        if lowered is None:
            break
        program = lowered
    raise listed(program.name, stuck)


def _sized(program: SizedProgram, how: _Options) -> Converted:
    """Return the graph of a program with named sizes. Its numbers are computed from the sizes of the inputs."""
    try:
        made = refitted(program, lambda one: prepared(one, how.ignore_writes))
        stuck: list[Unsupported] = []
        for _ in range(_ROUNDS):
            points = [sizes for sizes, _ in zip(points_of(made, 0), range(_DRAWN))]
            drawn = [_Drawing(made.shown_at(**sizes), how) for sizes in points]
            failed = {i: why for one in drawn for i, why in one.failed.items()}
            if not failed:
                for other in drawn[1:]:
                    drawn[0].compare(other)
                _check_other_sizes(program, made, how)
                return drawn[0].graph, drawn[0].outputs, drawn[0].program
            stuck = drawn[0].stuck(failed)
            if decomposed_calls(made.at(**points[0]), failed, how.ignore_writes) is None:
                break
            made = refitted(made, lambda one, failed=failed: _lowered(one, failed, how))  # type: ignore[misc]
    except SizesError as error:
        raise ExportError(str(error)) from None
    raise listed(program.name, stuck)


def _lowered(program: Program, failed: Mapping[int, str], how: _Options) -> Program:
    made = decomposed_calls(program, failed, how.ignore_writes)
    assert made is not None
    return made


def _check_other_sizes(program: SizedProgram, made: SizedProgram, how: _Options) -> None:
    """Warn of sizes at which the program has other calls, unless these have the same graph there."""
    for i, condition in enumerate(program.conditions()[: len(program.pieces)]):
        for sizes, _ in zip(points_of(program, i) if i else (), range(_DRAWN)):
            try:
                own = _Drawing(_converted(program.at(**sizes), how)[2], how)
                other = _Drawing(filled(made.pieces[0].taken.program, made.pieces[0].numbers(sizes)), how)
                own.compare(other)
            except (ExportError, ExpressionError):
                warnings.warn(f"{program.name}: the ONNX model makes the calls for {program.conditions()[0].partition(':')[0]}, and "
                              f"is not that of {condition}", stacklevel=5)  # fmt: skip
                return


class _Drawing:
    """The graph of one program."""

    def __init__(self, program: Program, how: _Options) -> None:
        self.program, names = program, how.names
        named_outputs = _output_names(program, how.output_names, {*names, *program.held})
        self.graph = graph = Graph(how.opset, {*names, *program.held, *named_outputs})
        env: dict[int, Var] = {}
        inputs = list({value.number: value for value in program.inputs}.values())
        for name, value in zip(names, inputs):
            env[value.number] = Var(name, value.dtype, value.shape)
            graph.source(name, value)
        for name, value in program.held.items():
            env[value.number] = Var(name, value.dtype, value.shape)
        self.failed: dict[int, str] = {}
        self.origins: list[int] = []
        for i, call in enumerate(program.calls):
            path = program.modules[call.module]
            graph.prefix = f"{path}/" if path else ""
            if how.metadata:
                graph.notes = {"operator": call.op.name}
                if path:
                    graph.notes["module"] = path
                if call.place is not None:
                    graph.notes["source"] = f"{call.place[0]}:{call.place[1]}"
            if how.check is not None:
                how.check(call)
            try:
                convert(graph, call, env, how.conversions)
            except (Declined, Unknown) as error:
                self.failed[i] = str(error)
                for value in [*leaves(Value, call.result), *call.writes]:
                    env[value.number] = Var("", value.dtype, value.shape)
            except TypeError as error:  # a dtype that ONNX lacks
                if "ONNX" not in str(error):
                    raise
                self.failed[i] = str(error)
                for value in [*leaves(Value, call.result), *call.writes]:
                    env[value.number] = Var("", value.dtype, value.shape)
            self.origins += [i] * (len(graph.nodes) - len(self.origins))
        graph.prefix, graph.notes = "", {}
        self.outputs: list[tuple[str, Value]] = []
        for name, value in zip(named_outputs, program.outputs):
            self.outputs.append((name, value))
            if not self.failed:
                graph.nodes.append(helper.make_node("Identity", [str(env[value.number])], [name], name=graph.fresh("Identity")))
        self.origins += [-1] * (len(graph.nodes) - len(self.origins))

    def stuck(self, failed: Mapping[int, str] | None = None) -> list[Unsupported]:
        """Return the calls that have no form in ONNX."""
        calls = self.program.calls
        return [Unsupported(calls[i].op.name, calls[i].place, why) for i, why in sorted((failed or self.failed).items())]

    def compare(self, other: _Drawing) -> None:
        """Raise if the graphs of two traces differ: a conversion made a constant of a number that depends on sizes."""
        found = []
        mine, theirs = ({t.name: t for t in g.initializers} for g in (self.graph, other.graph))
        for at, (one, two) in enumerate(zip(self.graph.nodes, other.graph.nodes)):
            constants = [(mine.get(a), theirs.get(b)) for a, b in zip(one.input, two.input)]
            if one != two or any(a != b for a, b in constants):
                call = self.program.calls[self.origins[at]]
                found.append(Unsupported(call.op.name, call.place, "a number in it depends on the sizes that have names"))
        if found or len(self.graph.nodes) != len(other.graph.nodes):
            raise listed(self.program.name, found) if found else ExportError(f"{self.program.name}: the graphs of the traces differ")


# Names ----------------------------------------------------------------------------------------------------


def _input_names(program: Program, inputs: Sequence[Value], given: Sequence[str] | None) -> list[str]:
    known = names_of(program)
    names: list[str] = []
    for value in inputs:
        name = known[value.number]
        while name in program.held or name in names:  # such as an argument and a parameter that are both called weight
            name += "_input"
        names.append(name)
    if given is not None:
        if len(given) > len(names):
            raise ValueError(f"input_names: {len(given)} names for {len(names)} inputs")
        names[: len(given)] = [str(name) for name in given]
    _distinct(names, program, "input_names")
    return names


def _output_names(program: Program, given: Sequence[str] | None, taken: set[str]) -> list[str]:
    names: list[str] = []
    for wish in _places(program.output, ""):
        name, n = wish or "output", 1
        while name in taken:
            name, n = f"{wish or 'output'}_{n}", n + 1
        taken.add(name)
        names.append(name)
    if given is not None:
        if len(given) > len(names):
            raise ValueError(f"output_names: {len(given)} names for {len(names)} outputs")
        names[: len(given)] = [str(name) for name in given]
    _distinct(names, program, "output_names")
    return names


def _distinct(names: Sequence[str], program: Program, what: str) -> None:
    for i, name in enumerate(names):
        if not name or name in names[:i] or name in program.held:
            raise ValueError(f"{what}: {name!r} is {'empty' if not name else 'the name of something else'}")


def _places(output: Any, name: str) -> Iterator[str]:
    """Yield a name for each tensor of a result, in the order of `Program.outputs`."""
    if isinstance(output, Value):
        yield name
        return
    pairs: list[tuple[Any, Any]] = []
    if isinstance(output, dict):
        pairs = list(output.items())
    elif isinstance(output, (list, tuple)):
        pairs = list(zip(getattr(output, "_fields", range(len(output))), output))
    elif is_dataclass(output) and not isinstance(output, type):
        pairs = [(field.name, getattr(output, field.name)) for field in fields(output)]
    elif next(leaves(Value, output), None) is not None:
        pairs = list(vars(output).items())
    for key, item in pairs:
        start = name or ("output" if isinstance(key, int) else "")
        yield from _places(item, f"{start}.{key}" if start and not isinstance(key, int) else f"{start}_{key}" if start else str(key))


# The model ------------------------------------------------------------------------------------------------


def _assembled(
    graph: Graph, outputs: list[tuple[str, Value]], program: Program, names: list[str], parameters: bool, functions: bool,
    without_data: bool,
) -> Built:  # fmt: skip
    nodes = _needed(graph.nodes, [name for name, _ in outputs])
    used = {name for node in nodes for name in node.input}
    inputs = list({value.number: value for value in program.inputs}.values())
    given = [_info(name, value) for name, value in zip(names, inputs)]
    tensors = {}
    initializers = []
    for name, value in program.held.items():
        if name not in used:
            continue
        tensor = program.tensors.get(name)
        if tensor is not None and tensor.is_meta and parameters and not without_data:
            tensor = with_values(tensor, "cpu")
        if tensor is not None and parameters:
            initializers.append(TensorProto(name=name, data_type=element_type(value.dtype), dims=list(value.shape)))
            tensors[name] = tensor
        elif parameters:
            raise ExportError(
                f"{program.name}: {program.kinds[name]} {name!r} has no data, and an initializer of an ONNX model needs some; give the "
                "program tensors with data (bind), or pass parameters=False, which makes inputs of all of them"
            )
        else:
            given.append(_info(name, value))
    initializers += [t for t in graph.initializers if t.name in used]
    results = [_info(name, value) for name, value in outputs]
    definitions: list[Any] = []
    if functions:
        nodes, definitions = with_functions(nodes, [name for name, _ in outputs], graph.opset)
    made = helper.make_graph(nodes, program.name or "program", given, results, initializers)
    model = helper.make_model(made, functions=definitions, producer_name="metatensor", producer_version=__version__,
                              opset_imports=[helper.make_opsetid("", graph.opset), *_domains(nodes, definitions)])  # fmt: skip
    model.ir_version = max(helper.find_min_ir_version_for([helper.make_opsetid("", graph.opset)]), 8)
    if program.tied:
        helper.set_model_props(model, {f"tied:{name}": own for name, own in program.tied.items()})
    return Built(model, tensors)


def _domains(nodes: Sequence[Any], functions: Sequence[Any]) -> list[Any]:
    """Return the operator sets of other domains: those of functions, and those that the user's own conversions use."""
    every = [*nodes, *(node for function in functions for node in function.node)]
    return [helper.make_opsetid(domain, 1) for domain in dict.fromkeys(node.domain for node in every) if domain]


def _info(name: str, value: Value) -> Any:
    """Return the description of an input or output. Named sizes are expressions in it."""
    shape = [str(n) if isinstance(n, Size) else n for n in value.shape]
    return helper.make_tensor_value_info(name, element_type(value.dtype), shape)


def _needed(nodes: Sequence[Any], outputs: Sequence[str]) -> list[Any]:
    """Return the nodes that outputs depend on. If an output is only a copy, the node that makes the original takes its name."""
    wanted = set(outputs)
    kept = []
    for node in reversed(nodes):
        if any(name in wanted for name in node.output):
            kept.append(node)
            wanted.update(node.input)
    kept.reverse()
    made = {name: node for node in kept for name in node.output}
    renamed: dict[str, str] = {}
    gone = []
    for node in kept:
        if node.op_type == "Identity" and node.output[0] in outputs and node.input[0] in made and node.input[0] not in renamed:
            renamed[node.input[0]] = node.output[0]
            gone.append(id(node))
    for node in kept:
        for names in (node.input, node.output):
            for i, name in enumerate(names):
                if name in renamed:
                    names[i] = renamed[name]
    return [node for node in kept if id(node) not in gone]
