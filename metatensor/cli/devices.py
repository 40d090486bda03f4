"""``metatensor devices``."""

from __future__ import annotations

import json

import click
from rich import box
from rich.table import Table

from metatensor.checkpoint.errors import printable
from metatensor.cli.contents import text
from metatensor.cli.terminal import Terminal

__all__ = ["command"]

STYLES = {"available": "green", "loaded": "green", "no device": "yellow", "broken": "bold red", "blocked": "yellow"}


@click.command("devices")
@click.option("--ops", "device", metavar="DEVICE", help="List how DEVICE computes each operator instead.")
@click.option("--sharding", is_flag=True, help="List the sharding rules of operators instead.")
@click.option("--make", is_flag=True, help="With --sharding: find the rules by trying, on the cpu, and print them. About a minute.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(device: str | None, sharding: bool, make: bool, as_json: bool) -> None:
    """List all plugins: package, version, state, devices, and why a plugin cannot be used.

    With --ops DEVICE, list how the device computes each operator: by its own kernel, by decomposition into other
    operators, on the cpu, or not at all. Core operators, into which the others decompose, are marked. Operators without a
    gradient, although PyTorch has one, are listed as well.

    With --sharding, list along which dimensions each operator can be cut when its arguments are distributed over several
    devices, and how the results of the parts are joined.
    """
    if make and not sharding:
        raise click.UsageError("--make needs --sharding")
    if sharding:
        _sharding(make, as_json)
        return
    if device is not None:
        _operators(device, as_json)
    else:
        _plugins(as_json)


def _operators(device: str, as_json: bool) -> None:
    from metatensor import plugins
    from metatensor.devices.coverage import coverage, without_gradient

    if device == "meta":
        raise click.UsageError("the meta device computes no values")
    try:
        backend = plugins.backend(device)
    except RuntimeError as error:
        raise click.ClickException(printable(str(error))) from error
    rows = coverage(backend)
    by_kind = {kind: [row.name for row in rows if row.how == kind] for kind in ("missing", "fallback", "decomposition", "kernel")}
    by_kind["no gradient"] = without_gradient()
    if as_json:
        click.echo(json.dumps(by_kind, indent=2))
        return
    core = {row.name for row in rows if row.core}
    for kind in ("no gradient", "missing", "fallback", "decomposition", "kernel"):
        for name in by_kind[kind]:
            click.echo(f"{kind:15}{name}{' (core)' if name in core else ''}")
    counts = ", ".join(f"{len(by_kind[kind])} {what}" for kind, what in (
        ("kernel", "with a kernel"), ("decomposition", "by decomposition"), ("fallback", "by the cpu"), ("missing",
        "missing"), ("no gradient", "without a gradient, which PyTorch has")
    ))  # fmt: skip
    click.echo(f"{device}: {len(rows)} operators (each overload by itself): {counts}")


def _sharding(make: bool, as_json: bool) -> None:
    from metatensor.distributed.tensor.sharding import all_rules
    from metatensor.distributed.tensor.sharding.table import format_rules, rule_lines

    if make:
        from metatensor.distributed.tensor.sharding.making import make_table

        table = make_table()
    else:
        table = dict(all_rules())
    if as_json:
        click.echo(json.dumps({name: list(rule_lines(found)) for name, found in table.items()}, indent=2))
    else:
        click.echo(format_rules(table), nl=False)


def _plugins(as_json: bool) -> None:
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
            row.group, text(row.name), text(row.state, STYLES.get(row.state, "")), text(", ".join(row.devices)),
            text(row.distribution), text(row.version), text(row.reason),
        )  # fmt: skip
    Terminal(wide=160).print(table)
