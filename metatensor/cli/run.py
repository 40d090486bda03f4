"""``metatensor run``."""

from __future__ import annotations

import os
import sys

import click

import metatensor as mt
from metatensor import torch_api
from metatensor.checkpoint.errors import printable
from metatensor.cli.planned.session import Plan
from metatensor.cli.planned.values import POLICIES
from metatensor.cli.script import run_script

__all__ = ["command"]


@click.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--device", metavar="DEVICE",
    help="Make tensors here that name no device. With meta, every device means meta: a run without data.",
)  # fmt: skip
@click.option(
    "--values", "policy", type=click.Choice(POLICIES),
    help="With --device meta, what a script gets that requests values: numbers that are 1 and sizes as large as they can be (bound, "
    "the default), those of tensors of zeros (zero), or an error (raise).",
)  # fmt: skip
@click.option("-m", "as_module", is_flag=True, help="SCRIPT is the name of a module, as for python -m.")
@click.argument("script", metavar="SCRIPT")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS]...")
def command(device: str | None, policy: str | None, as_module: bool, script: str, arguments: tuple[str, ...]) -> None:
    """Run SCRIPT, a file written for PyTorch, with metatensor in the place of PyTorch.

    Its ARGUMENTS are handed on as they are, and its exit status is this command's.

    With --device meta a script plans itself: a training loop for a GPU runs to its end with no data, no memory and no GPU.
    Devices that it names ("cuda", "cuda:0", "mps", "cpu") mean meta, and there is one planned GPU. At the end, stderr says
    which lines requested values, and what was left out.

    \b
    metatensor run --device meta train.py --layers 12
    metatensor run --device cpu train.py
    metatensor run -m package.module
    """
    planned = False
    if device is not None:
        try:
            planned = mt.device(device).type == "meta"
            mt.set_default_device(device)
        except RuntimeError as error:
            raise click.BadParameter(str(error), param_hint="--device") from None
    if policy is not None and not planned:
        raise click.UsageError("--values goes with --device meta")
    if not as_module and not os.path.isfile(script):
        raise click.BadParameter(f"there is no file {script!r}", param_hint="SCRIPT")
    torch_api.install()
    if not planned:
        raise SystemExit(run_script(script, arguments, as_module))
    plan = Plan(policy or POLICIES[0])
    plan.start()
    try:
        status = run_script(script, arguments, as_module)
    finally:
        for line in plan.summary():
            print(printable(f"metatensor: {line}"), file=sys.stderr)
    raise SystemExit(status)
