"""``metatensor devices``."""

from __future__ import annotations

import json

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["command"]

STYLES = {"available": "green", "loaded": "green", "no device": "yellow", "broken": "bold red", "blocked": "yellow"}


@click.command("devices")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> None:
    """List every plugin: its package and version, its state, its devices, and why a broken one is broken."""
    from metatensor import plugins

    rows = plugins.report()
    if as_json:
        click.echo(json.dumps([{**row._asdict(), "devices": list(row.devices)} for row in rows], indent=2))
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("kind", "name", "state", "devices", "package", "version", "reason"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(
            row.group, row.name, Text(row.state, style=STYLES.get(row.state, "")), Text(", ".join(row.devices)),
            row.distribution, row.version, Text(row.reason),
        )  # fmt: skip
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, 160)
    console.print(table)
