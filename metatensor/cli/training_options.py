"""Options of a training step and of a device, which ``estimate``, ``check`` and ``fit`` share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from metatensor.analysis.precision import PRECISIONS
from metatensor.checkpoint.errors import printable
from metatensor.cli.target import TargetError, load_target
from metatensor.cli.terminal import output_on_stderr

__all__ = ["device_of", "loss_of", "step_options", "training_options"]

NAMES = ("loss", "optimizer", "precision", "recompute", "foreach", "grad_accumulation", "lora")
"""The options of `training_options` besides ``--train``."""


def training_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--train`` and its options to a command."""
    for option in (
        click.option("--grad-accumulation", type=click.IntRange(min=1), metavar="N",
                     help="With --train: micro-batches before the update."),
        click.option("--foreach", is_flag=True, help="With --train: the optimizer updates all parameters together."),
        click.option("--recompute", metavar="WHAT", help='With --train: none, full, selective, or a pattern of module paths ("layers.*") '
                     "[default: none]."),
        click.option("--precision", type=click.Choice(list(PRECISIONS)), help="With --train [default: as the model is]."),
        click.option("--optimizer", metavar="NAME", help="With --train: an optimizer of metatensor.optim, or one with 8-bit states: "
                     "adamw8bit, adam8bit, lion8bit, sgd8bit, rmsprop8bit [default: adamw]."),
        click.option("--lora", metavar="RANK[:PATTERN]", help='With --train: train adapters of linear layers ("16:*.q_proj") and freeze '
                     "the rest [default pattern: all linear layers of the repeated layers]."),
        click.option("--loss", metavar="FILE.py:NAME",
                     help="With --train: function of the output that returns the loss [default: the mean]."),
        click.option("--train", is_flag=True, help="Run a training step: forward, backward and optimizer."),
    ):  # fmt: skip
        command = option(command)
    return command


def device_of(name: str | None) -> Any:
    """Return the profile of a device, None if no name is given. Raise a usage error if there is none."""
    from metatensor.devices.profiles import ProfileError, device_profile

    try:
        return None if name is None else device_profile(name)
    except ProfileError as error:
        raise click.BadParameter(printable(str(error)), param_hint="--device") from None


def loss_of(target: str, torch: bool = False) -> Any:
    """Return the function that computes the loss. With ``torch``, metatensor replaces PyTorch. Raise a usage error on failure."""
    if torch:
        from metatensor import torch_api

        torch_api.install()
    try:
        with output_on_stderr():
            found = load_target(target)
    except TargetError as error:
        raise click.BadParameter(printable(str(error)), param_hint="--loss") from None
    except (Exception, SystemExit) as error:
        raise click.BadParameter(printable(f"{target} cannot be loaded: {type(error).__name__}: {error}"), param_hint="--loss") from error
    if not callable(found):
        raise click.BadParameter(printable(f"{target} is a {type(found).__name__}, not a function"), param_hint="--loss")
    return found


def step_options(train: bool, options: dict[str, Any], torch: bool = False) -> dict[str, Any] | None:
    """Return the given options of a training step, or None without ``--train``. Other options are ignored."""
    given = {name: options[name] for name in NAMES if options.get(name)}
    if not train:
        if given:
            raise click.UsageError(f"--{next(iter(given)).replace('_', '-')} needs --train")
        return None
    if "loss" in given:
        given["loss"] = loss_of(given["loss"], torch)
    return given
