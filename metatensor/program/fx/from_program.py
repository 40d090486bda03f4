"""Programs as graphs: `graph_of` and `graph_module_of` convert a `Program` for code that works with ``torch.fx``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import getitem
from typing import Any

import metatensor as mt
from metatensor._core.capture import ProgramCall, Ticket, Value
from metatensor.overloads import overload_call
from metatensor.overloads.calls import _declared
from metatensor.program.argument_names import names_of_positional
from metatensor.program.fx.graph import Graph
from metatensor.program.fx.graph_module import GraphModule
from metatensor.program.fx.node import Node, has_side_effect
from metatensor.program.fx.passes.shape_prop import TensorMetadata
from metatensor.program.program import Program
from metatensor.program.running import uncounted_writes
from metatensor.program.sizes.expressions import RealSize, Size
from metatensor.program.sizes.graphs import Numbers
from metatensor.program.structure import leaves, mapped
from metatensor.program.tickets import Tickets

__all__ = ["Builder", "Rebuild", "graph_module_of", "graph_of", "overload_of"]


# Functions that are targets of nodes -------------------------------------------------------------------


@has_side_effect
def begin_no_grad() -> bool:
    """Disable the recording of gradients, and return whether it was enabled."""
    before = mt.is_grad_enabled()
    mt.set_grad_enabled(False)
    return before


@has_side_effect
def end_no_grad(before: bool) -> None:
    """Restore the state that `begin_no_grad` returned."""
    mt.set_grad_enabled(before)


@has_side_effect
def set_gradient(parameter: Any, gradient: Any) -> None:
    """Set ``parameter.grad``."""
    parameter.grad = gradient


@has_side_effect
def set_data(tensor: Any, data: Any) -> None:
    """Replace the data of a parameter or buffer by that of `data`."""
    tensor.data = data


@has_side_effect
def begin_tickets() -> Tickets:
    """Return the source of random numbers of one run."""
    return Tickets()


@has_side_effect
def end_tickets(tickets: Tickets) -> None:
    """Advance the generators past the numbers that a run drew."""
    tickets.finish()


def ticket(tickets: Tickets, number: int, generator: Any = None) -> tuple[int, int]:
    """Return the random numbers of one call."""
    return tickets(number, generator)


class Rebuild:
    """Builds the result of a program, such as an object of a user's class, from its tensors."""

    __name__ = "rebuild"

    def __init__(self, output: Any) -> None:
        self.output = output

    def __call__(self, *tensors: Any) -> Any:
        """Return the result with tensors in the order of `Program.outputs`."""
        given = iter(tensors)
        return mapped(lambda value: next(given), Value, self.output)


# Graphs ------------------------------------------------------------------------------------------------


def graph_of(program: Program, *, overloads: bool = False, names: Sequence[str] | None = None) -> Graph:
    """Return a program as a graph.

    Its placeholders are the tensors among the arguments, from left to right. Parameters, buffers and constants are
    ``get_attr`` nodes with their names, each call is a ``call_function`` node with an operator as its target, and several
    results are unpacked by ``operator.getitem``. ``node.meta`` has ``"val"``, a tensor on the meta device with the layout
    of the result, ``"tensor_meta"``, ``"module_path"``, ``"stack_trace"`` (file and line) and ``"writes"`` (names of the
    nodes whose tensors the call changes).

    Parameters
    ----------
    program : Program
        The program to convert.
    overloads : bool
        Whether targets are overloads of ``torch.ops`` such as ``aten.add.Tensor``. Where there is none, and by default,
        they are operators of metatensor.
    names : sequence of str, optional
        Names for the placeholders. Default: x0, x1, ... and the names of keyword arguments.
    """
    builder = Builder(program, overloads=overloads)
    for value, name in zip(builder.inputs, names or input_names(program)):
        builder.placeholder(value, name)
    for name, value in program.held.items():
        builder.note(value, builder.graph.get_attr(name))
    builder.calls()
    builder.effects()
    builder.graph.arguments = program.arguments
    return builder.finish(builder.output())


def graph_module_of(
    program: Program, *, overloads: bool = False, names: Sequence[str] | None = None, class_name: str | None = None,
    cls: type[GraphModule] = GraphModule,
) -> GraphModule:  # fmt: skip
    """Return a program as a module that runs the graph of `graph_of`, with its parameters and buffers as attributes.

    Parameters
    ----------
    program : Program
        The program to convert.
    overloads, names
        See `graph_of`.
    class_name : str, optional
        Name of the class of the module. Default: the name of the program if that is a valid identifier.
    cls : type
        The class to make. Default: `GraphModule`.

    Returns
    -------
    GraphModule
        A module called like the program, whose tensors it shares. Sizes in the graph are those of the trace; the shapes of
        arguments are not checked against them.

    Raises
    ------
    RuntimeError
        If a parameter has no tensor.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.program.fx.from_program import graph_module_of
    >>> program = mt.program.trace(lambda x: mt.relu(x).sum(0), mt.empty(5, 3, device="meta"))
    >>> [node.name for node in graph_module_of(program).graph.nodes]
    ['x', 'relu', 'sum_1', 'output']
    """
    missing = [name for name in program.held if name not in program.tensors]
    if missing:
        raise RuntimeError(f"{program.name}: there is no tensor for {program.kinds[missing[0]]} {missing[0]!r}; pass one to bind()")
    wish = class_name or (program.name if program.name.isidentifier() else "GraphModule")
    module = cls(dict(program.tensors), graph_of(program, overloads=overloads, names=names), wish)
    for name, kind in program.kinds.items():
        if kind == "constant":
            above, _, last = name.rpartition(".")
            module.get_submodule(above)._non_persistent_buffers_set.add(last)
    return module


