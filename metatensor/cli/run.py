"""``metatensor run``."""

from __future__ import annotations

import os
import runpy
import sys

import click

import metatensor as mt
from metatensor import torch_api

__all__ = ["command"]


@click.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--device", metavar="DEVICE", help="Make tensors here that name no device: meta, for a run without data.")
@click.option("-m", "as_module", is_flag=True, help="SCRIPT is the name of a module, as for python -m.")
@click.argument("script", metavar="SCRIPT")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS]...")
def command(device: str | None, as_module: bool, script: str, arguments: tuple[str, ...]) -> None:
    """Run SCRIPT, a file written for PyTorch, with metatensor in the place of PyTorch.

    Its ARGUMENTS are handed on as they are, and its exit status is this command's.

    \b
    metatensor run --device meta train.py --layers 12
    metatensor run -m package.module
    """
    if device is not None:
        try:
            mt.set_default_device(device)
        except RuntimeError as error:
            raise click.BadParameter(str(error), param_hint="--device") from None
    if not as_module and not os.path.isfile(script):
        raise click.BadParameter(f"there is no file {script!r}", param_hint="SCRIPT")
    torch_api.install()
    sys.argv = [script, *arguments]
    if as_module:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(script, run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
        runpy.run_path(script, run_name="__main__")
