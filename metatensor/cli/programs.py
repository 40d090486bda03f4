"""Program files on the command line: their contents, differences between two, and running them."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click
from rich import box
from rich.table import Table

from metatensor.checkpoint.errors import printable
from metatensor.cli.contents import printable_lines, text
from metatensor.cli.terminal import Terminal

if TYPE_CHECKING:
    from metatensor.program import Program

__all__ = ["bound", "described", "is_program", "opened", "places", "print_diff", "print_program", "type_text"]

MOST = 30
"""Maximum number of differing parameters that `diff` prints."""
_HEAD = b"program.json"
_EXPORTED = ("models/model.json", "serialized_exported_program.json")  # ends of names in PyTorch's .pt2 files


def is_program(path: str) -> bool:
    """Return True if a file is a saved program, whatever its name is: a zip archive that has ``program.json``, or that PyTorch exported."""
    from metatensor.checkpoint import CheckpointError
    from metatensor.checkpoint._zip import Directory
    from metatensor.checkpoint.source import Source

    try:
        with open(path, "rb") as file:
            begin = file.read(30 + len(_HEAD))
            if not begin.startswith(b"PK\3\4"):
                return False
            if begin.endswith(_HEAD):
                return True
            file.seek(0)
            directory = Directory(Source(file, path))
            return _HEAD.decode() in directory or any(name.endswith(_EXPORTED) for name in directory)
    except (CheckpointError, OSError):  # also a folder
        return False


def opened(path: str, device: Any = None) -> Program:
    """Read a program. Raise an error of the command if it cannot be read."""
    from metatensor.checkpoint import CheckpointError
    from metatensor.program import load

    try:
        return load(path, device=device)
    except CheckpointError as error:
        raise click.ClickException(printable(str(error))) from None
    except NotImplementedError as error:
        raise click.ClickException(printable(f"{path}: {error}")) from None
    except OSError as error:
        raise click.ClickException(printable(f"{path}: {error.strerror or error}")) from None


def bound(program: Program, weights: str) -> Program:
    """Return a program with the tensors of a checkpoint. Raise an error of the command if it cannot be read."""
    from metatensor.checkpoint import CheckpointError, load

    try:
        tensors = load(weights)
        known = {name: t for name, t in tensors.items() if name in program.held or name in program.tied}
        if not known:
            raise click.ClickException(printable(f"{weights} has no tensor with the name of a parameter of the program"))
        return program.bind(known)
    except (CheckpointError, ValueError) as error:
        raise click.ClickException(printable(str(error))) from None
    except OSError as error:
        raise click.ClickException(printable(f"{weights}: {error.strerror or error}")) from None


def type_text(value: Any) -> str:
    """Return the dtype and the shape of a tensor or a value, such as ``float32[2,3]``."""
    return f"{value.dtype.name}[{','.join(map(str, value.shape))}]"


def places(kind: type, nested: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the objects of a class in a nested structure, each with its place, such as ``.logits`` or ``[0]``."""
    if isinstance(nested, kind):
        yield place, nested
    elif isinstance(nested, dict):
        for key, item in nested.items():
            yield from places(kind, item, f"{place}[{key!r}]")
    elif isinstance(nested, (list, tuple)):
        names = getattr(nested, "_fields", None)
        for i, item in enumerate(nested):
            yield from places(kind, item, f"{place}.{names[i]}" if names else f"{place}[{i}]")
    elif hasattr(nested, "__dict__") and not isinstance(nested, type):
        for name, item in vars(nested).items():
            yield from places(kind, item, f"{place}.{name}")


def _inputs(program: Program) -> Iterator[tuple[str, Any]]:
    """Yield the inputs with their names in ``-i`` and in the listing."""
    from metatensor._core.capture import Value
    from metatensor.program.argument_names import names_of_positional

    args, kwargs = program.arguments
    for name, argument in zip(names_of_positional(program), args):
        for place, value in places(Value, argument):
            yield f"{name}{place}", value
    for key, argument in kwargs.items():
        for place, value in places(Value, argument):
            yield f"{key}{place}", value


