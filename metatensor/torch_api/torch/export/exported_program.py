"""`ExportedProgram`: a program with a graph and a signature, as in ``torch.export``."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

from metatensor._core.capture import Value
from metatensor.program import Program
from metatensor.program.fx.decomposing import copied, decomposed
from metatensor.program.fx.from_program import Builder, graph_module_of
from metatensor.program.fx.graph_module import GraphModule
from metatensor.program.fx.node import has_side_effect
from metatensor.program.running import match_arguments
from metatensor.program.structure import leaves
from metatensor.torch_api.torch.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)  # fmt: skip
from metatensor.utils import _pytree as pytree

__all__ = ["ExportedProgram", "ModuleCallEntry", "ModuleCallSignature", "default_decompositions"]

_KINDS = {"parameter": ("p_", InputKind.PARAMETER), "buffer": ("b_", InputKind.BUFFER), "constant": ("c_", InputKind.CONSTANT_TENSOR)}


@dataclasses.dataclass
class ModuleCallSignature:
    """The inputs and outputs of a call of a module, and their structures."""

    inputs: list[Any]
    outputs: list[Any]
    in_spec: Any
    out_spec: Any
    forward_arg_names: list[str] | None = None


@dataclasses.dataclass
class ModuleCallEntry:
    """The name of a module, and its signature if that is kept."""

    fqn: str
    signature: ModuleCallSignature | None = None


@dataclasses.dataclass
class CallSpec:
    """The structures of the arguments and of the result."""

    in_spec: Any
    out_spec: Any


class ValueRanges(NamedTuple):
    """The smallest and the largest value of a size."""

    lower: int
    upper: int


class ExportedProgram:
    """A module as a graph, made by `export`.

    The graph has a placeholder for each parameter, buffer and constant, then one for each argument, and returns a flat tuple.
    Targets are overloads of ``torch.ops``, or operators of metatensor where there is no such overload. Values other than tensors are
    fixed to those of the example, and so are sizes, except those that vary: the graph computes them from the sizes of its arguments.

    Parameters
    ----------
    program : Program
        The operator calls of the module.
    names : list of str
        The names of the arguments, flattened.
    non_persistent : collection of str
        The names of the buffers that are not in the state dict.
    example_inputs : tuple, optional
        The arguments of the example and the dict of keyword arguments.
    functional : bool
        Whether writes to buffers are outputs of the graph.

    Attributes
    ----------
    program : Program
        The operator calls that are run.
    graph_module : GraphModule
        The graph as a module. Its arguments are the placeholders.
    graph_signature : ExportGraphSignature
        What the placeholders and the outputs stand for.
    range_constraints : dict
        The smallest and the largest value of each size that varies, by its name.
    """

    def __init__(
        self, program: Program, names: list[str], non_persistent: Any = (), example_inputs: Any = None, *, functional: bool = False
    ) -> None:
        self.program, self._names, self._non_persistent, self._functional = program, list(names), sorted(non_persistent), functional
        self.example_inputs = example_inputs
        sizes = getattr(program, "sizes", {})
        self.range_constraints: dict[Any, Any] = {name: ValueRanges(r[0], r[-1]) for name, r in sizes.items()}
        graph, self.graph_signature = _lifted(self)
        self.graph_module = GraphModule({}, graph)
        args, kwargs = program.arguments
        self.call_spec = CallSpec(pytree.tree_structure((args, kwargs)), pytree.tree_structure(program.output))
        user = [spec.arg for spec in self.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]
        results = [spec.arg for spec in self.graph_signature.output_specs if spec.kind is OutputKind.USER_OUTPUT]
        self.module_call_graph = [ModuleCallEntry("", ModuleCallSignature(user, results, self.call_spec.in_spec, self.call_spec.out_spec))]

    @property
    def graph(self) -> Any:
        """The graph."""
        return self.graph_module.graph

    @property
    def dialect(self) -> str:
        """The name of the set of operators."""
        return "ATEN" if self._functional else "TRAINING"

    @property
    def state_dict(self) -> dict[str, Any]:
        """The parameters and persistent buffers by name, with all names of shared ones."""
        kinds = self.program.kinds
        found = {name: t for name, t in self.program.tensors.items() if kinds[name] != "constant" and name not in self._non_persistent}
        return found | {name: found[own] for name, own in self.program.tied.items() if own in found}

    @property
    def constants(self) -> dict[str, Any]:
        """The constants and the buffers that are not in `state_dict`, by name."""
        return {name: t for name, t in self.program.tensors.items() if name not in self.state_dict}

    tensor_constants = constants

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        """Yield the parameters with their names."""
        return ((name, t) for name, t in self.program.tensors.items() if self.program.kinds[name] == "parameter")

    def named_buffers(self) -> Iterator[tuple[str, Any]]:
        """Yield the buffers with their names."""
        return ((name, t) for name, t in self.program.tensors.items() if self.program.kinds[name] == "buffer")

    def parameters(self) -> Iterator[Any]:
        """Yield the parameters."""
        return (t for _, t in self.named_parameters())

    def buffers(self) -> Iterator[Any]:
        """Yield the buffers."""
        return (t for _, t in self.named_buffers())

    def module(self, check_guards: bool = True) -> Any:
        """Return a module with the arguments of the exported one. Its parameters are copies.

        Parameters
        ----------
        check_guards : bool
            Whether a call raises AssertionError if shapes, dtypes or values differ from those of the example.
            Default True.
        """
        tensors = {name: copied(t) for name, t in self.program.tensors.items()}
        made: Any = graph_module_of(
            self.program.replace(tensors=tensors), overloads=True, names=_tensor_names(self), class_name="GraphModule", cls=_ExportedModule
        )
        for name in self._non_persistent:
            above, _, last = name.rpartition(".")
            made.get_submodule(above)._non_persistent_buffers_set.add(last)
        made._checks = check_guards
        made._sized = self.program if self.range_constraints else None
        return made

    def run_decompositions(self, decomp_table: Any = None, decompose_custom_triton_ops: bool = False) -> ExportedProgram:
        """Return the program with some operators replaced by others, and writes to buffers as outputs of the graph.

        Parameters
        ----------
        decomp_table : dict, optional
            Replacement functions by overload of ``torch.ops``. They are called with the arguments of the overload. Default: no operator
            is replaced. Writes to views of buffers stay in place.
        decompose_custom_triton_ops : bool
            Has no effect: there are no such operators.
        """
        program = self.program
        if decomp_table:
            program = decomposed(program, dict(decomp_table))
        return ExportedProgram(program, self._names, self._non_persistent, self.example_inputs, functional=True)

    def validate(self) -> None:
        """Check the graph. Raise RuntimeError if a node is used before it is computed."""
        self.graph.lint()

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError("ExportedProgram: it cannot be called; call what module() returns")

    def __deepcopy__(self, memo: Any) -> ExportedProgram:
        tensors = {name: copied(t) for name, t in self.program.tensors.items()}
        return ExportedProgram(self.program.replace(tensors=tensors), self._names, self._non_persistent,
                               copy.deepcopy(self.example_inputs, memo), functional=self._functional)  # fmt: skip

    def __str__(self) -> str:
        body = self.graph_module.code.replace("\n", "\n    ").rstrip()
        return f"ExportedProgram:\n    {body}\n\nGraph signature:\n{self.graph_signature}\nRange constraints: {self.range_constraints}\n"


class _ExportedModule(GraphModule):
    """The module that `ExportedProgram.module` returns."""

    _checks = True
    _sized: Any = None

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph, or for other sizes the calls for these sizes. Raise AssertionError if the arguments do not fit."""
        if self._checks and self.graph.arguments is not None:
            try:
                wanted = self.graph.arguments
                if self._sized is not None:
                    sizes = self._sized.sizes_of(*args, **kwargs)
                    wanted = self._sized.at(**sizes).arguments
                match_arguments(wanted, args, kwargs, {}, "forward")
            except ValueError as error:
                raise AssertionError(str(error)) from None
        if self._sized is not None and not self._sized.pieces[0].holds(self._sized.sizes_of(*args, **kwargs)):
            return self._others(*args, **kwargs)
        return super().forward(*args, **kwargs)

    def _others(self, *args: Any, **kwargs: Any) -> Any:
        """Run the calls for sizes for which they differ from those of the graph, with the tensors of this module."""
        names = {**self._sized.tensors}
        tensors = {}
        for name in names:
            above, _, last = name.rpartition(".")
            tensors[name] = getattr(self.get_submodule(above), last)
        program = self._sized.replace(tensors=tensors)
        made = program(*args, **kwargs)
        for name, tensor in tensors.items():
            if program.tensors[name] is not tensor:
                tensor.data = program.tensors[name]
        return made

    def train(self, mode: bool = True) -> Any:
        """Raise NotImplementedError: the mode was fixed at export."""
        raise NotImplementedError("an exported module keeps the mode in which it was exported; call train() or eval() before export")

    def eval(self) -> Any:
        """Raise NotImplementedError: the mode was fixed at export."""
        return self.train(False)


