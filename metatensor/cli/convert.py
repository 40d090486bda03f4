"""``metatensor convert``."""

from __future__ import annotations

import os

import click

from metatensor.checkpoint.errors import printable
from metatensor.cli.contents import text
from metatensor.cli.terminal import Terminal

__all__ = ["command"]


@click.command("convert")
@click.argument("source", metavar="A", type=click.Path(exists=True))
@click.argument("target", metavar="B", type=click.Path())
@click.option(
    "--format", "form", type=click.Choice(["torch", "torch-legacy", "safetensors", "npz", "npy"]),
    help="The format of B [default: by the file name's extension; PyTorch's if that names no format].",
)  # fmt: skip
@click.option("--max-shard-size", metavar="SIZE", help="Write shards of at most SIZE (5GB, 500MiB) and their index.")
@click.option("--drop", is_flag=True, help="Omit objects that B cannot hold: those that are not tensors or cannot be loaded.")
@click.option("--force", is_flag=True, help="Replace B if it exists.")
def command(source: str, target: str, form: str | None, max_shard_size: str | None, drop: bool, force: bool) -> None:
    """Write the checkpoint A as B, in another format. Any known format can be read. Values are preserved bit for bit.

    Only one tensor is in memory at a time. The file B is put in place only when it is complete.

    \b
    metatensor convert pytorch_model.bin model.safetensors
    metatensor convert model.safetensors model.pt
    metatensor convert shards/ model.safetensors
    """
    from metatensor._core.units import bytes_text
    from metatensor.checkpoint import CheckpointError, convert

    if os.path.exists(target) and not force:
        raise click.UsageError(f"{target} already exists; --force replaces it")
    try:
        left_out = convert(source, target, format=form, max_shard_size=max_shard_size, drop=drop)
    except (CheckpointError, RuntimeError, TypeError, ValueError) as error:
        raise click.ClickException(printable(str(error))) from None
    except OSError as error:
        raise click.ClickException(printable(f"{error.filename or source}: {error.strerror or error}")) from None
    console = Terminal(soft_wrap=True)
    for name, kept in left_out.items():
        console.print(text(f"{name} is the same tensor as {kept} and is left out", style="yellow"))
    if os.path.exists(target):
        console.print(text(f"{target}: {bytes_text(os.path.getsize(target))}", style="bold"))
    else:
        console.print(text(f"{target}.index.json and its shards", style="bold"))
