"""``metatensor reshard``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click
from rich import box
from rich.table import Table

from metatensor.checkpoint.errors import printable
from metatensor.cli.contents import text
from metatensor.cli.terminal import Terminal

if TYPE_CHECKING:
    from metatensor.distributed.checkpoint.resharding import RankPlan, ReshardPlan

__all__ = ["command"]

MOST_COLUMNS = 8
"""Largest number of files for which the bytes from each are shown."""


@click.command("reshard")
@click.argument("source", metavar="CHECKPOINT", type=click.Path(exists=True))
@click.argument("target", metavar="[FOLDER]", required=False, type=click.Path())
@click.option("--mesh", required=True, metavar="SIZES", help="The mesh: 8, or 4,2 for two dimensions.")
@click.option(
    "--placements", "specs", multiple=True, metavar="[PATTERN=]PLACEMENTS",
    help="One placement per mesh dimension: R, S(dim), _S(dim, factor). With PATTERN=, only for tensors whose names fit; the last that "
         "fits counts [default: S(0) on all mesh dimensions].",
)  # fmt: skip
@click.option("--plan", "plan_only", is_flag=True, help="Print what each rank would read, hold and write. No data is read or written.")
@click.option("--ranges", is_flag=True, help="With --plan: print each byte range that a rank reads, as a line of JSON.")
@click.option("--drop", is_flag=True, help="Omit objects and tensors that cannot be loaded.")
@click.option("--force", is_flag=True, help="Replace a checkpoint in FOLDER.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
def command(
    source: str, target: str | None, mesh: str, specs: tuple[str, ...], plan_only: bool, ranges: bool, drop: bool, force: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Divide a checkpoint among the ranks of a mesh: write it to FOLDER in PyTorch's distributed format.

    CHECKPOINT may have any known format. A distributed checkpoint can be loaded with any mesh and placements; resharding makes
    each rank read from its own file only. With --plan, print for each rank the bytes that it reads from each file in order to
    load its part, its memory, and what it would write.

    \b
    metatensor reshard model.safetensors --mesh 8 --plan
    metatensor reshard old/ new/ --mesh 4,2 --placements "S(0),R" --placements "*.mlp.*.weight=S(0),S(1)"
    """
    from metatensor.checkpoint import CheckpointError
    from metatensor.distributed.checkpoint.layouts import Layout, parse_mesh, parse_placements
    from metatensor.distributed.checkpoint.resharding import plan_reshard, ranges_of, reshard

    if plan_only == (target is not None):
        raise click.UsageError("name the FOLDER to write" if not plan_only else "--plan writes nothing; leave out the FOLDER")
    if (ranges or as_json) and not plan_only:
        raise click.UsageError(f"--{'ranges' if ranges else 'json'} needs --plan")
    try:
        layout = Layout(parse_mesh(mesh), map(parse_placements, specs))
    except ValueError as error:
        raise click.UsageError(printable(str(error))) from None
    if target is not None and os.path.exists(os.path.join(target, ".metadata")) and not force:
        raise click.UsageError(f"{printable(target)} has a checkpoint; --force replaces it")
    try:
        if plan_only and ranges:
            for found in ranges_of(source, layout):
                click.echo(json.dumps(found))
        elif plan_only:
            plan = plan_reshard(source, layout)
            click.echo(json.dumps(plan.to_dict(), indent=2)) if as_json else _print(plan)
        else:
            assert target is not None
            reshard(source, target, layout, drop=drop)
            Terminal(soft_wrap=True).print(text(f"{target}: {_size(_bytes_in(target))} for {layout.size} ranks", style="bold"))
    except (CheckpointError, RuntimeError, TypeError, ValueError) as error:
        raise click.ClickException(printable(str(error))) from None
    except BrokenPipeError:
        raise
    except OSError as error:
        raise click.ClickException(printable(f"{error.filename or source}: {error.strerror or error}")) from None
    unused = [pattern for pattern, _ in layout.rules if pattern is not None and pattern not in layout.used]
    if unused:
        click.echo(f"no tensor was placed by {', '.join(map(repr, map(printable, unused)))}", err=True)


def _bytes_in(folder: str) -> int:
    return sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder) if name.endswith(".distcp"))


def _size(nbytes: int) -> str:
    from metatensor._core.units import bytes_text

    return bytes_text(nbytes)


def _print(plan: ReshardPlan) -> None:
    console = Terminal(wide=160)
    read = sum(sum(one.reads.values()) for one in plan.ranks)
    mesh = " x ".join(map(str, plan.layout.mesh))
    console.print(text(f"{plan.source} ({plan.format}): {len(plan.placements)} tensors, {_size(plan.nbytes)}", style="bold"))
    console.print(text(f"mesh {mesh}: {plan.layout.size} ranks read {_size(read)} from {len(plan.files)} "
                       f"{'file' if len(plan.files) == 1 else 'files'}"))  # fmt: skip
    if plan.staying:
        console.print(text(f"{_size(plan.staying)} of that from files that the same rank wrote"))
    columns = plan.files if len(plan.files) <= MOST_COLUMNS else []
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("rank")
    for heading in ("holds", "peak", "reads", "writes", *map(printable, columns)):
        table.add_column(heading, justify="right")
    for name, one in _classes(plan.ranks):
        cells = [one.held, one.peak, sum(one.reads.values()), one.writes, *(one.reads.get(file, 0) for file in columns)]
        table.add_row(name, *(text(_size(cell) if cell else "-") for cell in cells))
    console.print(table)


def _classes(ranks: list[RankPlan]) -> Iterator[tuple[str, RankPlan]]:
    """Yield consecutive ranks with the same figures once, under a name such as "2-5"."""

    def key(one: RankPlan) -> Any:
        return one.held, one.buffer, one.writes, one.reads

    start = 0
    for end in range(1, len(ranks) + 1):
        if end == len(ranks) or key(ranks[end]) != key(ranks[start]):
            yield (str(start) if end - start == 1 else f"{start}-{end - 1}"), ranks[start]
            start = end