def input_names(program: Program) -> list[str]:
    """Return a name for each tensor among the arguments: that of its argument, with a number if the argument has several."""
    args, kwargs = program.arguments
    found: list[str] = []
    for name, argument in [*zip(names_of_positional(program), args), *kwargs.items()]:
        count = sum(1 for _ in leaves(Value, argument))
        found += [str(name)] if count == 1 else [f"{name}_{i}" for i in range(count)]
    return found


class Builder:
    """Builds a graph from a program. Placeholders and attributes are added first.

    Parameters
    ----------
    program : Program
        The program to convert.
    overloads : bool
        Whether targets are overloads of ``torch.ops``.
    """

    def __init__(self, program: Program, *, overloads: bool = False) -> None:
        self.program, self.overloads = program, overloads
        self.graph = Graph()
        self.nodes: dict[int, Node] = {}
        self._tickets: Node | None = None
        self.inputs = program.inputs
        self.numbers = Numbers(self.graph)

    def placeholder(self, value: Value | None, name: str, default: Any = ...) -> Node:
        """Add a placeholder. `value` is None for an argument that is not a tensor."""
        node = self.graph.placeholder(name, default_value=default)
        if value is not None:
            self.numbers.source(value, node)
        return node if value is None or value.number in self.nodes else self.note(value, node)

    def note(self, value: Value, node: Node) -> Node:
        """Register the node that computes a value."""
        self.nodes[value.number] = node
        node.meta["val"] = stand_in(value)
        node.meta["tensor_meta"] = TensorMetadata(mt.Size(value.shape), value.dtype, value.requires_grad, value.stride)
        return node

    def calls(self) -> None:
        """Add a node for each call. Calls without gradients stand between `begin_no_grad` and `end_no_grad`."""
        program, off = self.program, None
        trains = any(call.backward for call in program.calls)
        mixed = trains or len({call.grad for call in program.calls}) > 1
        regular = _in_order(program.calls)
        if not regular:
            self._tickets = self.graph.call_function(begin_tickets)
        uncounted = uncounted_writes(program)
        for i, call in enumerate(program.calls):
            wanted = call.grad and not trains
            if mixed and wanted and off is not None:
                self.graph.call_function(end_no_grad, (off,))
                off = None
            elif mixed and not wanted and off is None:
                off = self.graph.call_function(begin_no_grad)
            self.call(call, uncounted=i in uncounted)
        if off is not None:
            self.graph.call_function(end_no_grad, (off,))
        if self._tickets is not None:
            self.graph.call_function(end_tickets, (self._tickets,))

    def finish(self, result: Any) -> Graph:
        """Add the output, and return the graph without the parts of results that nothing uses."""
        self.graph.output(result)
        for node in reversed(self.graph.nodes):
            if node.target is getitem and not node.users:
                self.graph.erase_node(node)
        return self.graph

    def call(self, call: ProgramCall, *, uncounted: bool = False) -> None:
        """Add the node of a call and the nodes that unpack its results. See `uncounted_writes`."""
        target: Any = call.op
        args, kwargs = call.args, call.kwargs
        if self._tickets is None:
            args = _drawing(args)
            kwargs = {key: drawn for key, a in kwargs.items() if (drawn := _drawing(a)) is not None or a is None}
        if self.overloads and not any(True for _ in leaves(Ticket, (args, kwargs))):
            target, args, kwargs = overload_of(call.op, args, kwargs) or (target, args, kwargs)
        writes = [self.nodes[value.number].name for value in call.writes if value.number in self.nodes]
        given = self.given(args)
        if uncounted:
            given = (self.graph.call_function(getattr, (given[0], "data")), *given[1:])
        node = self.graph.call_function(target, given, self.given(kwargs), name=_short(target))
        node.meta["module_path"] = self.program.modules[call.module]
        if writes:
            node.meta["writes"] = writes
        if call.place is not None:
            node.meta["stack_trace"] = f'  File "{call.place[0]}", line {call.place[1]}'
        if not uncounted:
            self.results(call.result, node)

    def results(self, result: Any, node: Node) -> None:
        """Register the nodes of a call's results."""
        if isinstance(result, Value):
            self.note(result, node)
        elif isinstance(result, (tuple, list)):
            for i, one in enumerate(result):
                if one is not None:
                    self.results(one, self.graph.call_function(getitem, (node, i)))

    def given(self, argument: Any) -> Any:
        """Return an argument with values and tickets replaced by nodes."""
        kind = type(argument)
        if kind is Value:
            return self.nodes[argument.number]
        if kind is tuple or kind is list:
            return kind([self.given(a) for a in argument])
        if kind is mt.Size:
            return tuple([self.given(a) for a in argument])
        if kind is dict:
            return {key: self.given(a) for key, a in argument.items()}
        if kind is Size or kind is RealSize:
            return self.numbers.node(argument.expression)
        if kind is Ticket:
            return self.graph.call_function(ticket, (self._tickets, argument.number, argument.generator))
        return argument

    def effects(self, skip: Iterable[str] = ()) -> None:
        """Add nodes that set gradients and replace buffers, except those named in `skip`."""
        for kind, name, value in self.program.effects:
            if name not in skip:
                held = self.program.held.get(self.program.tied.get(name, name))
                if held is None:
                    raise NotImplementedError(f"{self.program.name}: {name!r} is replaced without being read, which a graph cannot express")
                self.graph.call_function(set_gradient if kind == "grad" else set_data, (self.nodes[held.number], self.nodes[value.number]))

    def output(self) -> Any:
        """Return the result of the graph: nodes in tuples, lists and dicts, or a node that builds an object."""
        if _plain(self.program.output):
            return mapped(lambda leaf: self.nodes[leaf.number] if isinstance(leaf, Value) else self.given(leaf), (Value, Size, RealSize),
                          self.program.output)  # fmt: skip
        return self.graph.call_function(Rebuild(self.program.output), tuple(self.nodes[value.number] for value in self.program.outputs))


