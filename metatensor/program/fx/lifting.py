"""Graphs of programs with the parameters lifted to arguments, the form that compiler backends take."""

from __future__ import annotations

from metatensor.program.fx.from_program import Builder, Rebuild, input_names
from metatensor.program.fx.graph_module import GraphModule
from metatensor.program.program import Program

__all__ = ["lifted"]


def lifted(program: Program, *, overloads: bool = True) -> tuple[GraphModule, Rebuild]:
    """Return a module that runs the graph of a program, and a function that builds the program's result from the module's.

    The arguments of the module are the parameters, buffers and constants, in the order of ``program.held``, then the tensors
    among the arguments. It returns a tuple of the tensors in the result.

    Parameters
    ----------
    program : Program
        The program to convert.
    overloads : bool
        Whether targets are overloads of ``torch.ops``. Default True.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.program.fx.lifting import lifted
    >>> program = mt.program.trace(mt.nn.Linear(3, 2, device="meta"), mt.empty(1, 3, device="meta"))
    >>> [node.name for node in lifted(program)[0].graph.nodes]
    ['weight', 'bias', 'input_1', 'linear', 'output']
    """
    builder = Builder(program, overloads=overloads)
    for name, value in program.held.items():
        builder.placeholder(value, name.replace(".", "_") if not name[0].isdigit() else f"p_{name.replace('.', '_')}")
    for name, value in zip(input_names(program), program.inputs):
        builder.placeholder(value, name)
    builder.calls()
    builder.effects()
    graph = builder.finish(tuple(builder.nodes[value.number] for value in program.outputs))
    return GraphModule({}, graph), Rebuild(program.output)
