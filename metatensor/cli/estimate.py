"""``metatensor estimate``."""

from __future__ import annotations

import json
import sys
import time as clock
from contextlib import nullcontext
from typing import Any, NamedTuple

import click
from rich.progress import BarColumn, Progress, TextColumn

from metatensor._core.units import bytes_text
from metatensor.analysis.assumptions import assume
from metatensor.analysis.table import as_rich
from metatensor.checkpoint.errors import printable
from metatensor.cli.cases import inputs_of
from metatensor.cli.contents import printable_lines
from metatensor.cli.estimate_sizes import report_sizes
from metatensor.cli.inputs import InputError
from metatensor.cli.request import Request, model_options
from metatensor.cli.sweep import sweep_inference, sweep_training
from metatensor.cli.terminal import Terminal
from metatensor.cli.training_options import device_of, loss_of, training_options
from metatensor.rules.policies import KernelPolicy, policy, policy_for

__all__ = ["command"]

PATIENCE = 0.3
"""Seconds before progress is shown."""


@click.command("estimate")
@model_options
@click.option("--depth", type=click.IntRange(min=0), help="Depth of the modules in the table [default: as deep as fits].")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with every module.")
@training_options
@click.option("--html", metavar="FILE", type=click.Path(dir_okay=False, writable=True), help="Also write a page with the timeline of "
              "memory, the modules and, with --device, the times.")
@click.option("--trace", metavar="FILE", type=click.Path(dir_okay=False, writable=True), help="Also write the timeline of memory for "
              "Perfetto or chrome://tracing (.json or .json.gz).")
@click.option("--sweep", type=click.Choice(["dtype"]), help="A table over precisions: of a forward pass, or with --train of a step.")
@click.option("--by", type=click.Choice(["op"]), help="With --train: also list the FLOPs of each operator, and the ten "
              "that weigh most at the peak.")
@click.option("--device", metavar="PROFILE", help="A device profile, such as h100-80gb, or a file of one: predict the time there; with "
              "--train also compare its memory.")
@click.option("--convention", type=click.Choice(["torch", "macs", "6nd", "megatron"]),
    help="With --device: how MFU counts [default: torch].")
@click.option("--assume", "assumed", multiple=True, metavar="NAME=N", help="A figure for sizes that depend on values, such as "
              "tokens_per_expert=128 or nonzero=1000, or only 'bounds': those without a figure are upper bounds.")
@click.option("--policy", metavar="NAME", help="A kernel policy: meta, eager, cuda, or one of a plugin [default: that of --device].")
@click.option("--where", metavar="SIZES", multiple=True, help='Values of named sizes in inputs: "batch in 1,8,32; h in 224..512 step 32". '
              "Figures are then expressions of the names.")
def command(
    request: Request, depth: int | None, as_json: bool, train: bool, html: str | None, trace: str | None, where: tuple[str, ...],
    **options: Any,
) -> None:  # fmt: skip
    """Build MODEL on meta, run its forward there, and report its cost.

    MODEL is FILE.py:NAME, where NAME is a model, a class or function that returns one when called with
    --args, or a function of the inputs; or a folder
    with a config.json of transformers or diffusers. Nothing is allocated or computed.
    Matrix products, convolutions and attention count as FLOPs, with a multiply-add as 2.

    \b
    metatensor estimate examples/gpt2.py:gpt2_xl --input "int64[1,1024]"
    metatensor estimate model.py:Encoder --args "12, width=768" -i "float32[1,128,768]" -i "mask=bool[1,128]"
    metatensor estimate Llama-3.1-8B/ -i "int64[1,4096]" --dtype bfloat16
    metatensor estimate model.py:Net -i "float32[batch,3,h,w]" --where "batch in 1,8,32; h in 224..512 step 32; w in 224"
    metatensor estimate examples/gpt2.py:gpt2 -i "int64[8,1024]" --train --precision bf16-mixed --recompute full
    """
    given = {name: value for name, value in options.items() if value}
    if where:
        others = [*given, *(name for name, value in (("depth", depth), ("train", train), ("html", html), ("trace", trace)) if value)]
        if others:
            raise click.UsageError(f"--where reports a forward pass at each size; leave out --{others[0].replace('_', '-')}")
        return report_sizes(request, where, as_json)
    try:
        args, kwargs = inputs_of(request.texts, {})
    except InputError as error:
        raise click.BadParameter(str(error), param_hint="--input") from None
    request = request._replace(inputs=args, named_inputs=kwargs)
    if "convention" in given and "device" not in given:
        raise click.UsageError("--convention needs --device")
    if html is not None:
        _check_plotly()
    outputs = Outputs(as_json, html, trace)
    profile = device_of(given.pop("device", None))
    kernels = _policy(given, profile)
    figures = _figures(given.pop("assumed", ()))
    with policy(kernels), nullcontext() if figures is None else figures:
        if train:
            _train(request, outputs, given, profile)
        else:
            _infer(request, depth, outputs, given, profile, kernels)


