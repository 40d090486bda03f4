"""Signatures of exported programs: what the inputs and outputs of a graph stand for."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import Enum, auto
from typing import Any

from metatensor._core.absent import kinds

__all__ = ["ConstantArgument", "CustomObjArgument", "ExportBackwardSignature", "ExportGraphSignature", "InputKind", "InputSpec",
           "OutputKind", "OutputSpec", "SymBoolArgument", "SymFloatArgument", "SymIntArgument", "TensorArgument"]  # fmt: skip


class InputKind(Enum):
    """What an input of a graph stands for."""

    USER_INPUT = auto()
    PARAMETER = auto()
    BUFFER = auto()
    CONSTANT_TENSOR = auto()
    CUSTOM_OBJ = auto()
    TOKEN = auto()


class OutputKind(Enum):
    """What an output of a graph stands for."""

    USER_OUTPUT = auto()
    LOSS_OUTPUT = auto()
    BUFFER_MUTATION = auto()
    PARAMETER_MUTATION = auto()
    GRADIENT_TO_PARAMETER = auto()
    GRADIENT_TO_USER_INPUT = auto()
    USER_INPUT_MUTATION = auto()
    TOKEN = auto()


@dataclasses.dataclass
class TensorArgument:
    """A tensor, by the name of its node."""

    name: str


@dataclasses.dataclass
class ConstantArgument:
    """A value that is not a tensor. It is fixed to that of the example."""

    name: str
    value: Any


@dataclasses.dataclass
class InputSpec:
    """One input: its kind, its node, and for parameters, buffers and constants the name in the module."""

    kind: InputKind
    arg: Any
    target: str | None
    persistent: bool | None = None


@dataclasses.dataclass
class OutputSpec:
    """One output: its kind, its node, and for changed buffers the name in the module."""

    kind: OutputKind
    arg: Any
    target: str | None


@dataclasses.dataclass
class ExportGraphSignature:
    """The inputs and outputs of the graph of an exported program, in the order of its placeholders and results."""

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]

    def _inputs(self, kind: InputKind) -> dict[str, str]:
        return {spec.arg.name: spec.target or "" for spec in self.input_specs if spec.kind is kind}

    def _outputs(self, kind: OutputKind) -> dict[str, str]:
        return {spec.arg.name: spec.target or "" for spec in self.output_specs if spec.kind is kind}

    @property
    def inputs_to_parameters(self) -> Mapping[str, str]:
        """The names of parameters by the placeholders that stand for them."""
        return self._inputs(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> Mapping[str, str]:
        """The names of buffers by the placeholders that stand for them."""
        return self._inputs(InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self) -> Mapping[str, str]:
        """The names of constants by the placeholders that stand for them."""
        return self._inputs(InputKind.CONSTANT_TENSOR)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return tuple(self.inputs_to_parameters.values())

    @property
    def buffers(self) -> tuple[str, ...]:
        """The names of the buffers."""
        return tuple(self.inputs_to_buffers.values())

    @property
    def non_persistent_buffers(self) -> tuple[str, ...]:
        """The names of the buffers that are not in the state dict."""
        return tuple(spec.target or "" for spec in self.input_specs if spec.kind is InputKind.BUFFER and spec.persistent is False)

    @property
    def lifted_tensor_constants(self) -> tuple[str, ...]:
        """The names of the constants."""
        return tuple(self.inputs_to_lifted_tensor_constants.values())

    @property
    def user_inputs(self) -> tuple[Any, ...]:
        """The arguments: names of placeholders for tensors, and the values of the others."""
        return tuple(_shown(spec.arg) for spec in self.input_specs if spec.kind is InputKind.USER_INPUT)

    @property
    def user_outputs(self) -> tuple[Any, ...]:
        """The results: names of nodes for tensors, and the values of the others."""
        return tuple(_shown(spec.arg) for spec in self.output_specs if spec.kind is OutputKind.USER_OUTPUT)

    @property
    def buffers_to_mutate(self) -> Mapping[str, str]:
        """The names of the buffers that get new values, by the names of the outputs with these values."""
        return self._outputs(OutputKind.BUFFER_MUTATION)

    @property
    def parameters_to_mutate(self) -> Mapping[str, str]:
        """The names of the parameters that get new values, by the names of the outputs with these values."""
        return self._outputs(OutputKind.PARAMETER_MUTATION)

    @property
    def user_inputs_to_mutate(self) -> Mapping[str, str]:
        """The arguments that get new values, by the names of the outputs with these values."""
        return self._outputs(OutputKind.USER_INPUT_MUTATION)

    @property
    def backward_signature(self) -> None:
        """None: exported programs have no backward pass."""

    @property
    def lifted_custom_objs(self) -> tuple[str, ...]:
        """An empty tuple: objects cannot be inputs of a graph."""
        return ()

    def __str__(self) -> str:
        def line(spec: Any, more: str = "") -> str:
            return f"{spec.arg.name}: {spec.kind.name}" + ("" if spec.target is None else f" target={spec.target!r}") + more

        lines = ["# inputs"]
        lines += [line(one, f" persistent={one.persistent}" if one.kind is InputKind.BUFFER else "") for one in self.input_specs]
        return "\n".join([*lines, "", "# outputs", *map(line, self.output_specs), ""])


def _shown(argument: Any) -> Any:
    return argument.value if isinstance(argument, ConstantArgument) else argument.name


_absent = kinds(
    "export.graph_signature", "CustomObjArgument ExportBackwardSignature SymBoolArgument SymFloatArgument SymIntArgument",
    "graphs of metatensor have only tensors as inputs, and no backward pass",
)  # fmt: skip
CustomObjArgument, ExportBackwardSignature = _absent["CustomObjArgument"], _absent["ExportBackwardSignature"]
SymBoolArgument, SymFloatArgument = _absent["SymBoolArgument"], _absent["SymFloatArgument"]
SymIntArgument = _absent["SymIntArgument"]
