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

__all__ = ["Arguments", "Price", "arguments_of", "changes_of", "fail", "made_model", "numbers", "what_if"]

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


def numbers(text: str, option: str, least: int = 1, several: bool = True) -> list[int]:
    """Return the numbers of a list that is separated by commas, or without ``several`` the only number."""
    try:
        found = [int(part) for part in text.split(",")]
        if min(found) < least or len(found) > 1 and not several:
            raise ValueError
    except ValueError:
        wanted = f"a list of integers of at least {least}, such as 1,2,8" if several else f"an integer of at least {least}"
        raise click.BadParameter(f"{printable(text)!r} is not {wanted}", param_hint=option) from None
    return found


class Price(click.ParamType):
    """The price of a device for an hour."""

    name = "price"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse a text. Fail with a usage error if it is not a positive price."""
        from metatensor.plan.rates import parse_price

        try:
            return parse_price(value)
        except ValueError as error:
            self.fail(printable(str(error)), param, ctx)


def changes_of(text: str | None, known: tuple[str, ...], texts: tuple[str, ...]) -> dict[str, Any]:
    """Return what ``--what-if`` changes, such as "sequence=32768; devices=8xH200": known settings, or sizes that the inputs name."""
    found: dict[str, Any] = {}
    for part in (text or "").split(";") if text is not None else ():
        name, equals, value = (one.strip() for one in part.partition("="))
        name = name.replace("-", "_")
        try:
            sizes = set().union(*(names_in(one) for one in texts)) - {"batch"}
        except InputError:  # reported where the inputs are read
            sizes = set()
        possible = [*known, *sorted(sizes - set(known))]
        if not equals or not value or name not in possible:
            wrong = f"{printable(part.strip())!r} is not NAME=VALUE with one of {', '.join(possible)}"
            raise click.BadParameter(wrong, param_hint="--what-if")
        if name in found:
            raise click.BadParameter(f"{name} is given twice", param_hint="--what-if")
        if name == "price":
            found[name] = Price().convert(value, None, None)
        else:
            found[name] = value if name == "devices" else numbers(value, "--what-if", several=False)[0]
    return found


def what_if(change: dict[str, Any]) -> str:
    """Return the heading of a plan with changes."""
    return f"what if {', '.join(f'{name} = {value}' for name, value in change.items())}"


def arguments_of(
    texts: tuple[str, ...], where: tuple[str, ...], needed: tuple[str, ...] = ("batch", "sequence"), changed: dict[str, int] | None = None,
) -> Arguments:  # fmt: skip
    """Return a function of a batch and a length that makes the arguments in ``--input``.

    ``changed`` replaces values of ``--where``. Raise a usage error if a size has no value, or one of the needed ones does not occur.
    """
    try:
        others = parse_sizes("; ".join(where)) if where else {}
        if several := [name for name, values in others.items() if len(values) > 1]:
            raise SizeError(f"the size {several[0]!r} has several values; plan needs one")
    except SizeError as error:
        raise click.BadParameter(printable(str(error)), param_hint="--where") from None

    others |= {name: [value] for name, value in (changed or {}).items()}

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
