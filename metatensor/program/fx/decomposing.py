"""Programs in which functions replace operators."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.capture import Value
from metatensor.program.fx.from_program import graph_module_of
from metatensor.program.fx.interpreter import Interpreter, attribute_of
from metatensor.program.program import Program
from metatensor.program.restoring import restoring
from metatensor.program.structure import mapped
from metatensor.program.tracing import trace

__all__ = ["copied", "decomposed"]


def copied(t: Any) -> Any:
    """Return a copy of a tensor that is not a part of a graph."""
    made = t.detach().clone()
    return mt.nn.Parameter(made, requires_grad=t.requires_grad) if isinstance(t, mt.nn.Parameter) else made


class _Replacing(Interpreter):
    table: dict[Any, Any]

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.table.get(target, target)(*args, **kwargs)


def decomposed(program: Program, table: dict[Any, Any]) -> Program:
    """Return a program in which functions replace overloads, by running the graph on copies of its tensors."""
    module = graph_module_of(program.replace(tensors={name: copied(t) for name, t in program.tensors.items()}), overloads=True)
    runner = _Replacing(module)
    runner.table = table
    held = {name: attribute_of(module, name) for name in program.held}

    def run(*tensors: Any) -> Any:
        return runner.run(*tensors)

    with restoring():
        made = trace(run, *(mt.empty_strided(v.shape, v.stride, dtype=v.dtype, device=v.device).zero_() for v in program.inputs))
    names = {id(t): name for name, t in held.items()}
    renamed = {name: names.get(id(t), name) for name, t in made.tensors.items()}
    taken: dict[int, Value] = {}
    for value, own in zip(program.inputs, made.inputs):
        taken[value.number] = own
    arguments = mapped(lambda value: taken[value.number], Value, program.arguments)
    return made.replace(
        name=program.name, arguments=arguments, held={renamed[n]: v for n, v in made.held.items()},
        kinds={renamed[n]: program.kinds.get(renamed[n], k) for n, k in made.kinds.items()}, tied=program.tied,
        tensors={renamed[n]: program.tensors.get(renamed[n], t) for n, t in made.tensors.items()},
        effects=[effect._replace(name=renamed.get(effect.name, effect.name)) for effect in made.effects],
    )  # fmt: skip
