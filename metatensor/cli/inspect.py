"""``metatensor inspect``."""

from __future__ import annotations

import json

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["command"]


@click.command("inspect")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(file: str, as_json: bool) -> None:
    """List the tensors of a checkpoint with their dtypes, shapes and bytes. Reads its header alone."""
    from metatensor.analysis.describe import bytes_text, count_text
    from metatensor.checkpoint import CheckpointError, inspect

    try:
        checkpoint = inspect(file)
    except CheckpointError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror or error}") from None
    if as_json:
        click.echo(json.dumps(checkpoint.to_dict(), indent=2))
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("tensor", "dtype", "shape"):
        table.add_column(heading, overflow="fold")
    table.add_column("bytes", justify="right", no_wrap=True)
    for name, info in checkpoint.tensors.items():
        table.add_row(Text(name), info.dtype, Text(str(list(info.shape))), f"{info.nbytes:,}")
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, 140)
    console.print(table)
    dtypes = ", ".join(f"{count_text(count)} {dtype}" for dtype, count in checkpoint.dtypes.items())
    summary = f"{len(checkpoint.tensors)} tensors, {checkpoint.parameters:,} elements ({dtypes}), {bytes_text(checkpoint.nbytes)}"
    console.print(Text(f"{summary}; {checkpoint.format}", style="bold"))
    for key, value in checkpoint.metadata.items():
        console.print(Text(f"{key}: {value}"))