def _nbytes(value: Any) -> int:
    return math.prod(value.shape) * value.dtype.itemsize


def _sizes(program: Program) -> dict[str, Any]:
    """Return the ranges of named sizes and the conditions of the program's pieces, or an empty dict if all sizes are fixed."""
    sizes = getattr(program, "sizes", None)
    if sizes is None:
        return {}
    return {"sizes": {name: [r[0], r[-1], r.step] for name, r in sizes.items()}, "conditions": program.conditions()}  # type: ignore[attr-defined]


def described(program: Program, stored: set[str]) -> dict[str, Any]:
    """Describe a program as JSON types. Sizes are in bytes. `stored` has the names of the tensors with data."""
    from metatensor._core.capture import Ticket, Value
    from metatensor.program.structure import leaves

    def row(value: Any) -> dict[str, Any]:
        shape = [n if type(n) is int else str(n) for n in value.shape]  # named sizes as expressions
        return {"dtype": value.dtype.name, "shape": shape, "bytes": _nbytes(value)}

    calls = program.calls
    held = {}
    for name, value in program.held.items():
        held[name] = {"kind": program.kinds[name], **row(value), "data": name in stored}
    return {
        "name": program.name, **_sizes(program),
        "inputs": [{"name": name, **row(value)} for name, value in _inputs(program)],
        "outputs": [{"name": f"output{place}", **row(value)} for place, value in places(Value, program.output)],
        "tensors": held, "tied": dict(program.tied), "calls": len(calls), "operators": dict(program.operators().most_common()),
        "modules": len({call.module for call in calls}), "backward_calls": sum(call.backward for call in calls),
        "random_calls": sum(next(leaves(Ticket, (call.args, call.kwargs)), None) is not None for call in calls),
        "writing_calls": sum(bool(call.writes) for call in calls),
        "effects": [{"kind": effect.kind, "name": effect.name} for effect in program.effects],
        "values_read": [{"before_call": at, "operator": op, **row(value)} for at, op, value in program.reads],
    }  # fmt: skip


def print_program(path: str, as_json: bool, calls: bool, html: str | None = None) -> None:
    """Print a description of a program, or with `calls` its listing, without reading tensor data. With `html`, also draw a page."""
    from metatensor._core.units import bytes_text
    from metatensor.program.saving import names_with_data

    program = opened(path, "meta")
    if html is not None:
        try:
            program.to_html(html)
        except OSError as error:
            raise click.ClickException(printable(f"{html}: {error.strerror or error}")) from None
    found = {"file": path, "format": "metatensor program", "file_bytes": os.path.getsize(path), **described(program, names_with_data(path))}
    if calls:
        found["listing"] = str(program).split("\n")
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    console = Terminal()
    if calls:
        click.echo(printable_lines(str(program)))
        return
    for name, (first, last, step) in found.get("sizes", {}).items():
        console.print(text(f"size {name}: {first}..{last}{f' step {step}' if step > 1 else ''}"))
    for condition in found.get("conditions", ()):
        console.print(text(f"where {condition}"))
    for title, rows in (("input", found["inputs"]), ("output", found["outputs"])):
        for row in rows:
            name = row["name"] if title == "input" else row["name"].removeprefix("output")
            console.print(text(f"{title} {name}: {_row(row)}" if name else f"{title}: {_row(row)}"))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading, justify in (("operator", "left"), ("calls", "right")):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    for name, count in found["operators"].items():
        table.add_row(text(name), str(count))
    console.print(table)
    for kind, plural in (("parameter", "parameters"), ("buffer", "buffers"), ("constant", "constants")):
        rows = [row for row in found["tensors"].values() if row["kind"] == kind]
        if rows:
            data = sum(row["data"] for row in rows)
            size = sum(row["bytes"] for row in rows)
            elements = sum(math.prod(row["shape"]) for row in rows)
            console.print(text(f"{len(rows)} {plural if len(rows) > 1 else kind}, {elements:,} elements, {bytes_text(size)}; "
                               f"{'all' if data == len(rows) else data or 'none'} with data"))  # fmt: skip
    for count, what in ((found["backward_calls"], "belong to a backward pass"), (found["random_calls"], "draw random numbers"),
                        (found["writing_calls"], "write to a tensor that exists")):  # fmt: skip
        if count:
            console.print(text(f"{count} calls {what}"))
    if found["effects"]:
        console.print(text(f"a run sets {_few([e['name'] + ('.grad' if e['kind'] == 'grad' else '') for e in found['effects']])}"))
    if reads := found["values_read"]:
        names = _few(list(dict.fromkeys(read["operator"] for read in reads)))
        calls_after = _few([str(read["before_call"]) for read in reads])
        many = len(reads) > 1
        console.print(text(f"{names} read {f'{len(reads)} values' if many else 'a value'} before call{'s' * many} {calls_after}; "
                           f"the program has {'them as fixed numbers' if many else 'it as a fixed number'}", style="yellow"))  # fmt: skip
    console.print(text(f"{program.name}: {found['calls']} calls of {len(found['operators'])} operators in {found['modules']} modules; "
                       f"{bytes_text(found['file_bytes'])} in {path}", style="bold"))  # fmt: skip


