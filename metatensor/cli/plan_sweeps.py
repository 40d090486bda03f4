"""``metatensor plan --train`` on executors and over several sizes."""

from __future__ import annotations

import itertools
from typing import Any

import click

from metatensor.analysis.functions import as_module
from metatensor.checkpoint.errors import printable
from metatensor.cli.configs import without_cache
from metatensor.cli.plan_inputs import arguments_of, changes_of
from metatensor.cli.request import Request
from metatensor.cli.terminal import output_on_stderr

__all__ = ["Requested", "Sizes", "combinations"]


class Sizes:
    """A function of a number of samples that returns the arguments of a model. It can be pickled."""

    def __init__(self, texts: tuple[str, ...], where: tuple[str, ...], changed: dict[str, int], length: int) -> None:
        self.texts, self.where, self.changed, self.length = texts, where, changed, length

    def __call__(self, batch: int) -> tuple[tuple, dict[str, Any]]:
        return arguments_of(self.texts, self.where, needed=("batch",), changed=self.changed)(batch, self.length)


class Requested:
    """Makes the model of a request, in any process."""

    def __init__(self, request: Request, sizes: Sizes, model: Any = None) -> None:
        self.request, self.sizes, self.model = request, sizes, model

    def __getstate__(self) -> dict[str, Any]:
        return {"request": self.request, "sizes": self.sizes, "model": None}

    def __call__(self) -> tuple[Any, tuple, dict[str, Any]]:
        if self.model is None:
            with output_on_stderr():
                self.model = without_cache(as_module(self.request.model()))
        return self.model, (self.sizes,), {}


def combinations(texts: tuple[str, ...], over: tuple[str, ...], known: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return what ``--over`` asks for, such as "sequence=2048,4096" and "devices=8xH100 | 64xH100": all combinations."""
    names: dict[str, list[Any]] = {}
    for text in over:
        name, _, values = text.partition("=")
        parts = values.split("|") if name.strip() == "devices" else values.split(",")
        try:
            each = [changes_of(f"{name}={part.strip()}", known, texts) for part in parts]
        except click.BadParameter as error:
            raise click.BadParameter(printable(error.message), param_hint="--over") from None
        key = next(iter(each[0]))
        if key in names:
            raise click.BadParameter(f"{key} is given twice", param_hint="--over")
        names[key] = [one[key] for one in each]
    return [dict(zip(names, chosen, strict=True)) for chosen in itertools.product(*names.values())]
