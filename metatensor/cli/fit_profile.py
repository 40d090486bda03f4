"""``metatensor fit-profile``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from metatensor.analysis.functions import as_module
from metatensor.checkpoint.errors import printable
from metatensor.cli.configs import without_cache
from metatensor.cli.contents import printable_lines
from metatensor.cli.plan_inputs import arguments_of, made_model
from metatensor.cli.request import Request
from metatensor.cli.terminal import output_on_stderr
from metatensor.cli.training_options import loss_of

__all__ = ["command"]


@click.command("fit-profile")
@click.argument("file", metavar="MEASUREMENTS.json", type=click.Path(dir_okay=False))
@click.option("--output", "-o", type=click.Path(dir_okay=False), metavar="FILE.toml", help="The profile to write.")
@click.option("--context", type=click.IntRange(min=1), default=2048, show_default=True, help="The value of the size named sequence.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(file: str, output: str | None, context: int, as_json: bool) -> None:
    """Fit the efficiencies of a device's profile to your own training steps.

    MEASUREMENTS.json lists steps with their layouts and times; the page on plans says how. The errors of predicted times are printed
    before and after, on steps that the fit did not use. `plan` takes the written profile as a device: --devices 64xFILE.toml.

    \b
    metatensor fit-profile steps.json --output my-h100.toml
    """
    from metatensor.plan.fitting import fit_profile
    from metatensor.plan.measurements import read_measurements

    models: dict[Any, Any] = {}

    def made(entry: dict[str, Any]) -> tuple[Any, tuple, Any]:
        texts = tuple(map(str, entry["inputs"]))
        if entry["model"] not in models:
            models[entry["model"]] = without_cache(as_module(made_model(Request(entry["model"], [], {}, [], {}, None, texts=texts))))
        arguments = arguments_of(texts, (), needed=("batch",))
        loss = loss_of(entry["loss"], False) if "loss" in entry else None
        return models[entry["model"]], (lambda batch: arguments(batch, context),), loss

    try:
        with output_on_stderr():
            found = fit_profile(read_measurements(file, made))
        text = found.toml() if output else ""
    except ValueError as error:
        raise click.UsageError(printable(str(error).removeprefix("fit_profile: ").removeprefix("search: "))) from None
    except OSError as error:
        raise click.ClickException(f"{printable(file)}: {error.strerror}") from None
    if output:
        try:
            Path(output).write_text(text, encoding="utf-8")
        except OSError as error:
            raise click.ClickException(f"{printable(output)}: {error.strerror}") from error
    click.echo(json.dumps(found.to_dict(), indent=2) if as_json else printable_lines(str(found)))
