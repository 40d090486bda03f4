"""Sets of inputs: cases, and combinations of named sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import click

from metatensor.analysis.named_sizes import combinations, parse_sizes
from metatensor.checkpoint.errors import printable
from metatensor.cli.inputs import InputError, dims_of, names_in, parse_arguments, parse_input
from metatensor.cli.sizes import SizeError

__all__ = ["Case", "cases_of", "hulls_of", "inputs_of", "named_inputs", "ranges_of", "sizes_options"]


class Case(NamedTuple):
    """The arguments of one call of the model."""

    name: str
    """The inputs as they were written, with the values of the named sizes."""
    sizes: dict[str, int]
    args: tuple
    kwargs: dict[str, Any]


def sizes_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--where`` and ``--case`` to a command. Use it below `model_options`."""
    for option in (
        click.option(
            "--where", metavar="SIZES", multiple=True,
            help='Values of named sizes in inputs: "batch in 1,8,32; h in 224..512 step 32".',
        ),
        click.option(
            "--case", "cases", metavar="ARGUMENTS", multiple=True,
            help='Another set of inputs, as in a call: "int64[8,128], mask=bool[8,128]". Can be repeated.',
        ),
    ):  # fmt: skip
        command = option(command)
    return command


def ranges_of(where: tuple[str, ...]) -> dict[str, range]:
    """Return the range of each named size, for commands that trace with all of them. Invalid texts raise usage errors."""
    try:
        sizes = parse_sizes("; ".join(where))
    except SizeError as error:
        raise click.BadParameter(printable(str(error)), param_hint="--where") from None
    found = {}
    for name, values in sizes.items():
        step = values[1] - values[0] if len(values) > 1 else 1
        found[name] = range(values[0], values[-1] + 1, max(step, 1))
        if list(found[name]) != values:
            raise click.BadParameter(printable(f"the values of {name!r} must be one range, such as 1..64, or 32..512 step 32"),
                                     param_hint="--where")  # fmt: skip
    return found


def hulls_of(where: tuple[str, ...]) -> tuple[dict[str, list[int]], dict[str, range]]:
    """Return the values of each named size, and the least range that has them. Invalid texts raise usage errors."""
    try:
        sizes = parse_sizes("; ".join(where))
    except SizeError as error:
        raise click.BadParameter(printable(str(error)), param_hint="--where") from None
    return sizes, {name: range(min(v), max(v) + 1, math.gcd(*(n - min(v) for n in v)) or 1) for name, v in sizes.items()}


def named_inputs(texts: tuple[str, ...], sizes: dict[str, range]) -> tuple[list[Any], dict[str, Any], dict[Any, Any]]:
    """Return positional and keyword arguments with sizes in the middle of the ranges, and their named sizes as `trace` takes them."""
    try:
        args, kwargs = inputs_of(texts, {name: values[len(values) // 2] for name, values in sizes.items()})
        dims: dict[Any, Any] = {}
        place = 0
        for text in texts:
            name, spec = dims_of(text)
            dims[place if name is None else name] = spec
            place += name is None
    except InputError as error:
        raise click.BadParameter(printable(str(error)), param_hint="--input") from None
    return args, kwargs, dims


def cases_of(inputs: tuple[str, ...], cases: tuple[str, ...], where: tuple[str, ...]) -> list[Case]:
    """Return the calls for the inputs and each case, in each combination of the named sizes that it uses.

    Invalid texts raise usage errors.
    """
    try:
        sizes = parse_sizes("; ".join(where)) if where else {}
    except SizeError as error:
        raise click.BadParameter(printable(str(error)), param_hint="--where") from None
    found: list[Case] = []
    used: set[str] = set()
    written: list[tuple[str, tuple[str, ...]]] = [("--case", (case,)) for case in cases]
    if inputs or not cases:
        written.insert(0, ("--input", inputs))
    for option, texts in written:
        try:
            names = set().union(*(names_in(text) for text in texts))
            chosen = {name: values for name, values in sizes.items() if name in names}
            used |= set(chosen)
            for values in combinations(chosen):
                args, kwargs = parse_arguments(texts[0], values) if option == "--case" else inputs_of(texts, values)
                found.append(Case(_name(texts, values), values, tuple(args), kwargs))
        except (InputError, SizeError) as error:
            raise click.BadParameter(printable(str(error)), param_hint=option) from None
    unused = [name for name in sizes if name not in used]
    if unused:
        raise click.BadParameter(f"no input has the size {unused[0]!r}", param_hint="--where")
    return found


def inputs_of(texts: tuple[str, ...], sizes: dict[str, int]) -> tuple[list[Any], dict[str, Any]]:
    """Parse the texts of ``--input``. Return positional and keyword arguments. Raise `InputError` if a text is invalid."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for text in texts:
        name, value = parse_input(text, sizes)
        if name is None:
            args.append(value)
        elif name in kwargs:
            raise InputError(f"{name!r} is given twice")
        else:
            kwargs[name] = value
    return args, kwargs


def _name(texts: tuple[str, ...], sizes: dict[str, int]) -> str:
    values = ", ".join(f"{name}={value}" for name, value in sizes.items())
    return ", ".join(texts) + (f" with {values}" if values else "")
