"""``metatensor plan --train --operators``."""

from __future__ import annotations

import json
from typing import Any

import click

from metatensor.checkpoint.errors import printable
from metatensor.cli.contents import printable_lines
from metatensor.cli.plan_inputs import arguments_of, fail, numbers
from metatensor.cli.request import Request
from metatensor.cli.terminal import output_on_stderr

__all__ = ["ALLOWED", "plan_operators"]

ALLOWED = ("operators", "mesh", "global_batch", "loss", "optimizer", "precision", "headroom", "max_memory", "context")
"""The options that go with ``--operators``."""


def plan_operators(request: Request, model: Any, devices: str, where: tuple[str, ...], given: dict[str, Any], as_json: bool) -> None:
    """Place the operators of a model, and print where they are."""
    for name in given:
        if name not in ALLOWED:
            raise click.UsageError(f"--{name.replace('_', '-')} does not go with --operators")
    mesh = given.get("mesh")
    args, kwargs = arguments_of(request.texts, where, needed=("batch",))(given["global_batch"], given.get("context", 2048))
    loss = given.get("loss")
    settings = {name: given[name] for name in ("optimizer", "precision", "headroom", "max_memory") if name in given}
    from metatensor.plan import place_operators

    try:
        with output_on_stderr():
            plan = place_operators(
                model, *args, devices=devices, mesh=None if mesh is None else numbers(mesh, "--mesh"),
                loss=None if loss is None else lambda output: loss(output, given["global_batch"]), **settings, **kwargs,
            )  # fmt: skip
    except (ImportError, ValueError) as error:
        raise click.UsageError(printable(str(error).removeprefix("place_operators: "))) from None
    except (Exception, SystemExit) as error:
        fail(request, error)
    click.echo(json.dumps(plan.to_dict(), indent=2) if as_json else printable_lines(str(plan)))
