"""``metatensor profiles``."""

from __future__ import annotations

import json
from typing import Any

import click
from rich import box
from rich.table import Table

from metatensor.checkpoint.errors import printable
from metatensor.cli.contents import text
from metatensor.cli.terminal import Terminal

__all__ = ["command", "print_figures"]

UNKNOWN = "unknown"


@click.command("profiles")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: bytes, bytes per second, operations per second, seconds.")
def command(name: str | None, as_json: bool) -> None:
    """List the device profiles, or show the profile NAME, each figure with its source.

    NAME is a name or an alias, such as h100-80gb, or the path of a TOML file. Directories in the environment variable
    METATENSOR_PROFILES are searched for further profiles.
    """
    from metatensor.devices.profiles import ProfileError, device_profile, device_profiles

    try:
        if name is not None:
            _show(device_profile(name), as_json)
        else:
            _list([device_profile(each) for each in device_profiles()], as_json)
    except ProfileError as error:
        raise click.ClickException(printable(str(error))) from error


def _list(profiles: list[Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps([profile.to_dict() for profile in profiles], indent=2))
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("name", overflow="fold")
    for heading in ("memory", "bandwidth", "bfloat16", "float32"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("title", overflow="fold")
    for profile in profiles:
        table.add_row(
            text(profile.name), _bytes(profile.memory), _scaled(profile.memory_bandwidth, "B/s"),
            _scaled(profile.rate("bfloat16"), "FLOP/s"), _scaled(profile.rate("float32"), "FLOP/s"), text(profile.title),
        )  # fmt: skip
    Terminal(wide=120).print(table)


def _show(profile: Any, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(profile.to_dict(), indent=2))
        return
    lines = [f"{profile.name}: {profile.title}", f"{profile.architecture}, {profile.kind} of {profile.vendor}"]
    if profile.aliases:
        lines.append("also named " + ", ".join(profile.aliases))
    if profile.note:
        lines.append(profile.note)
    for line in lines:
        click.echo(printable(line))
    missing = [key for key, value in (("memory.capacity", profile.memory), ("memory.bandwidth", profile.memory_bandwidth)) if value is None]
    print_figures(profile.figures, missing)


def print_figures(figures: Any, missing: Any = ()) -> None:
    """Print a table of figures by name, and their sources."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("figure", "value", "source"):
        table.add_column(heading, overflow="fold", justify="right" if heading == "value" else "left")
    urls: dict[str, int] = {}
    sources: dict[int, Any] = {}
    for key, figure in figures.items():
        number = urls.setdefault(figure.source.url or figure.source.title, len(urls) + 1)
        sources[number] = figure.source
        remark = "; ".join(filter(None, ("estimate" if figure.estimate else "", figure.note or "")))
        table.add_row(text(key), text(figure.text), text(f"[{number}]" + (f" ({remark})" if remark else "")))
    for key in missing:
        table.add_row(key, UNKNOWN, "")
    terminal = Terminal(wide=120)
    terminal.print(table)
    for number, source in sources.items():
        terminal.print(text(f"[{number}] {source.title}"), soft_wrap=True)
        if source.url:
            terminal.print(text(f"    {source.url}"), soft_wrap=True)


def _bytes(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value / 2**30:.4g} GiB"


def _scaled(value: float | None, unit: str) -> str:
    if value is None:
        return UNKNOWN
    for prefix, factor in (("P", 1e15), ("T", 1e12), ("G", 1e9)):
        if value >= factor:
            return f"{value / factor:.4g} {prefix}{unit}"
    return f"{value:.4g} {unit}"
