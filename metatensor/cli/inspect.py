"""``metatensor inspect``."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import click
from rich import box
from rich.table import Table
from rich.tree import Tree

from metatensor.checkpoint.errors import printable
from metatensor.cli.contents import Module, differences, grouped, sharing, shown, text, totals
from metatensor.cli.files import kind_of
from metatensor.cli.onnx_contents import described, print_contents
from metatensor.cli.programs import is_program, print_program
from metatensor.cli.terminal import Terminal

if TYPE_CHECKING:
    from metatensor.checkpoint import Checkpoint

__all__ = ["command", "describe_summary"]

MANY = 3000
"""Tables of more rows are printed as plain lines, because rich would take long."""


@click.command("inspect")
@click.argument("path", metavar="PATH", type=click.Path(exists=True))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--tree", "as_tree", is_flag=True, help="Print the tree of modules with their totals; equal modules share a line.")
@click.option(
    "--diff", "other", metavar="OTHER", type=click.Path(exists=True),
    help="Show what changed from PATH to OTHER; exit status 1 if anything did."
)
@click.option("--values", is_flag=True, help="With --diff: compare the data as well, which reads both files entirely.")
@click.option("--check", "target", metavar="FILE.py:MODEL", help="Check whether the checkpoint fits this model; exit status 1 if not.")
@click.option(
    "--args", "arguments", default="", metavar="ARGS",
    help='With --check: arguments of the class or function that makes the model, "12, width=768".',
)  # fmt: skip
@click.option("--torch", is_flag=True, help="With --check: the model is written for PyTorch; metatensor replaces PyTorch.")
@click.option(
    "--prefix", default="", metavar="TEXT",
    help='With --check: a prefix of the checkpoint\'s names that the model lacks ("state_dict.").',
)  # fmt: skip
@click.option("--calls", is_flag=True, help="Of a program: list its calls, with the shapes of their results.")
@click.option("--html", metavar="FILE", type=click.Path(dir_okay=False, writable=True),
              help="Of a program: also write a page that draws its graph.")  # fmt: skip
@click.option("--shapes", is_flag=True, help="Of an ONNX model: list the dtype and shape of every value.")
@click.option("--size", "sizes", metavar="NAME=N", multiple=True, help="With --shapes: the number for a named size; repeatable.")
def command(
    path: str, as_json: bool, as_tree: bool, other: str | None, values: bool, target: str | None, arguments: str, torch: bool, prefix: str,
    calls: bool, html: str | None, shapes: bool, sizes: tuple[str, ...],
) -> None:
    """List the tensors of a checkpoint: a file of any known format, an index, or a folder. Tensor data is not read.

    Of a program, which `metatensor trace` writes, and of an ONNX model, list inputs, outputs, operators and parameters.

    \b
    metatensor inspect model.safetensors --tree
    metatensor inspect before.pt --diff after.safetensors
    metatensor inspect model.mtp --calls
    metatensor inspect model.mtp --html graph.html
    metatensor inspect model.onnx --shapes --size batch=4
    metatensor inspect checkpoints/step-500 --check model.py:Net --args "width=768"
    """
    if shapes or sizes:
        from metatensor.cli.onnx_shapes import print_shapes

        if as_tree or other is not None or values or target is not None or calls or html is not None:
            raise click.UsageError("--shapes cannot be combined with --tree, --diff, --values, --check, --calls and --html")
        if not shapes:
            raise click.UsageError("--size needs --shapes")
        print_shapes(path, sizes, as_json)
        return
    if is_program(path):
        for name, given in (("--tree", as_tree), ("--diff", other), ("--values", values), ("--check", target)):
            if given:
                advice = "; metatensor diff compares two programs" if name == "--diff" else ""
                raise click.UsageError(printable(f"{path} is a program; {name} is for checkpoints{advice}"))
        print_program(path, as_json, calls, html)
        return
    for name, wanted in (("--calls", calls), ("--html", html)):
        if wanted:
            raise click.UsageError(printable(f"{path} is not a program; {name} needs one"))
    checkpoint = _opened(path)
    graph = _graph(path, checkpoint) if other is None and target is None else None
    if other is not None and target is not None:
        raise click.UsageError("--diff and --check cannot be combined")
    if other is not None:
        _diff(path, checkpoint, other, values, as_json)
    elif target is not None:
        _check(checkpoint, target, arguments, torch, prefix, as_json)
    elif as_json:
        click.echo(json.dumps({**_as_dict(checkpoint), **({} if graph is None else {"graph": graph})}, indent=2))
    else:
        if graph is not None and not as_tree:
            print_contents(Terminal(), graph)
        _print(checkpoint, as_tree)


def _opened(path: str) -> Checkpoint:
    from metatensor.checkpoint import CheckpointError, inspect

    try:
        return inspect(path)
    except CheckpointError as error:
        if path.lower().endswith(".mtp") and os.path.isfile(path):
            raise click.ClickException(printable(f"{path} is {kind_of(path)}, not a program that `metatensor trace` wrote")) from None
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(printable(f"{path}: {error.strerror or error}")) from None


def _graph(path: str, checkpoint: Checkpoint) -> dict[str, Any] | None:
    """Return the contents of the graph of an ONNX model. None for other files, and without the ``onnx`` package."""
    from metatensor.checkpoint import CheckpointError

    if checkpoint.format != "onnx":
        return None
    try:
        return described(path)
    except ImportError as error:
        click.echo(printable(f"note: inputs, outputs and operators are not listed: {error}"), err=True)
        return None
    except CheckpointError as error:
        raise click.ClickException(printable(str(error))) from None


def _as_dict(checkpoint: Checkpoint) -> dict[str, Any]:
    found = checkpoint.to_dict()
    found["dtype_bytes"] = {dtype: nbytes for dtype, _, nbytes in totals(checkpoint)}
    for name, shares in sharing(checkpoint).items():
        found["tensors"][name]["shares"] = shares
    return found


# Listing --------------------------------------------------------------------------


def _print(checkpoint: Checkpoint, as_tree: bool) -> None:
    console = Terminal()
    if as_tree:
        console.print(_tree(grouped(checkpoint), checkpoint.file))
    elif checkpoint.tensors:
        _print_table(console, checkpoint)
    for line in describe_summary(checkpoint):
        console.print(text(line, style="bold"))
    for name, reason in checkpoint.unsupported.items():
        console.print(text(f"{name} cannot be loaded: {reason}", style="yellow"))
    for key, value in checkpoint.metadata.items():
        console.print(text(f"{key}: {value if len(value) <= 200 else value[:197] + '...'}"))


def _rows(checkpoint: Checkpoint) -> tuple[list[tuple[str, ...]], bool]:
    """Return the rows of the table, and whether any tensors share storage.

    Each module has a row with its total and no dtype, followed by a row for each of its tensors.
    """
    shares = sharing(checkpoint)
    rows: list[tuple[str, ...]] = []
    for module in grouped(checkpoint).walk():
        if not module.tensors:
            continue
        indent = ""
        if module.path:
            indent = "  "
            rows.append((module.path, "", "", f"{sum(info.nbytes for _, info in module.tensors):,}", ""))
        for name, info in module.tensors:
            rows.append((indent + name, info.dtype, str(list(info.shape)), f"{info.nbytes:,}", shares.get(name, "")))
    return rows, bool(shares)


def _print_table(console: Terminal, checkpoint: Checkpoint) -> None:
    """Print the rows as a table, or as plain lines if there are more than `MANY`."""
    rows, shared = _rows(checkpoint)
    headings = ("tensor", "dtype", "shape", "bytes", *(["shared"] if shared else []))
    if len(rows) > MANY:
        lines = [headings, *(tuple(shown(cell) for cell in row) for row in rows)]
        widths = [max(len(line[column]) for line in lines) for column in range(4)]
        for line in lines:
            cells = [line[3].rjust(widths[3]) if column == 3 else line[column].ljust(widths[column]) for column in range(4)]
            click.echo("  ".join([*cells, *line[4:]]).rstrip())
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold", justify="right" if heading == "bytes" else "left", no_wrap=heading == "bytes")
    for name, dtype, shape, nbytes, shares in rows:
        bold = "" if dtype else "bold"
        cells = [text(name, bold), text(dtype), text(shape), text(nbytes, bold), text(shares, "cyan")]
        table.add_row(*cells[: len(headings)])
    console.print(table)


def _tree(root: Module, title: str) -> Tree:
    tree = Tree(text(title, style="bold"))
    _branch(tree, root)
    return tree


def _branch(tree: Tree, module: Module) -> None:
    from metatensor._core.units import bytes_text, count_text

    for names, child in module.folded():
        times = len(names)
        label = text(names[0] if times == 1 else f"{names[0]}-{names[-1]}", style="bold")
        label.append(f"  {count_text(child.elements * times)} elements, {bytes_text(child.nbytes * times)}", style="dim")
        if times > 1:
            label.append(f"  {times} alike", style="cyan")
        _branch(tree.add(label), child)
    for name, info in module.tensors:
        tree.add(text(f"{name.rpartition('.')[2]}  {info.dtype}{list(info.shape)}"))


def describe_summary(checkpoint: Checkpoint) -> list[str]:
    """Return lines with the number of tensors, elements and bytes, in total and by dtype."""
    from metatensor._core.units import bytes_text, count_text

    rows = totals(checkpoint)
    kinds = ", ".join(f"{count_text(count)} {dtype}" for dtype, count, _ in rows)
    line = f"{len(checkpoint.tensors)} tensors, {checkpoint.parameters:,} elements ({kinds}), {bytes_text(checkpoint.nbytes)}"
    lines = [f"{line}; {checkpoint.format}"]
    if len(rows) > 1:
        lines += [f"  {dtype}: {count:,} elements, {bytes_text(nbytes)}" for dtype, count, nbytes in rows]
    return lines


# Comparisons ----------------------------------------------------------------------


def _diff(path: str, before: Checkpoint, other: str, values: bool, as_json: bool) -> None:
    after = _opened(other)
    found = differences(path, before, other, after, values)
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        console = Terminal()
        for kind, style, mark in (("removed", "red", "-"), ("added", "green", "+"), ("changed", "yellow", "~"), ("values", "yellow", "~")):
            for name, what in found[kind].items():
                console.print(text(f"{mark} {name}  {what}", style))
        counts = ", ".join(f"{len(found[kind])} {kind}" for kind in ("removed", "added", "changed"))
        if values:
            counts += f", {len(found['values'])} with other values"
        console.print(text(f"{len(before.tensors)} tensors before, {len(after.tensors)} after: {counts}", style="bold"))
    raise SystemExit(1 if any(found.values()) else 0)


def _check(checkpoint: Checkpoint, target: str, arguments: str, torch: bool, prefix: str, as_json: bool) -> None:
    from metatensor.checkpoint.planning import plan_for
    from metatensor.cli.request import built

    plan = plan_for(built(target, arguments, torch), checkpoint, prefix)
    fits = not (plan.errors or plan.missing or plan.unexpected)
    if as_json:
        click.echo(json.dumps({"ok": fits, "missing": plan.missing, "unexpected": plan.unexpected, "errors": plan.errors,
                               "prefix": plan.hint()}, indent=2))
        raise SystemExit(0 if fits else 1)
    console = Terminal()
    if fits:
        console.print(text(f"ok: {checkpoint.file} fits {target}: {len(plan.known)} names", style="green"))
        raise SystemExit(0)
    console.print(text(f"{checkpoint.file} does not fit {target}", style="bold red"))
    for label, names in (("missing in the checkpoint", plan.missing), ("unexpected in the checkpoint", plan.unexpected)):
        for name in names[:50]:
            console.print(text(f"  {label}: {name}"))
        if len(names) > 50:
            console.print(text(f"  {label}: and {len(names) - 50} more"))
    for error in plan.errors:
        console.print(text(f"  {error}"))
    if hint := plan.hint():
        console.print(text(f"The names in the checkpoint begin with {prefix + hint!r}: try --prefix {prefix + hint}"))
    elif hint := plan.hint(of_model=True):
        console.print(text(f"The model's names begin with {hint!r}, the checkpoint's do not: check the part that is {hint.rstrip('.')}"))
    raise SystemExit(1)
