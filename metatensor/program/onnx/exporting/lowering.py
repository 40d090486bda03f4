"""Preparation of a program for export: remove writes and unused calls, and decompose operators without a conversion."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from metatensor._core.capture import ProgramCall, Value
from metatensor._core.op import registry
from metatensor.program.onnx.exporting.errors import ExportError, Unsupported, listed
from metatensor.program.passes import dead_code, functionalize
from metatensor.program.passes.decomposing import decomposed
from metatensor.program.passes.rewriting import Rewriter
from metatensor.program.program import Program

__all__ = ["decomposed_calls", "prepared"]


def prepared(program: Program, ignore_writes: bool = False) -> Program:
    """Return a program without writes. Raise `ExportError` if it changes tensors that existed before the run, which a model cannot do.

    With `ignore_writes`, such writes become the last calls, and buffers are not replaced.
    """
    effects = [effect for effect in program.effects if effect.kind == "grad" or not ignore_writes]
    if effects:
        raise ExportError(f"{program.name}: an ONNX model changes no tensors, and this program "
                          f"{_effect(effects[0])}; export a forward pass in evaluation mode")  # fmt: skip
    program = program.replace(effects=(), calls=[call.replace(grad=False) if call.grad else call for call in program.calls])
    try:
        made = dead_code(functionalize(dead_code(program)))
    except ValueError as error:
        raise ExportError(f"{program.name} has no form without writes, which an ONNX model needs: {error}") from None
    outer = {value.number: f"{made.kinds[name]} {name!r}" for name, value in made.held.items()}
    outer.update({value.number: "an argument" for value in made.inputs})
    found = [Unsupported(call.op.name, call.place, f"a write to {outer[value.number]}, which an ONNX model cannot do")
             for call in made.calls for value in call.writes if value.number in outer and not ignore_writes]  # fmt: skip
    if found:
        raise listed(program.name, found)
    return made


def _effect(effect: Any) -> str:
    return f"sets the gradient of {effect.name!r}" if effect.kind == "grad" else f"replaces {effect.name!r}"


def decomposed_calls(program: Program, indices: Collection[int], ignore_writes: bool = False) -> Program | None:
    """Return the program with the calls at `indices` decomposed; None if none of them has a decomposition."""
    made, progress = Rewriter(program), False
    for i, call in enumerate(program.calls):
        made.at(i)
        if i in indices and decomposed(made, call, _relabelled):
            progress = True
        else:
            made.keep(call)
    return prepared(made.finish(), ignore_writes) if progress else None


def _relabelled(made: Rewriter, old: Value, new: Value, call: ProgramCall) -> Value:
    """Use a value instead of one with other strides, which have no meaning in ONNX."""
    made.calls.append(call.replace(op=registry["clone"], args=(new,), kwargs={}, result=old, writes=()))
    return old
