"""The model and the inputs of ``metatensor plan``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import click

from metatensor.analysis.check import CheckResult
from metatensor.analysis.named_sizes import parse_sizes
from metatensor.checkpoint.errors import printable
from metatensor.cli.cases import inputs_of
from metatensor.cli.contents import printable_lines
from metatensor.cli.inputs import InputError, names_in
from metatensor.cli.request import Request
from metatensor.cli.sizes import SizeError

__all__ = ["Arguments", "arguments_of", "fail", "made_model", "numbers"]

Arguments = Callable[[int, int], tuple[tuple, dict[str, Any]]]
"""A function of a batch and a length of sequences that returns the arguments of the model."""


def made_model(request: Request) -> Any:
    """Return the model, or print why there is none and exit."""
    model = request.made()
    if isinstance(model, CheckResult):
        click.echo(printable_lines(str(model)), err=True)
        raise SystemExit(1)
    return model


def fail(request: Request, error: BaseException) -> NoReturn:
    """Print what failed, and exit."""
    click.echo(printable_lines(str(request.failure(error))), err=True)
    raise SystemExit(1)


def numbers(text: str, option: str, least: int = 1) -> list[int]:
    """Return the numbers of a list that is separated by commas."""
    try:
        found = [int(part) for part in text.split(",")]
        if min(found) < least:
            raise ValueError
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a list of numbers from {least} on, such as 1,2,8", param_hint=option) from None
    return found


def arguments_of(texts: tuple[str, ...], where: tuple[str, ...], needed: tuple[str, ...] = ("batch", "sequence")) -> Arguments:
    """Return a function of a batch and a length that makes the arguments in ``--input``.

    Raise a usage error if a size has no value, or one of the needed ones does not occur.
    """
    try:
        others = parse_sizes("; ".join(where)) if where else {}
        if several := [name for name, values in others.items() if len(values) > 1]:
            raise SizeError(f"the size {several[0]!r} has several values; plan needs one")
    except SizeError as error:
        raise click.BadParameter(printable(str(error)), param_hint="--where") from None

    def made(batch: int, length: int) -> tuple[tuple, dict[str, Any]]:
        sizes = {name: values[0] for name, values in others.items()}
        args, kwargs = inputs_of(texts, {**sizes, "batch": batch, "sequence": length})
        return tuple(args), kwargs

    try:
        names = set().union(*(names_in(text) for text in texts))
        if missing := set(needed) - names:
            raise InputError(f"no input has a size that is named {min(missing)}; write int64[batch,sequence] or the like")
        if unknown := names - {"batch", "sequence", *others}:
            raise InputError(f"the size {min(unknown)!r} has no value; --where gives it one")
        made(1, 1)
    except InputError as error:
        raise click.BadParameter(printable(str(error)), param_hint="--input") from None
    return made