def _row(row: dict[str, Any]) -> str:
    return f"{row['dtype']}[{','.join(map(str, row['shape']))}]"


def _few(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _alike(changes: list[Any]) -> dict[str, str]:
    """Return lines for changes, each with its kind. Equal calls share a line, which tells their number and where they are."""
    places: dict[tuple[str, str], list[str]] = {}
    for change in changes:
        places.setdefault((str(change), change.kind), []).append(change.module)
    held = [change for change in changes if change.kind == "parameter"]
    lines: dict[str, str] = {}
    for change in held[:MOST]:
        name, _, old = (change.before or "").partition(": ")
        lines[f"~ {name}: {old} -> {change.after.partition(': ')[2]}" if change.before and change.after else str(change)] = "parameter"
    if len(held) > MOST:
        lines[f"~ and {len(held) - MOST} more parameters, buffers and constants; --json lists all"] = "parameter"
    for (row, kind), modules in places.items():
        if kind == "parameter":
            continue
        named = list(dict.fromkeys(filter(None, modules)))
        where = f"in {', '.join(named[:2])}{f' and {len(named) - 2} more modules' if len(named) > 2 else ''}" if named else ""
        notes = [note for note in (f"{len(modules)} times" if len(modules) > 1 else "", where) if note]
        lines[f"{row}  ({', '.join(notes)})" if notes else row] = kind
    return lines


def print_diff(paths: tuple[str, str], as_json: bool, as_markdown: bool) -> None:
    """Print what changed from one program to another: parameters by name, calls by operator and shapes."""
    from metatensor.program import diff, equal

    before, after = (opened(path, "meta") for path in paths)
    changes = diff(before, after)
    same = equal(before, after)
    if as_json:
        click.echo(json.dumps({"before": paths[0], "after": paths[1], "comparison": "programs", "equal": same,
                               "changes": [change._asdict() for change in changes]}, indent=2))  # fmt: skip
        return
    counts = {kind: sum(change.kind == kind for change in changes) for kind in ("removed", "added", "parameter")}
    total = (f"{len(before)} calls before, {len(after)} after: {counts['removed']} removed, {counts['added']} added, "
             f"{counts['parameter']} parameters, buffers and constants differ")  # fmt: skip
    note = ""
    if not changes:
        note = "the programs are equal" if same else "the calls are the same; their arguments or order of values differ"
    elif [call.op for call in before.calls] == [call.op for call in after.calls]:
        note = "both call the same operators in the same order"
    rows = _alike(changes)
    if as_markdown:
        lines = ["### Changes of a program", "", "```diff", *map(printable, rows), "```", "", total]
        click.echo("\n".join(lines if changes else [lines[0], "", total]))
        return
    console = Terminal()
    styles = {"removed": "red", "added": "green", "parameter": "yellow"}
    for row, kind in rows.items():
        console.print(text(row, styles[kind]))
    console.print(text(f"{total}{'; ' + note if note else ''}", style="bold"))