# The graph ------------------------------------------------------------------------------------------------


@has_side_effect
def copy_to(buffer: Any, value: Any) -> Any:
    """Write a value to a buffer."""
    return buffer.data.copy_(value)


def _tensor_names(exported: ExportedProgram) -> list[str]:
    flat = pytree.tree_leaves(_opened(exported.program.arguments))
    return [name for name, leaf in zip(exported._names, flat) if isinstance(leaf, Value)]


def _opened(arguments: Any) -> Any:
    """Return the arguments, with each object that holds tensors replaced by a list of them."""
    flat, spec = pytree.tree_flatten(arguments)
    return pytree.tree_unflatten([one if isinstance(one, Value) else list(leaves(Value, one)) or one for one in flat], spec)


class _Functional(Builder):
    """A builder that turns writes to buffers into new values, if the buffers have no views."""

    def __init__(self, program: Program) -> None:
        super().__init__(program, overloads=True)
        seen: dict[int, int] = {}
        for value in program.values.values():
            seen[value.storage] = seen.get(value.storage, 0) + 1
        self.alone = {value.number: name for name, value in program.held.items()
                      if program.kinds[name] == "buffer" and seen[value.storage] == 1}  # fmt: skip
        self.changed: dict[str, Any] = {}

    def call(self, call: Any, *, uncounted: bool = False) -> None:
        """Add the nodes of a call."""
        name = self.alone.get(call.writes[0].number) if len(call.writes) == 1 else None
        result = call.result
        known = call.op.name == "copy_" or call.op.functional is not call.op
        if name is None or not known or not isinstance(result, Value) or result.number != call.writes[0].number:
            super().call(call, uncounted=uncounted)
            return
        if call.op.name == "copy_":
            source = call.args[1]
            if not isinstance(source, Value) or source.shape != result.shape or source.dtype is not result.dtype:
                super().call(call, uncounted=uncounted)
                return
            self.nodes[result.number] = self.nodes[source.number]
        else:
            changes = {"op": call.op.functional, "args": call.args, "kwargs": call.kwargs, "result": result, "grad": call.grad}
            super().call(type(call)(**changes, backward=call.backward, module=call.module))
        self.changed[name] = self.nodes[result.number]


