"""``metatensor estimate``."""

from __future__ import annotations

import json
import sys
import time as clock
from typing import Any

import click
from rich.progress import BarColumn, Progress, TextColumn

from metatensor._core.units import bytes_text
from metatensor.analysis.precision import PRECISIONS
from metatensor.analysis.table import as_rich
from metatensor.checkpoint.errors import printable
from metatensor.cli.contents import printable_lines
from metatensor.cli.request import Request, model_options
from metatensor.cli.sweep import sweep_inference, sweep_training
from metatensor.cli.target import TargetError, load_target
from metatensor.cli.terminal import Terminal

__all__ = ["command"]

PATIENCE = 0.3
"""Seconds before progress is shown."""


@click.command("estimate")
@model_options
@click.option("--depth", type=click.IntRange(min=0), help="Depth of the modules in the table [default: as deep as fits].")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with every module.")
@click.option("--train", is_flag=True, help="Report a training step: forward, backward and optimizer.")
@click.option("--loss", metavar="FILE.py:NAME", help="With --train: function of the output that returns the loss [default: the mean].")
@click.option("--optimizer", metavar="NAME", help="With --train: an optimizer of metatensor.optim, or one with "
              "8-bit states: adamw8bit, adam8bit, lion8bit, sgd8bit, rmsprop8bit [default: adamw].")
@click.option("--precision", type=click.Choice(list(PRECISIONS)), help="With --train [default: as the model is].")
@click.option("--recompute", metavar="WHAT", help='With --train: none, full, selective, or a pattern of module paths ("layers.*") '
              "[default: none].")
@click.option("--lora", metavar="RANK[:PATTERN]", help='With --train: train adapters of linear layers ("16:*.q_proj") and freeze the '
              "rest [default pattern: all linear layers of the repeated layers].")
@click.option("--foreach", is_flag=True, help="With --train: the optimizer updates all parameters together.")
@click.option("--grad-accumulation", type=click.IntRange(min=1), metavar="N", help="With --train: micro-batches before the update.")
@click.option("--sweep", type=click.Choice(["dtype"]), help="A table over precisions: of a forward pass, or with --train of a step.")
@click.option("--by", type=click.Choice(["op"]), help="With --train: also list the FLOPs of each operator.")
@click.option("--device", metavar="PROFILE", help="A device profile, such as h100-80gb, or a file of one: predict the time there; with "
              "--train also compare its memory.")
@click.option("--convention", type=click.Choice(["torch", "macs", "6nd", "megatron"]),
    help="With --device: how MFU counts [default: torch].")
def command(request: Request, depth: int | None, as_json: bool, train: bool, **options: Any) -> None:
    """Build MODEL on meta, run its forward there, and report its cost.

    MODEL is FILE.py:NAME, where NAME is a model, or a class or function that returns one when called with --args; or a folder
    with a config.json of transformers or diffusers. Nothing is allocated or computed.
    Matrix products, convolutions and attention count as FLOPs, with a multiply-add as 2.

    \b
    metatensor estimate examples/gpt2.py:gpt2_xl --input "int64[1,1024]"
    metatensor estimate model.py:Encoder --args "12, width=768" -i "float32[1,128,768]" -i "mask=bool[1,128]"
    metatensor estimate Llama-3.1-8B/ -i "int64[1,4096]" --dtype bfloat16
    metatensor estimate examples/gpt2.py:gpt2 -i "int64[8,1024]" --train --precision bf16-mixed --recompute full
    """
    given = {name: value for name, value in options.items() if value}
    if "convention" in given and "device" not in given:
        raise click.UsageError("--convention needs --device")
    if train:
        _train(request, as_json, given)
        return
    profile, convention, sweep = _profile(given), given.pop("convention", "torch"), given.pop("sweep", None)
    if given:
        raise click.UsageError(f"--{next(iter(given)).replace('_', '-')} needs --train")
    if sweep is not None:
        if request.dtype is not None:
            raise click.UsageError("--sweep dtype sets the dtype; leave out --dtype")
        return sweep_inference(request, profile, convention, as_json)
    with _Bar() as bar:
        result = request.run(progress=bar)
    report = result.report
    if report is None:
        click.echo(printable_lines(str(result)), err=True)
        raise SystemExit(1)
    time = None if profile is None else request.time(profile, convention)
    if as_json:
        click.echo(report.to_json() if time is None else json.dumps({**report.to_dict(), "time": time.to_dict()}, indent=2))
        return
    Terminal().print(as_rich(report, depth))
    if time is not None:
        click.echo(printable_lines(f"one pass on {time.device}\n\n{time}"))


def _profile(options: dict[str, Any]) -> Any:
    """Take the device out of options, and return its profile, None if there is none."""
    from metatensor.devices.profiles import ProfileError, device_profile

    try:
        return device_profile(options.pop("device")) if "device" in options else None
    except ProfileError as error:
        raise click.BadParameter(printable(str(error)), param_hint="--device") from None


def _train(request: Request, as_json: bool, options: dict[str, Any]) -> None:
    """Report a training step."""
    by_op = options.pop("by", None) == "op"
    profile = _profile(options)
    if profile is not None:
        options["device"] = profile
    if "loss" in options:
        try:
            options["loss"] = load_target(options["loss"])
        except TargetError as error:
            raise click.BadParameter(printable(str(error)), param_hint="--loss") from None
    if options.pop("sweep", None) is not None:
        if by_op or "precision" in options:
            raise click.UsageError("--sweep dtype is a table over precisions; leave out --by and --precision")
        return sweep_training(request, options, as_json)
    result = request.train(options)
    report = result.report
    if report is None:
        click.echo(printable_lines(str(result)), err=True)
        raise SystemExit(1)
    memory = None if profile is None else profile.visible_memory or profile.memory
    fits = None if memory is None else report.total_bytes <= memory
    if as_json:
        device = None if profile is None else {"name": profile.name, "memory": memory, "fits": fits}
        click.echo(json.dumps({**report.to_dict(), "device": device}, indent=2))
        return
    click.echo(printable_lines(report.text(by_op)))
    if profile is not None and memory is not None:
        left = bytes_text(abs(memory - report.total_bytes))
        click.echo(f"{profile.name}, {bytes_text(memory)}: " + (f"fits, {left} are left" if fits else f"does not fit, {left} are missing"))
    elif profile is not None:
        click.echo(f"{profile.name}: the size of its memory is unknown")


class _Bar:
    """A progress bar on stderr. It is shown only on a terminal, and only if the run takes longer than `PATIENCE`."""

    def __init__(self) -> None:
        self.start = clock.monotonic()
        self.bar: Progress | None = None
        self.task: Any = None
        self.wanted = sys.stderr.isatty()

    def __call__(self, done: int, modules: int, path: str) -> None:
        if self.bar is None:
            if not self.wanted or clock.monotonic() - self.start < PATIENCE:
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
