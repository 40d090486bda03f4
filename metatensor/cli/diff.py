"""``metatensor diff``."""

from __future__ import annotations

import json
from typing import Any

import click

from metatensor.analysis.comparison import FIGURES, Limit, ReportError, compare, parse_limit
from metatensor.analysis.sizes import SizeError
from metatensor.checkpoint.errors import printable
from metatensor.cli.contents import printable_lines
from metatensor.cli.files import is_source, kind_of
from metatensor.cli.programs import is_program, print_diff

__all__ = ["command"]


class _Limit(click.ParamType):
    """A limit on the growth of a figure."""

    name = "limit"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Limit:
        if isinstance(value, Limit):
            return value
        try:
            return parse_limit(value)
        except SizeError as error:
            raise click.BadParameter(printable(str(error)), ctx, param) from None


@click.command("diff", epilog=f"Figures: {', '.join(FIGURES)}.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown, for a comment on a pull request.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--fail-on", "limits", multiple=True, type=_Limit(), metavar="LIMIT",
    help='Exit with status 1 if a figure grows by more than an amount or a percentage: "peak>5%", "memory.saved>100MB", '
         '"parameters>0". Can be repeated.',
)  # fmt: skip
@click.argument("before", metavar="A", type=click.Path(exists=True, dir_okay=False))
@click.argument("after", metavar="B", type=click.Path(exists=True, dir_okay=False))
def command(as_markdown: bool, as_json: bool, limits: tuple[Limit, ...], before: str, after: str) -> None:
    """Compare two reports, A.json before a change and B.json after it, and list what grew; or two programs, A.mtp and B.mtp.

    The reports are what `metatensor estimate --json`, `metatensor check --json` and `metatensor run --profile --json FILE`
    write. Figures that a report does not contain are unknown, and a limit on an unknown figure fails.
    For two programs, written by `metatensor trace`, list the calls that were added and removed, by operator and shapes, and
    the parameters that differ.

    \b
    metatensor diff main.json branch.json --markdown --fail-on "peak>5%" --fail-on "parameters>0"
    metatensor diff before.mtp after.mtp
    """
    if as_markdown and as_json:
        raise click.UsageError("--markdown and --json exclude each other")
    programs = [is_program(path) for path in (before, after)]
    if any(programs):
        if not all(programs):
            neither, one = (after, before) if programs[0] else (before, after)
            raise click.UsageError(printable(f"{one} is a program, but {neither} is {kind_of(neither)}{_advice(neither)}"))
        if limits:
            raise click.UsageError("--fail-on is for reports, not for programs")
        print_diff((before, after), as_json, as_markdown)
        return
    reports = [_read(path) for path in (before, after)]
    try:
        found = compare(*reports)
    except ReportError as error:
        text = str(error).replace("the report before", before).replace("the report after", after)
        raise click.UsageError(printable(text)) from None
    found.apply(limits)
    if as_json:
        click.echo(json.dumps({"before": before, "after": after, **found.to_dict()}, indent=2))
    else:
        click.echo(printable_lines(found.markdown() if as_markdown else str(found)))
    raise SystemExit(1 if found.exceeded else 0)


def _advice(path: str) -> str:
    """Return how to compare a file that is neither a report nor a program."""
    kind = kind_of(path)
    if kind == "an ONNX model":
        return f"; to compare it, make a program: metatensor trace {path} -i INPUT -o FILE.mtp"
    return "; metatensor inspect A --diff B compares two checkpoints" if kind.startswith("a checkpoint") else ""


def _read(path: str) -> Any:
    """Return the content of a JSON file. Raise a usage error if it cannot be read as JSON."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (ValueError, RecursionError) as error:  # JSONDecodeError and UnicodeDecodeError are ValueErrors
        if not is_source(path):
            raise click.UsageError(printable(
                f"{path} is {kind_of(path)}; expected two reports (.json) or two programs (.mtp){_advice(path)}")) from None  # fmt: skip
        raise click.UsageError(printable(f"{path} is not a JSON file: {error}")) from None
    except OSError as error:
        raise click.UsageError(printable(f"{path} cannot be read: {error.strerror}")) from None