def _lifted(exported: ExportedProgram) -> tuple[Any, ExportGraphSignature]:
    """Return the graph with all tensors as placeholders, and its signature."""
    program = exported.program
    builder = _Functional(program) if exported._functional else Builder(program, overloads=True)
    inputs: list[InputSpec] = []
    for name, value in program.held.items():
        prefix, kind = _KINDS[program.kinds[name]]
        node = builder.placeholder(value, prefix + name.replace(".", "_"))
        persistent = name not in exported._non_persistent if kind is InputKind.BUFFER else None
        inputs.append(InputSpec(kind, TensorArgument(node.name), name, persistent))
    for name, leaf in zip(exported._names, pytree.tree_leaves(_opened(program.arguments))):
        node = builder.placeholder(leaf if isinstance(leaf, Value) else None, name)
        argument = TensorArgument(node.name) if isinstance(leaf, Value) else ConstantArgument(node.name, leaf)
        inputs.append(InputSpec(InputKind.USER_INPUT, argument, None))
    builder.calls()
    outputs: list[OutputSpec] = []
    results: list[Any] = []
    changed = dict(getattr(builder, "changed", {}))
    for effect in program.effects:
        node = builder.nodes[effect.value.number]
        if effect.kind == "replaced" and exported._functional:
            changed[effect.name] = node
        elif effect.kind == "replaced":
            builder.graph.call_function(copy_to, (builder.nodes[program.held[effect.name].number], node))
    builder.effects(skip=[effect.name for effect in program.effects if effect.kind == "replaced"])
    for name, node in changed.items():
        outputs.append(OutputSpec(OutputKind.BUFFER_MUTATION, TensorArgument(node.name), name))
        results.append(node)
    for leaf in pytree.tree_leaves(_opened(program.output)):
        results.append(builder.given(leaf))
        argument = TensorArgument(results[-1].name) if isinstance(leaf, Value) else ConstantArgument("", leaf)
        outputs.append(OutputSpec(OutputKind.USER_OUTPUT, argument, None))
    return builder.finish(tuple(results)), ExportGraphSignature(inputs, outputs)


# Decompositions ----------------------------------------------------------------------------------------------


def default_decompositions() -> dict[Any, Any]:
    """Return an empty table: by default no operator is replaced."""
    return {}