def stand_in(value: Value) -> Any:
    """Return a tensor on the meta device with the layout of a value."""
    with mt.inference_mode(False):
        made = mt.empty_strided(value.shape, value.stride, dtype=value.dtype, device="meta")
        return made.requires_grad_() if value.requires_grad and (value.dtype.is_floating_point or value.dtype.is_complex) else made


def _plain(output: Any) -> bool:
    """Return True if a result consists of values, tuples, lists, dicts and simple objects."""
    if type(output) in (tuple, list):
        return all(map(_plain, output))
    if type(output) is dict:
        return all(map(_plain, output.values()))
    return isinstance(output, Value) or next(leaves(Value, output), None) is None


def _short(target: Any) -> str:
    """Return the name of a node for a target, without its namespace and overload."""
    name = target.overloadpacket.__name__ if hasattr(target, "overloadpacket") else target.name
    return str(name).rpartition("::")[2].rpartition(".")[2]


# Random numbers ------------------------------------------------------------------------------------------


def _in_order(calls: Iterable[ProgramCall]) -> bool:
    """Return True if the tickets of each generator are used once and in order, as they are when a graph runs."""
    taken: dict[int, int] = {}
    for call in calls:
        for one in leaves(Ticket, (call.args, call.kwargs)):
            expected = taken.get(id(one.generator), 0)
            if one.number != expected:
                return False
            taken[id(one.generator)] = expected + 1
    return True


def _drawing(argument: Any) -> Any:
    """Return an argument with each ticket replaced by its generator."""
    if isinstance(argument, Ticket):
        return argument.generator
    return tuple(_drawing(a) for a in argument) if type(argument) is tuple and any(isinstance(a, Ticket) for a in argument) else argument


# Overloads -----------------------------------------------------------------------------------------------


def overload_of(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]] | None:
    """Return the overload of ``torch.ops`` that a call fits, and its arguments; None if there is none."""
    made: dict[int, Value] = {}

    def stand(value: Value) -> Any:
        tensor = stand_in(value).detach()
        made[id(tensor)] = value
        alive.append(tensor)
        return tensor

    alive: list[Any] = []
    given, named = mapped(stand, Value, (tuple(args), dict(kwargs)))
    out = named.pop("out", None)
    for overload in op.overloads:
        bound = _bound(overload, given, named)
        if bound is not None:
            break
    else:
        return None
    values, passed = bound
    variant = 2 if out is not None else 1 if op.functional is not op else 0
    try:
        target, positional, keywords = overload_call(op, overload, variant, values, passed, out)
    except (AttributeError, TypeError, ValueError, KeyError):
        return None
    back: Any = mapped(lambda tensor: made[id(tensor)], mt.Tensor, (tuple(positional), dict(keywords)))
    return (target, *back) if target.namespace != "metatensor" else None


def _bound(overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[str, Any], set[str]] | None:
    """Return all arguments of an overload by name and the names of those that are given, or None if they do not fit."""
    declared = _declared(overload.text)
    places = [a.name for a in declared if not a.kwonly]
    if len(args) > len(places):
        return None
    given = dict(zip(places, args))
    if set(kwargs) & set(given) or not set(kwargs) <= {a.name for a in declared}:
        return None
    given |= kwargs
    values: dict[str, Any] = {}
    for argument in declared:
        if argument.name in given:
            values[argument.name] = given[argument.name]
            if isinstance(values[argument.name], mt.Tensor) and "Tensor" not in argument.type:
                return None
        elif argument.required:
            return None
        else:
            values[argument.name] = argument.default
    return values, {name for name, value in given.items() if value is not None or name in kwargs}
