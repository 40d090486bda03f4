"""ONNX models on the command line: their inputs, outputs and operators, and running them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import click
from rich import box
from rich.table import Table

from metatensor.checkpoint.errors import printable
from metatensor.cli.contents import text
from metatensor.cli.terminal import Terminal

__all__ = ["described", "print_contents", "traced"]


def described(path: str) -> dict[str, Any]:
    """Describe the graph of a model as JSON types: ``inputs``, ``outputs``, ``operators`` and ``opsets``.

    Inputs that have an initializer, as in old models, are left out. Nodes in the branches of control flow and in functions
    are counted once.

    Raises
    ------
    ImportError
        If the ``onnx`` package is missing.
    CheckpointError
        If the file is damaged.
    """
    from metatensor.program.onnx.importing.reading import declared, read_model

    proto, file = read_model(path)
    known = {one.name for one in proto.graph.initializer}
    inputs = [declared(one, file) for one in proto.graph.input if one.name not in known]
    outputs = [declared(one, file) for one in proto.graph.output]
    bodies = [proto.graph.node, *(one.node for one in proto.functions)]
    counts = Counter(f"{node.domain}.{node.op_type}" if node.domain else node.op_type for body in bodies for node in _nodes(body))
    return {
        "inputs": [_row(one) for one in inputs], "outputs": [_row(one) for one in outputs],
        "nodes": sum(counts.values()), "operators": dict(counts.most_common()),
        "opsets": {one.domain or "ai.onnx": one.version for one in proto.opset_import},
    }  # fmt: skip


def print_contents(console: Terminal, found: dict[str, Any]) -> None:
    """Print what `described` returned."""
    for title, rows in (("input", found["inputs"]), ("output", found["outputs"])):
        for row in rows:
            console.print(text(printable(f"{title} {row['text']}")))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("operator")
    table.add_column("nodes", justify="right")
    for name, count in found["operators"].items():
        table.add_row(text(name), str(count))
    console.print(table)
    opsets = ", ".join(f"{domain} {version}" for domain, version in found["opsets"].items())
    console.print(text(printable(f"{found['nodes']} nodes of {len(found['operators'])} operators; opset {opsets}"), style="bold"))


def _row(one: Any) -> dict[str, Any]:
    from metatensor.program.onnx.dtypes import type_name

    return {"name": one.name, "type": type_name(one.kind), "shape": None if one.shape is None else list(one.shape), "text": str(one)}


def _nodes(nodes: Iterable[Any]) -> Iterator[Any]:
    """Yield nodes, with those of the graphs in their attributes."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _nodes(graph.node)


def traced(
    path: str, place: Any, positional: list[Any], named: dict[str, Any], *, fill: Callable[[list[Any]], list[Any]]
) -> tuple[Any, list[Any]]:
    """Return the program of a model for inputs on meta, and these inputs. Those that are not given have the declared shapes.

    Inputs that do not fit raise a usage error. If `place` is not meta, ``fill(inputs)`` returns inputs with data, with which the
    model is traced if its shapes depend on values.
    """
    from metatensor._core.errors import DataDependentError
    from metatensor.checkpoint import CheckpointError
    from metatensor.program.onnx import OnnxModel, from_onnx

    try:
        model = OnnxModel(path, device="meta")
        inputs = _inputs(model, positional, named)
        try:
            program = from_onnx(path, *inputs, device="meta" if place.type == "meta" else "cpu")
        except DataDependentError as error:
            if place.type == "meta":
                raise click.ClickException(printable(f"{path}: {error}; with --device cpu, the values are known")) from None
            program = from_onnx(path, *fill(inputs), device=place)
    except (CheckpointError, ImportError, NotImplementedError) as error:
        raise click.ClickException(printable(str(error))) from None
    except (TypeError, ValueError) as error:
        raise click.BadParameter(printable(str(error)), param_hint="--input") from None
    except OSError as error:
        raise click.ClickException(printable(f"{path}: {error.strerror or error}")) from None
    except Exception as error:  # a file may contain anything
        raise click.ClickException(printable(f"{path} does not run: {type(error).__name__}: {error}")) from None
    return program, inputs


def _inputs(model: Any, positional: list[Any], named: dict[str, Any]) -> list[Any]:
    """Return the inputs of a model in order, on meta."""
    if not positional and not named:
        if model.size_names():
            known = ", ".join(map(str, model.inputs))
            raise ValueError(f"the sizes {', '.join(sorted(model.size_names()))} vary: give an --input for each of {known}")
        return list(model.empty_inputs().values())
    given = model._bound(tuple(positional), named)
    return [given[one.name] for one in model.inputs if given[one.name] is not None]
