"""``metatensor topologies``."""

from __future__ import annotations

import json
from typing import Any

import click
from rich import box
from rich.table import Table

from metatensor._core.units import bytes_text, seconds_text
from metatensor.checkpoint.errors import printable
from metatensor.cli.contents import text
from metatensor.cli.profiles import print_figures
from metatensor.cli.terminal import Terminal

__all__ = ["command"]

SIZES = (1 << 10, 1 << 20, 1 << 26, 1 << 30)
"""Bytes for which times are shown."""
KINDS = ("all_reduce", "all_gather", "all_to_all", "send")


@click.command("topologies")
@click.argument("devices", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: bytes per second, seconds.")
def command(devices: str | None, as_json: bool) -> None:
    """List systems whose links are known, or show the topology DEVICES and predicted times of collectives there.

    DEVICES is a text such as 64xH100, 4xdgx-a100, or "8xH100 per node, 8 nodes, 400Gb/s IB", or the path of a TOML file.
    """
    from metatensor.devices.profiles import ProfileError
    from metatensor.devices.topologies import topologies, topology

    try:
        if devices is not None:
            _show(topology(devices), as_json)
        else:
            _list([topology(name) for name in topologies()], as_json)
    except ProfileError as error:
        raise click.ClickException(printable(str(error))) from error


def _list(found: list[Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps([one.to_dict() for one in found], indent=2))
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("system", "devices of a node", "links in a node", "network of a node"):
        table.add_column(heading, overflow="fold")
    for one in found:
        table.add_row(text(one.name), text(str(one)), text(_inside(one)), text(_network(one)))
    Terminal(wide=120).print(table)


def _inside(one: Any) -> str:
    link = one.interconnect
    return "unknown" if link is None else f"{link.name}, {link.arrangement}, {link.bandwidth / 1e9:g} GB/s for each device"


def _network(one: Any) -> str:
    found = one.network
    if found is None:
        return "unknown"
    over = f", {found.oversubscription:g}:1 oversubscribed" if found.oversubscription > 1 else ""
    return f"{found.rails} x {found.bandwidth * 8 / 1e9:g} Gb/s {found.name}{over}"


def _groups(one: Any) -> list[tuple[str, tuple[int, ...]]]:
    """Return groups whose times are shown: a node, one device of each node, and all devices."""
    found = [("the devices of a node", tuple(range(one.devices_per_node)))] if one.devices_per_node > 1 else []
    if one.nodes > 1 and one.network is not None:
        if one.devices_per_node > 1:
            found.append(("one device of each node", tuple(range(0, one.size, one.devices_per_node))))
        found.append(("all devices", tuple(range(one.size))))
    return found


def _show(one: Any, as_json: bool) -> None:
    from metatensor.analysis import collective_time

    times = [{"group": name, "ranks": len(ranks), "kind": kind, "bytes": size, **_time(collective_time, kind, size, ranks, one)}
             for name, ranks in _groups(one) for kind in KINDS for size in SIZES]  # fmt: skip
    if as_json:
        click.echo(json.dumps(one.to_dict() | {"times": times}, indent=2))
        return
    for line in filter(None, (f"{one.name}: {one}", f"links in a node: {_inside(one)}", f"network: {_network(one)}", one.note)):
        click.echo(printable(line))
    print_figures(one.figures)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="predicted times", title_justify="left")
    for heading in ("group", "operation", *map(bytes_text, SIZES)):
        table.add_column(heading, justify="left" if heading in ("group", "operation") else "right")
    for name, ranks in _groups(one):
        for kind in KINDS:
            row = [found for found in times if (found["group"], found["kind"]) == (name, kind)]
            table.add_row(text(f"{name} ({len(ranks)})"), kind, *(seconds_text(found["seconds"]) for found in row))
    Terminal(wide=120).print(table)


def _time(predict: Any, kind: str, size: int, ranks: tuple[int, ...], one: Any) -> dict[str, Any]:
    found = predict(kind, size, ranks[:2] if kind == "send" else ranks, one)
    return {"seconds": found.seconds, "algorithm": found.algorithm, "protocol": found.protocol}
