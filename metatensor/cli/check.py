"""``metatensor check``."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click
from rich.text import Text

from metatensor.cli.contents import printable_lines
from metatensor.cli.request import Request, model_options
from metatensor.cli.sizes import SizeError, parse_bytes, parse_count
from metatensor.cli.terminal import Terminal

__all__ = ["command"]


class Size(click.ParamType):
    """A number with an optional suffix."""

    name = "size"

    def __init__(self, parse: Callable[[str], int]) -> None:
        self.parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, int):
            return value
        try:
            return self.parse(value)
        except SizeError as error:
            self.fail(str(error), param, ctx)


@click.command("check")
@model_options
@click.option("--max-params", type=Size(parse_count), metavar="N", help="Maximum number of parameters (125M, 8B).")
@click.option(
    "--max-bytes", type=Size(parse_bytes), metavar="SIZE",
    help="Maximum memory of a forward: parameters, buffers, inputs, and activations at their peak (10GB, 512MiB).",
)  # fmt: skip
@click.option(
    "--max-flops", type=Size(lambda text: parse_count(text, "flops")), metavar="N", help="Maximum FLOPs of a forward (4.1G, 1e12)."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    request: Request, max_params: int | None, max_bytes: int | None, max_flops: int | None, as_json: bool
) -> None:
    """Check that FILE.py:NAME can be built and run on meta, and that it is within all budgets.

    The exit status is 0 on success and 1 on failure. A failure is reported with the error, the path of the module that
    failed, its inputs, and the line of code. No accelerator and no weights are needed, and most models take
    milliseconds.

    \b
    metatensor check model.py:Net --input "float32[1,3,224,224]" --max-params 30M --max-flops 10G
    """
    result = request.run((max_params, max_bytes, max_flops))
    if as_json:
        click.echo(json.dumps(result.to_dict(), indent=2))
    else:
        _print(result)
    raise SystemExit(0 if result.ok else 1)


def _print(result: Any) -> None:
    head, newline, rest = printable_lines(str(result)).partition("\n")
    Terminal(soft_wrap=True).print(Text(head, style="green" if result.ok else "bold red") + newline + rest)
