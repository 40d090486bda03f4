"""Options that ``estimate`` and ``check`` share, and the run that they describe."""

from __future__ import annotations

import dataclasses
import functools
import io
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, NamedTuple

import click

import metatensor as mt
from metatensor.analysis.check import NO_BUDGETS, OPTIONS, Budgets, CheckResult, build_failure, run_check
from metatensor.analysis.estimate import forward_profile
from metatensor.analysis.functions import as_module
from metatensor.analysis.observation import Progress
from metatensor.analysis.training import TrainingReport, estimate_training
from metatensor.checkpoint.errors import printable
from metatensor.cli.configs import without_cache
from metatensor.cli.contents import printable_lines
from metatensor.cli.hints import hint_for
from metatensor.cli.inputs import InputError, dtype_named, parse_arguments, parse_input
from metatensor.cli.target import TargetError, build, dtype_default, load_target
from metatensor.cli.terminal import output_on_stderr

__all__ = ["Request", "built", "model_options"]


class Trained(NamedTuple):
    """A training step that ran."""

    report: TrainingReport


class Request(NamedTuple):
    """A model, its inputs and options, parsed from the command line."""

    target: str
    make_args: list[Any]
    make_kwargs: dict[str, Any]
    inputs: list[Any]
    named_inputs: dict[str, Any]
    dtype: Any
    torch: bool = False
    texts: tuple[str, ...] = ()
    """The texts of the inputs, for commands with named sizes. `inputs` and `named_inputs` are then empty."""

    def model(self) -> Any:
        """Return the model on meta."""
        if self.torch:
            from metatensor import torch_api

            torch_api.install()
        with mt.device("meta"), dtype_default(self.dtype):
            return build(load_target(self.target), self.make_args, self.make_kwargs, self.dtype)

    def run(self, budgets: Budgets = NO_BUDGETS, progress: Progress | None = None, device: Any = None,
            convention: str = "torch", timeline: bool = False) -> CheckResult:
        """Load the target, build the model on meta and run it. Raise a usage error if it does not name a model.

        With `timeline` it runs again to record the memory in use over time. Output printed during this run is dropped.
        """
        model = self.made()
        if isinstance(model, CheckResult):
            return model
        with output_on_stderr():
            result = run_check(model, tuple(self.inputs), self.named_inputs, budgets, progress, device, convention=convention)
        if timeline and result.report is not None:
            dropped = io.StringIO()
            with redirect_stdout(dropped), redirect_stderr(dropped):
                result.report.profile = forward_profile(model, tuple(self.inputs), self.named_inputs)
        return result

    def check(self, model: Any, args: tuple, kwargs: dict[str, Any], budgets: Budgets, device: Any,
              training: dict[str, Any] | None) -> CheckResult:
        """Check a model that `made` returned. Invalid options of a training step raise a usage error."""
        if training is not None:
            model = as_module(model)
            model.train()
        try:
            with output_on_stderr():
                result = run_check(model, args, kwargs, budgets, device=device, training=training)
        except ValueError as error:
            raise click.UsageError(printable(str(error))) from None
        if result.error is not None:
            result.hint = hint_for(result.error, self.target, self.torch)
        return result

    def train(self, options: dict[str, Any]) -> Any:
        """Run a training step with the options of `estimate_training`. Return a `Trained` with the report, or the failure.

        Invalid options raise a usage error.
        """
        model = self.made()
        if isinstance(model, CheckResult):
            return model
        model = as_module(model)
        try:
            with output_on_stderr():
                report = estimate_training(without_cache(model.train()), *self.inputs, **options, **self.named_inputs)
        except ValueError as error:
            if str(error).startswith(OPTIONS):
                raise click.UsageError(printable(str(error))) from None
            return self.failure(error)
        except (Exception, SystemExit) as error:
            return self.failure(error)
        return Trained(report)

    def made(self) -> Any:
        """Return the model on meta, or the failure. Raise a usage error if the target does not name a model."""
        try:
            with output_on_stderr():
                return self.model()
        except TargetError as error:
            raise click.UsageError(printable(str(error))) from None
        except (Exception, SystemExit) as error:
            return self.failure(error)

    def failure(self, error: BaseException) -> CheckResult:
        """Return the result for an exception, with advice."""
        return dataclasses.replace(build_failure(self.target, error), hint=hint_for(error, self.target, self.torch))


def built(target: str, arguments: str, torch: bool = False) -> Any:
    """Return the model that a target and its arguments describe, on meta. Raise a usage error if there is none."""
    request = _request(target, arguments, (), None)._replace(torch=torch)
    try:
        with output_on_stderr():
            return request.model()
    except TargetError as error:
        raise click.UsageError(printable(str(error))) from None
    except (Exception, SystemExit) as error:
        raise click.ClickException(printable_lines(str(request.failure(error)))) from error


def model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `Request` to a command. The command receives the request as its first argument."""

    @functools.wraps(command)  # also copies the options that the command already has
    def with_request(
        target: str, arguments: str, inputs: tuple[str, ...], dtype: str | None, torch: bool, **options: Any
    ) -> Any:
        named = "where" in options  # then a command reads the inputs itself
        request = _request(target, arguments, () if named else inputs, dtype)
        return command(request._replace(torch=torch, texts=inputs if named else ()), **options)

    wrapped: Callable[..., Any] = with_request
    for option in (
        click.option("--torch", is_flag=True, help="The model is written for PyTorch; metatensor replaces PyTorch."),
        click.option("--dtype", metavar="DTYPE", help="Build the model in this dtype (bfloat16, f16, ...)."),
        click.option(
            "--input", "-i", "inputs", multiple=True, metavar="INPUT",
            help='An input of forward: a tensor ("int64[1,1024]") or a Python value. "name=..." passes it by name. Can be repeated.',
        ),
        click.option(
            "--args", "arguments", default="", metavar="ARGS",
            help='Arguments of the class or function that makes the model: "12, width=768".',
        ),
        click.argument("target", metavar="MODEL"),
    ):  # fmt: skip
        wrapped = option(wrapped)
    return wrapped


def _request(target: str, arguments: str, inputs: tuple[str, ...], dtype: str | None) -> Request:
    chosen = None
    if dtype is not None:
        chosen = dtype_named(dtype)
        if chosen is None or not chosen.is_floating_point:
            raise click.BadParameter(f"{dtype!r} is not a floating-point dtype", param_hint="--dtype")
    try:
        make_args, make_kwargs = parse_arguments(arguments)
    except InputError as error:
        raise click.BadParameter(str(error), param_hint="--args") from None
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for text in inputs:
        try:
            name, value = parse_input(text)
        except InputError as error:
            raise click.BadParameter(str(error), param_hint="--input") from None
        if name is None:
            positional.append(value)
        elif name in named:
            raise click.BadParameter(f"{name!r} is given twice", param_hint="--input")
        else:
            named[name] = value
    return Request(target, make_args, make_kwargs, positional, named, chosen)