class Outputs(NamedTuple):
    """The outputs besides the table, or instead of it."""

    json: bool
    html: str | None
    trace: str | None

    @property
    def timeline(self) -> bool:
        """Whether they need the timeline of memory."""
        return self.json or self.html is not None or self.trace is not None

    def write(self, found: dict[str, Any], profile: Any) -> None:
        """Write the page and the trace that were requested."""
        from metatensor.analysis import page

        try:
            if self.html is not None:
                page.write(self.html, found)
            if self.trace is not None:
                profile.to_chrome_trace(self.trace)
        except OSError as error:
            raise click.ClickException(printable(str(error))) from None


def _infer(request: Request, depth: int | None, outputs: Outputs, given: dict[str, Any], profile: Any, kernels: KernelPolicy) -> None:
    """Report a forward pass."""
    convention = given.pop("convention", "torch")
    sweep = given.pop("sweep", None)
    if given:
        raise click.UsageError(f"--{next(iter(given)).replace('_', '-')} needs --train")
    if sweep is not None:
        if request.dtype is not None:
            raise click.UsageError("--sweep dtype sets the dtype; leave out --dtype")
        return sweep_inference(request, profile, convention, outputs.json)
    with _Bar() as bar:
        result = request.run(progress=bar, device=profile, convention=convention, timeline=outputs.timeline)
    report = result.report
    if report is None:
        click.echo(printable_lines(str(result)), err=True)
        raise SystemExit(1)
    time = report.time = result.time
    found = report.to_dict() if outputs.json or outputs.html is not None else {}
    outputs.write(found, report.profile)
    if outputs.json:
        click.echo(json.dumps(found, indent=2))
        return
    Terminal().print(as_rich(report, depth))
    if kernels.name != "meta":
        click.echo(printable_lines("\n".join(kernels.notes())))
    if time is not None:
        click.echo(printable_lines(f"one pass on {time.device}\n\n{time}"))


def _check_plotly() -> None:
    """Fail early if the page cannot be drawn."""
    from metatensor.analysis.page import MissingPlotly, plotly

    try:
        plotly()
    except MissingPlotly as error:
        raise click.ClickException(str(error)) from None


def _figures(texts: tuple[str, ...]) -> Any:
    """Return the context manager for the figures of --assume, or None."""
    if not texts:
        return None
    figures: dict[str, float] = {}
    for text in texts:
        name, equals, number = text.partition("=")
        try:
            if equals:
                figures[name.strip()] = float(number) if name.strip() == "item" and "." in number else int(number)
            elif text != "bounds":
                raise ValueError("expected NAME=N or bounds")
        except ValueError as error:
            raise click.BadParameter(printable(f"{text!r}: {error}"), param_hint="--assume") from None
    try:
        return assume(**figures)
    except (TypeError, ValueError) as error:
        raise click.BadParameter(printable(str(error)), param_hint="--assume") from None


def _policy(options: dict[str, Any], profile: Any) -> KernelPolicy:
    """Remove the kernel policy from the options, and return it."""
    try:
        return policy_for(options.pop("policy", None), profile)
    except ValueError as error:
        raise click.BadParameter(printable(str(error)), param_hint="--policy") from None


def _train(request: Request, outputs: Outputs, options: dict[str, Any], profile: Any) -> None:
    """Report a training step."""
    by_op = options.pop("by", None) == "op"
    options["timeline"] = outputs.timeline
    if profile is not None:
        options["device"] = profile
    if "loss" in options:
        options["loss"] = loss_of(options["loss"], request.torch)
    if options.pop("sweep", None) is not None:
        if by_op or "precision" in options:
            raise click.UsageError("--sweep dtype is a table over precisions; leave out --by and --precision")
        return sweep_training(request, {**options, "timeline": False}, outputs.json)
    result = request.train(options)
    report = result.report
    if report is None:
        click.echo(printable_lines(str(result)), err=True)
        raise SystemExit(1)
    memory = None if profile is None else profile.visible_memory or profile.memory
    fits = None if memory is None else report.total_bytes <= memory
    device = None if profile is None else {"name": profile.name, "memory": memory, "fits": fits}
    found = {**report.to_dict(), "device": device} if outputs.json or outputs.html is not None else {}
    outputs.write(found, report.profile)
    if outputs.json:
        click.echo(json.dumps(found, indent=2))
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
