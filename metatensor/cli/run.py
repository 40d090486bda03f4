"""``metatensor run``."""

from __future__ import annotations

import os
from contextlib import nullcontext

import click

import metatensor as mt
from metatensor import torch_api
from metatensor.checkpoint.errors import printable
from metatensor.cli import program_run
from metatensor.cli.files import is_onnx, is_source, kind_of
from metatensor.cli.planned.costs import Costs
from metatensor.cli.planned.session import Plan
from metatensor.cli.planned.values import POLICIES
from metatensor.cli.programs import is_program
from metatensor.cli.script import run_script
from metatensor.rules.policies import policy as kernel_policy

__all__ = ["command"]


@click.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--device", metavar="DEVICE",
    help="The default device of tensors. With meta, every device that the script names is replaced, and the script runs without data.",
)  # fmt: skip
@click.option(
    "--values", "policy", type=click.Choice(POLICIES),
    help="What --device meta returns when the script reads a value: 'bound' (the default) returns the number 1, and the largest possible "
    "size where a shape depends on values; 'zero' returns what tensors of zeros would give; 'raise' raises an error.",
)  # fmt: skip
@click.option("--profile", "profiled", is_flag=True, help="With --device meta: report what the script's training steps cost.")
@click.option(
    "--steps", type=click.IntRange(min=1), metavar="N",
    help="With --profile: end the script after N training steps (calls of optimizer.step).",
)  # fmt: skip
@click.option(
    "--device-profile", "target", metavar="PROFILE",
    help="With --profile: a device profile, such as h100-80gb, or a file of one: predict the time of a step there.",
)  # fmt: skip
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False), metavar="FILE", help="With --profile: write the report to FILE as JSON."
)
@click.option("-m", "as_module", is_flag=True, help="SCRIPT is the name of a module, as for python -m.")
@click.argument("script", metavar="SCRIPT")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS]...")
def command(
    device: str | None, policy: str | None, profiled: bool, steps: int | None, target: str | None, json_file: str | None, as_module: bool,
    script: str, arguments: tuple[str, ...],
) -> None:
    """Run SCRIPT: a Python script written for PyTorch, a program (.mtp, .pt2) or an ONNX model (.onnx).

    A script runs with metatensor in place of PyTorch. ARGUMENTS are passed to it, and the exit status is that of the script.
    A program or an ONNX model is run once, and its outputs are printed. Its options come after its name:
    `metatensor run model.mtp --help` lists them.

    With --device meta a training loop for a GPU runs to its end without data, memory or a GPU. Every device that the
    script names ("cuda", "cuda:0", "mps", "cpu") is replaced by meta, and one imitated GPU is available. At the end, a
    summary on stderr lists the lines that read values and the work that was left out. With --profile it is followed by a
    report of the memory and the FLOPs of a training step.

    \b
    metatensor run --device meta train.py --layers 12
    metatensor run --device meta --profile --steps 3 --device-profile h100-80gb train.py
    metatensor run --device cpu train.py
    metatensor run -m package.module
    metatensor run model.mtp -i "float32[8,512]" --device cpu
    metatensor run model.onnx -i "float32[1,3,224,224]" --device cpu
    """
    if not as_module and (is_program(script) or is_onnx(script)):
        for name, value in (("--values", policy), ("--profile", profiled), ("--steps", steps), ("--device-profile", target),
                            ("--json FILE", json_file)):  # fmt: skip
            if value:
                kind = kind_of(script)
                raise click.UsageError(printable(f"{script} is {kind}; {name} is for scripts, put its own options after its name"))
        given = [*([] if device is None else ["--device", device]), *arguments]
        program_run.command.main([*given, "--", script], prog_name="metatensor run", standalone_mode=False)
        return
    planned = False
    if device is not None:
        try:
            planned = mt.device(device).type == "meta"
            mt.set_default_device(device)
        except RuntimeError as error:
            raise click.BadParameter(str(error), param_hint="--device") from None
    if policy is not None and not planned:
        raise click.UsageError("--values requires --device meta")
    for name, value in (("--profile", profiled), ("--steps", steps), ("--device-profile", target), ("--json", json_file)):
        if value and not planned:
            raise click.UsageError(f"{name} requires --device meta")
        if value and not profiled:
            raise click.UsageError(f"{name} requires --profile")
    costs = Costs.asked(script, steps, target, json_file) if profiled else None
    if not as_module and not os.path.isfile(script):
        what = f"{script} is a folder" if os.path.isdir(script) else f"there is no file {script!r}"
        raise click.BadParameter(printable(what), param_hint="SCRIPT")
    if not as_module and not is_source(script):
        raise click.BadParameter(printable(f"{script} is {kind_of(script)}; expected a Python script, a program that `metatensor trace` "
                                           "wrote, or an ONNX model"), param_hint="SCRIPT")  # fmt: skip
    torch_api.install()
    if not planned:
        raise SystemExit(run_script(script, arguments, as_module))
    plan = Plan(policy or POLICIES[0], costs)
    with nullcontext() if costs is None else kernel_policy(costs.kernels):
        plan.start()
        try:
            status = run_script(script, arguments, as_module)
        finally:
            plan.report()
    raise SystemExit(status)
