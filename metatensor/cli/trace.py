"""``metatensor trace``."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Any

import click

import metatensor as mt
from metatensor._core.units import bytes_text
from metatensor.analysis.check import CheckResult
from metatensor.analysis.estimate import at_inference, has_lazy
from metatensor.analysis.training import mean_loss, optimizer_named
from metatensor.checkpoint.atomic import replacing
from metatensor.checkpoint.errors import printable
from metatensor.cli.cases import inputs_of, named_inputs, ranges_of
from metatensor.cli.configs import without_cache
from metatensor.cli.contents import printable_lines
from metatensor.cli.files import check_folder
from metatensor.cli.inputs import InputError
from metatensor.cli.programs import bound
from metatensor.cli.request import Request, model_options
from metatensor.cli.terminal import output_on_stderr
from metatensor.cli.training_options import loss_of
from metatensor.program.argument_names import parameters_of
from metatensor.program.sizes.pieces import SizesError

__all__ = ["command"]

_WRITTEN = {".mtp": "a program", ".py": "Python source", ".onnx": "an ONNX model", ".html": "a page"}


@click.command("trace")
@model_options
@click.option("--output", "-o", metavar="FILE", required=True, type=click.Path(dir_okay=False, writable=True),
              help="Where to write: a program (.mtp), Python source (.py), an ONNX model (.onnx), or a page that draws the graph (.html).")
@click.option("--where", metavar="SIZES", multiple=True,
              help='Ranges of named sizes in inputs, which then vary in the program: "batch in 1..64; h in 224..512 step 32".')
@click.option("--train", is_flag=True, help="Trace a training step: forward, loss, backward and optimizer. Default: an inference.")
@click.option("--loss", metavar="FILE.py:NAME", help="With --train: function of the output that returns the loss [default: the mean].")
@click.option("--optimizer", metavar="NAME", help="With --train: an optimizer of metatensor.optim [default: adamw].")
@click.option("--weights", metavar="CHECKPOINT", type=click.Path(exists=True),
              help="With .onnx: parameters and buffers, by name [default: they are inputs of the model, after the others].")  # fmt: skip
def command(
    request: Request, output: str, where: tuple[str, ...], train: bool, loss: str | None, optimizer: str | None, weights: str | None
) -> None:
    """Build MODEL on meta, run its forward there, and write the calls of operators to a file.

    MODEL is FILE.py:NAME, where NAME is a model, or a class or function that returns one when called with --args; or a folder
    with a config.json of transformers or diffusers. The file does not need the model's source.

    \b
    metatensor trace examples/gpt2.py:gpt2 -i "int64[1,1024]" -o gpt2.mtp
    metatensor trace model.py:Net -i "float32[8,512]" --train --optimizer sgd -o step.mtp
    metatensor trace model.py:Net -i "float32[8,512]" -o net.py
    metatensor trace model.py:Net -i "float32[8,512]" -o graph.html
    metatensor trace model.py:Net -i "float32[batch,3,h,h]" --where "batch in 1..64; h in 64..512 step 32" -o net.mtp
    metatensor trace model.py:Net -i "float32[batch,3,h,w]" --where "batch in 1..64; h in 64..512; w in 64..512" -o net.onnx
    metatensor trace model.py:Net -i "float32[8,512]" --weights net.safetensors -o net.onnx
    """
    suffix = os.path.splitext(output)[1].lower()
    if suffix not in _WRITTEN:
        kinds = [f"{name} ({what})" for name, what in _WRITTEN.items()]
        raise click.BadParameter(printable(f"{output!r} must end with {', '.join(kinds[:-1])} or {kinds[-1]}"), param_hint="--output")
    check_folder(output, "--output")
    if weights is not None and suffix != ".onnx":
        raise click.UsageError("--weights needs an ONNX model as output; programs take weights when they are run")
    for name, value in (("--loss", loss), ("--optimizer", optimizer)):
        if value is not None and not train:
            raise click.UsageError(f"{name} needs --train")
    chosen = _optimizer(optimizer)
    named: dict[str, Any] = {}
    if where:
        sizes = ranges_of(where)
        args, kwargs, dims = named_inputs(request.texts, sizes)
        named = {"sizes": sizes, "dims": dims}
    else:
        args, kwargs = _inputs(request)
    request = request._replace(inputs=args, named_inputs=kwargs)
    criterion = mean_loss if loss is None else loss_of(loss, request.torch)
    model = request.made()
    if isinstance(model, CheckResult):
        _fail(model)
    if train and not isinstance(model, mt.nn.Module):
        raise click.UsageError(f"{request.target} is a {type(model).__name__}; --train needs a module")
    _check_arguments(model, request)
    try:
        with output_on_stderr():
            program = _step(model, request, criterion, chosen, named) if train else _forward(model, request, named)
    except (Exception, SystemExit) as error:
        if named and not isinstance(error, SizesError) and not str(error).startswith("trace: "):
            middle = ", ".join(f"{name}={values[len(values) // 2]}" for name, values in named["sizes"].items())
            click.echo(printable(f"the model was first run in the middle of the ranges of --where: {middle}"), err=True)
        _fail(request.failure(error))
    if suffix == ".onnx":
        _export(program, output, weights)
    else:
        _write(program, output, suffix)
    click.echo(printable(f"{output}: {program.name}, {len(program)} calls of {len(program.operators())} operators, "
                         f"{len(program.parameters)} parameters; {bytes_text(os.path.getsize(output))}"))  # fmt: skip
    for line in program.conditions() if named else ():
        click.echo(printable(f"note: {line}"), err=True)
    if program.reads:
        click.echo(f"note: the run read {len(program.reads)} values of tensors, which are fixed in the program", err=True)


def _optimizer(name: str | None) -> Callable[..., Any]:
    try:
        found: Callable[..., Any] = optimizer_named(name or "adamw")
    except ValueError as error:
        raise click.BadParameter(printable(str(error)), param_hint="--optimizer") from None
    return found


def _inputs(request: Request) -> tuple[list[Any], dict[str, Any]]:
    try:
        return inputs_of(request.texts, {})
    except InputError as error:
        raise click.BadParameter(str(error), param_hint="--input") from None


def _check_arguments(model: Any, request: Request) -> None:
    """Raise a usage error if the inputs are not arguments that the model's forward takes."""
    forward = model.forward if isinstance(model, mt.nn.Module) and "__signature__" not in vars(model) else model
    try:
        signature = inspect.signature(forward)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*request.inputs, **request.named_inputs)
    except TypeError as error:
        plain = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
        shown = inspect.Signature(plain)
        given = len(request.inputs) + len(request.named_inputs)
        missing = [one for one in signature.parameters.values() if one.kind is one.KEYWORD_ONLY and one.default is one.empty
                   and one.name not in request.named_inputs]  # fmt: skip
        advice = f'; give it by name: -i "{missing[0].name}=..."' if missing else ""
        count = f"{given} input{'s' if given != 1 else ''}"
        message = f"{request.target} takes {shown}, and got {count}: {error}{advice}"
        raise click.BadParameter(printable(message), param_hint="--input") from None


