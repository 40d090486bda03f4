"""``metatensor fit``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import click

from metatensor.analysis.check import NO_BUDGETS, OPTIONS, CheckResult
from metatensor.analysis.fit import KEPT, limit_of, resized, run_fit
from metatensor.analysis.fit_report import FitSetting
from metatensor.analysis.functions import as_module
from metatensor.analysis.named_sizes import parse_sizes
from metatensor.analysis.utilization import batch_of
from metatensor.checkpoint.errors import printable
from metatensor.cli.cases import inputs_of
from metatensor.cli.contents import printable_lines
from metatensor.cli.inputs import InputError, names_in
from metatensor.cli.request import Request, model_options
from metatensor.cli.sizes import Size, SizeError, parse_bytes
from metatensor.cli.terminal import Terminal, output_on_stderr
from metatensor.cli.training_options import device_of, step_options, training_options

__all__ = ["command"]


def _words(ctx: click.Context, param: click.Parameter, value: str | None) -> list[str] | None:
    """Return the words of a list that is separated by commas."""
    return None if value is None else [word.strip() for word in value.split(",") if word.strip()]


@click.command("fit")
@model_options
@click.option("--device", metavar="PROFILE", help="A device profile, such as h100-80gb, or a file of one: the limit is its memory, and "
              "times are predicted for it.")
@click.option("--max-memory", type=Size(parse_bytes), metavar="SIZE", help="The available memory (70GB) [default: that of the device].")
@click.option("--batch", type=click.IntRange(min=1), metavar="N", help="Requested samples of a micro-batch [default: those of the inputs, "
              "or 1 where a size is named batch].")
@click.option("--sequence", type=click.IntRange(min=1), metavar="N", help="Requested value of the size that is named sequence.")
@click.option("--where", metavar="SIZES", multiple=True, help='The values of other named sizes in inputs: "h in 224; w in 224".')
@training_options
@click.option("--keep", type=click.Choice(KEPT), multiple=True, help="A setting that must not change. Can be repeated.")
@click.option("--precisions", callback=_words, metavar="NAMES", help="Precisions to try, separated by commas [default: those that need "
              "less memory].")
@click.option("--recomputes", callback=_words, metavar="WHAT", help="With --train: values of --recompute to try "
              "[default: selective, full].")
@click.option("--optimizers", callback=_words, metavar="NAMES", help="With --train: optimizers to try [default: adafactor, sgd].")
@click.option("--top", type=click.IntRange(min=1), default=10, metavar="N", help="Greatest number of changes in the table [default: 10].")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with every change.")
def command(
    request: Request, device: str | None, max_memory: int | None, batch: int | None, sequence: int | None, where: tuple[str, ...],
    train: bool, keep: tuple[str, ...], precisions: list[str] | None, recomputes: list[str] | None, optimizers: list[str] | None,
    top: int, as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Find the largest batch of FILE.py:NAME that fits into a device, and changes that make the requested batch fit.

    Every figure is an estimate on meta. The batch is the size that is named batch in --input, else the first size of the first
    tensor. The exit status is 0 if the requested batch fits, and 1 if it does not.

    \b
    metatensor fit examples/gpt2.py:gpt2 -i "int64[8,1024]" --device t4 --train
    metatensor fit examples/gpt2.py:gpt2 -i "int64[batch,sequence]" --batch 8 --sequence 1024 --device t4 --train
    """
    if not train and (recomputes is not None or optimizers is not None):
        raise click.UsageError(f"--{'recomputes' if recomputes is not None else 'optimizers'} needs --train")
    precision = None if train else options.pop("precision", None)  # a forward pass has a precision too
    step = step_options(train, options, request.torch) or {"precision": precision}
    profile = device_of(device)
    arguments, wanted, length = _arguments(request.texts, batch, sequence, where)
    loss = step.pop("loss", None)
    requested = FitSetting(wanted, length, **step)
    tried = {"precision": precisions, "recompute": recomputes, "optimizer": optimizers}
    model = request.made()
    if isinstance(model, CheckResult):
        _fail(model)
    if train:
        model = as_module(model).train()
    try:
        limit, source = limit_of(profile, max_memory, "--max-memory")
        with ExitStack() as stack:
            progress = _progress(stack)
            stack.enter_context(output_on_stderr())
            report = run_fit(model, arguments, requested, limit, source, profile, train, loss, keep, tried, progress)
    except (Exception, SystemExit) as error:
        if isinstance(error, ValueError) and str(error).startswith((*OPTIONS, "fit: ")):
            raise click.UsageError(printable(str(error).removeprefix("fit: "))) from None
        args, kwargs = arguments(requested.batch, requested.sequence)
        training = {**step, **({} if loss is None else {"loss": loss})} if train else None
        found = request.check(model, args, kwargs, NO_BUDGETS, None, training)  # finds the module
        _fail(found if found.error is not None else request.failure(error))
    click.echo(report.to_json() if as_json else printable_lines(report.text(top)))
    raise SystemExit(0 if report.fits else 1)


def _fail(result: CheckResult) -> None:
    click.echo(printable_lines(str(result)), err=True)
    raise SystemExit(1)


def _progress(stack: ExitStack) -> Callable[[FitSetting], None] | None:
    """Return a function that shows the current trial on a terminal, or None without a terminal."""
    terminal = Terminal(stderr=True)
    if not terminal.is_terminal:
        return None
    status = stack.enter_context(terminal.status("estimating"))

    def shown(setting: FitSetting) -> None:
        status.update(f"estimating batch {setting.batch:,}, recompute {setting.recompute}, precision {setting.precision or 'of the model'}")

    return shown


def _arguments(texts: tuple[str, ...], batch: int | None, sequence: int | None, where: tuple[str, ...]) -> tuple[Any, int, int | None]:
    """Return a function for the model's arguments, and the requested batch and sequence. Invalid options raise usage errors."""
    try:
        given = parse_sizes("; ".join(where)) if where else {}
    except SizeError as error:
        raise click.BadParameter(printable(str(error)), param_hint="--where") from None
    several = [name for name, values in given.items() if len(values) > 1]
    if several:
        raise click.BadParameter(f"the size {several[0]!r} has several values; fit needs one", param_hint="--where")
    sizes = {name: values[0] for name, values in given.items()}
    try:
        names = set().union(*(names_in(text) for text in texts))
        batch, sequence = batch or sizes.pop("batch", None), sequence or sizes.pop("sequence", None)
        unused = [name for name in sizes if name not in names]
        if unused:
            raise click.BadParameter(f"no input has the size {unused[0]!r}", param_hint="--where")
        if (sequence is not None) != ("sequence" in names):
            why = "an input has the size 'sequence', which needs a value" if sequence is None else "no input has the size 'sequence'"
            raise click.BadParameter(why, param_hint="--sequence")

        def parsed(size: int, length: int | None) -> tuple[tuple, dict[str, Any]]:
            named = {"batch": size, "sequence": length or 1}
            named = {name: value for name, value in named.items() if name in names}
            args, kwargs = inputs_of(texts, {**sizes, **named})
            return tuple(args), kwargs

        if "batch" in names:
            parsed(batch or 1, sequence)  # raises errors now
            return parsed, batch or 1, sequence
        found = batch_of(parsed(1, sequence))
    except InputError as error:
        raise click.BadParameter(printable(str(error)), param_hint="--input") from None
    if not found:
        raise click.BadParameter("no tensor has a batch: its first size, or the size that is named batch", param_hint="--input")

    def changed(size: int, length: int | None) -> tuple[tuple, dict[str, Any]]:
        return resized(*parsed(1, length), found)(size, length)

    return changed, batch or found, sequence
