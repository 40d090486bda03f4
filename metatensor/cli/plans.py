"""``metatensor plans``."""

from __future__ import annotations

import json
from typing import Any

import click

from metatensor._core.units import bytes_text, seconds_text
from metatensor.checkpoint.errors import printable
from metatensor.cli.contents import printable_lines

__all__ = ["command", "plans_text", "write_page"]


@click.command("plans")
@click.argument("file", metavar="FILE")
@click.option("--html", metavar="FILE", type=click.Path(dir_okay=False, writable=True), help="Write a page: memory against time, parallel "
              "coordinates of all degrees, a table.")
@click.option("--open", "show", is_flag=True, help="With --html: open the page in a browser.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: the plans, each with its layouts.")
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="With --json: layouts of each plan to print [default: all].")
def command(file: str, html: str | None, show: bool, as_json: bool, top: int | None) -> None:
    """List the plans in FILE, which `plan --train --sweep FILE` wrote, or make a page of them.

    \b
    metatensor plan model.py:GPT -i "int64[batch,1024]" --train --devices 64xH100 --global-batch 512 --sweep plans.sqlite
    metatensor plans plans.sqlite --html plans.html --open
    """
    if show and html is None:
        raise click.UsageError("--open needs --html FILE")
    if top is not None and not as_json:
        raise click.UsageError("--top needs --json")
    from metatensor.plan.sweep_file import SweepError
    from metatensor.plan.sweeping import saved_plans

    try:
        found = [(about["labels"], plan) for about, plan in saved_plans(file)]
    except SweepError as error:
        raise click.ClickException(printable(str(error))) from None
    if html is not None:
        write_page(html, found, show)
    if as_json:
        click.echo(json.dumps({"plans": [{"labels": labels, **plan.to_dict(top)} for labels, plan in found]}, indent=2))
    else:
        click.echo(printable_lines(plans_text(found)))


def write_page(path: str, plans: list[tuple[dict[str, Any], Any]], show: bool = False) -> None:
    """Write the page of plans, and open it in a browser if ``show`` is true."""
    from metatensor.analysis.page import MissingPlotly
    from metatensor.plan.page import write

    try:
        write(path, plans)
    except (MissingPlotly, OSError) as error:
        raise click.ClickException(printable(str(error))) from None
    if show:
        import webbrowser
        from pathlib import Path

        webbrowser.open(Path(path).resolve().as_uri())


def plans_text(plans: list[tuple[dict[str, Any], Any]]) -> str:
    """Return a table of plans with the best layout of each."""
    if not plans:
        return "there are no plans"
    lines = [f"{'model':<24}{'devices':<18}{'batch':>7}  {'of it':<20}{'layouts':>8}{'step':>11}{'memory':>10}  best layout"]
    for labels, plan in plans:
        others = ", ".join(f"{name} {value}" for name, value in labels.items() if name != "devices")
        row = f"{plan.model[:23]:<24}{plan.devices[:17]:<18}{plan.batch:>7,}  {others[:19]:<20}{len(plan.layouts):>8,}"
        if plan.layouts:
            row += f"{seconds_text(plan.best.seconds):>11}{bytes_text(plan.best.peak):>10}  {plan.best.degrees}"
        else:
            row += f"  nothing fits: {plan.advice()}"
        if plan.unfinished:
            row += f" ({plan.unfinished})"
        lines.append(row)
    return "\n".join(lines).replace("of it  ", "further", 1)
