"""Tracing by execution: `make_fx` returns the operators that a function calls as a graph."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from metatensor._core.capture import Value
from metatensor.program.fx.decomposing import decomposed
from metatensor.program.fx.from_program import graph_module_of, input_names
from metatensor.program.fx.graph_module import GraphModule
from metatensor.program.program import Program
from metatensor.program.reads import dependent_reads, describe
from metatensor.program.structure import leaves
from metatensor.program.tracing import trace

__all__ = ["get_proxy_mode", "make_fx"]


def get_proxy_mode() -> None:
    """Return None: no dispatch mode is active while a function is traced."""


def make_fx(
    f: Callable[..., Any], decomposition_table: dict[Any, Any] | None = None, tracing_mode: str = "real", **options: Any
) -> Callable[..., GraphModule]:
    """Return a function that runs `f` on its arguments, and returns what it called as a `GraphModule`.

    Targets are overloads of ``torch.ops``, or operators of metatensor where there is none. Calls in a backward pass inside `f`
    are recorded too. Sizes and other values that are not tensors are constants, as in these arguments.

    Parameters
    ----------
    f : callable
        What to run.
    decomposition_table : dict, optional
        Functions by the overload of ``torch.ops`` that they replace.
    tracing_mode : str
        "real", "fake" or "symbolic", which all run `f` on the arguments as they are.
    **options
        Ignored.

    Raises
    ------
    ValueError
        If `tracing_mode` is another one.
    RuntimeError
        If `f` reads a number from a tensor that depends on the arguments.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.program.fx.experimental.proxy_tensor import make_fx
    >>> made = make_fx(lambda x: mt.sigmoid(x) + 1)(mt.empty(2, device="meta"))
    >>> [str(node.target) for node in made.graph.nodes if node.op == "call_function"]
    ['aten.sigmoid.default', 'aten.add.Tensor']
    """
    if tracing_mode not in ("real", "fake", "symbolic"):
        raise ValueError(f"make_fx: expected 'real', 'fake' or 'symbolic' as tracing_mode, got {tracing_mode!r}")

    @functools.wraps(f)
    def traced(*args: Any, **kwargs: Any) -> GraphModule:
        program = trace(f, *args, **kwargs)
        for read in dependent_reads(program):
            raise RuntimeError(f"make_fx: {program.name} reads a number that depends on its arguments: {describe(program, read)}")
        if decomposition_table:
            program = decomposed(program, dict(decomposition_table))
        return graph_module_of(program, overloads=True, names=_names(f, program))

    return traced


def _names(f: Any, program: Program) -> list[str]:
    """Return names for the placeholders that begin with those of the parameters of a function."""
    try:
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        parameters = [one.name for one in inspect.signature(f).parameters.values() if one.kind in kinds]
    except (TypeError, ValueError):
        parameters = []
    found = []
    for i, argument in enumerate(program.arguments[0]):
        name = parameters[i] if i < len(parameters) else "arg"
        found += [name] * sum(1 for _ in leaves(Value, argument))
    found += input_names(program)[len(found) :]
    counts: dict[str, int] = {}
    for i, name in enumerate(found):
        counts[name] = counts.get(name, 0) + 1
        found[i] = f"{name}_{counts[name]}"
    return found