def _forward(model: Any, request: Request, named: dict[str, Any]) -> Any:
    args, kwargs = tuple(request.inputs), request.named_inputs
    with at_inference(model, args, kwargs):
        if has_lazy(model):
            model(*args, **kwargs)
        return mt.program.trace(model, *args, **kwargs, **named)


def _step(model: Any, request: Request, criterion: Callable[[Any], Any], optimizer: Callable[..., Any], named: dict[str, Any]) -> Any:
    """Trace the second training step: the first creates the optimizer's state."""
    args, kwargs = tuple(request.inputs), request.named_inputs
    model = without_cache(model.train())
    with mt.device("meta"), mt.enable_grad():
        updates = None

        def training_step(*args: Any, **kwargs: Any) -> Any:
            model.zero_grad()
            loss = criterion(model(*args, **kwargs))
            loss.backward()
            if updates is not None:
                updates.step()
            return loss.detach()

        training_step.__name__ = f"{type(model).__name__} training step"
        training_step.__signature__ = _signature(model)  # type: ignore[attr-defined]
        training_step(*args, **kwargs)
        options = {"capturable": True} if named and "capturable" in inspect.signature(optimizer).parameters else {}  # counts in a tensor
        updates = optimizer([p for p in model.parameters() if p.requires_grad], **options)
        updates.step()
        return mt.program.trace(training_step, *args, **kwargs, **named)


def _signature(model: Any) -> inspect.Signature:
    """Return the positional parameters of a module's forward, whose names the program takes."""
    return inspect.Signature([inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in parameters_of(model)])


def _write(program: Any, output: str, suffix: str) -> None:
    try:
        if suffix == ".mtp":
            program.save(output)
            return
        if suffix == ".html":
            program.to_html(output)
            return
        source = program.code
        with replacing(output) as file:
            file.write(source.encode())
    except TypeError as error:  # an argument that a file cannot hold
        raise click.ClickException(printable(str(error))) from None
    except OSError as error:
        raise click.ClickException(printable(f"{output}: {error.strerror or error}")) from None


def _export(program: Any, output: str, weights: str | None) -> None:
    try:
        if weights is not None:
            program = bound(program, weights)
        program.to_onnx(output, parameters=weights is not None)
    except (ImportError, ValueError) as error:
        raise click.ClickException("\n".join(printable(line) for line in str(error).split("\n"))) from None
    except OSError as error:
        raise click.ClickException(printable(f"{output}: {error.strerror or error}")) from None


def _fail(result: CheckResult) -> Any:
    click.echo(printable_lines(str(result)), err=True)
    raise SystemExit(1)
