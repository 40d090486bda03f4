"""``metatensor estimate``."""

from __future__ import annotations

import sys
import time
from typing import Any

import click
from rich.progress import BarColumn, Progress, TextColumn

from metatensor.analysis.table import as_rich
from metatensor.cli.contents import printable_lines
from metatensor.cli.request import Request, model_options
from metatensor.cli.terminal import Terminal

__all__ = ["command"]

PATIENCE = 0.3
"""Seconds before progress is shown."""


@click.command("estimate")
@model_options
@click.option("--depth", type=click.IntRange(min=0), help="Depth of the modules in the table [default: as deep as fits].")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with every module.")
def command(request: Request, depth: int | None, as_json: bool) -> None:
    """Build FILE.py:NAME on meta, run its forward there, and report its cost.

    NAME is a model, or a class or function that returns one when called with --args. Nothing is allocated or computed.
    Matrix products, convolutions and attention count as FLOPs, with a multiply-add as 2.

    \b
    metatensor estimate examples/gpt2.py:gpt2_xl --input "int64[1,1024]"
    metatensor estimate model.py:Encoder --args "12, width=768" -i "float32[1,128,768]" -i "mask=bool[1,128]"
    """
    with _Bar() as bar:
        result = request.run(progress=bar)
    report = result.report
    if report is None:
        click.echo(printable_lines(str(result)), err=True)
        raise SystemExit(1)
    if as_json:
        click.echo(report.to_json())
        return
    Terminal().print(as_rich(report, depth))


class _Bar:
    """A progress bar on stderr. It is shown only on a terminal, and only if the run takes longer than `PATIENCE`."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.bar: Progress | None = None
        self.task: Any = None
        self.wanted = sys.stderr.isatty()

    def __call__(self, done: int, modules: int, path: str) -> None:
        if self.bar is None:
            if not self.wanted or time.monotonic() - self.start < PATIENCE:
                return
            self.bar = Progress(
                TextColumn("{task.completed} of about {task.total} modules"), BarColumn(), TextColumn("{task.fields[path]}"),
                console=Terminal(stderr=True), transient=True,
            )  # fmt: skip
            self.bar.start()
            self.task = self.bar.add_task("", total=modules, path="")
        self.bar.update(self.task, completed=done, total=max(done, modules), path=path)

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.stop()
