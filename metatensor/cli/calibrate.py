"""``metatensor calibrate``."""

from __future__ import annotations

import os
import sys
from typing import Any

import click
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from metatensor.checkpoint.errors import printable
from metatensor.cli.terminal import Terminal

__all__ = ["command"]


@click.command("calibrate")
@click.option("--device", default="cpu", show_default=True, metavar="DEVICE", help="The device to measure.")
@click.option("--output", "-o", type=click.Path(dir_okay=False), metavar="FILE.toml", help="The profile to write [default: print it].")
@click.option("--quick", is_flag=True, help="Measure half as many sizes, in about ten seconds.")
@click.option("--threads", type=click.IntRange(min=1), help="Threads of matrix products [default: from the environment].")
def command(device: str, output: str | None, quick: bool, threads: int | None) -> None:
    """Measure a device, and write a profile with which `estimate --device FILE.toml` predicts times.

    It takes at most two minutes. Close other programs: figures of a busy machine are less accurate.

    \b
    metatensor calibrate --device cpu --output this-machine.toml
    metatensor estimate model.py:Net -i "float32[8,128]" --train --device this-machine.toml
    """
    if threads is not None and os.environ.get("OPENBLAS_NUM_THREADS") != str(threads):
        # Array libraries read the number of threads when they are loaded.
        names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
        os.environ.update({name: str(threads) for name in names})
        if "numpy" in sys.modules:
            arguments = ["--device", device, *(("--output", output) if output else ()), *(("--quick",) if quick else ()),
                "--threads", str(threads)]
            os.execv(sys.executable, [sys.executable, "-m", "metatensor", "calibrate", *arguments])
    from metatensor.analysis.calibration import calibrate, calibration_text

    bar = Progress(TextColumn("measuring"), BarColumn(), TimeRemainingColumn(), console=Terminal(stderr=True), transient=True,
                   disable=not sys.stderr.isatty())  # fmt: skip
    try:
        with bar:
            task = bar.add_task("", total=1.0)

            def progress(part: float) -> None:
                bar.update(task, completed=part)

            made: Any = (calibrate(device, output, quick=quick, progress=progress) if output
                         else calibration_text(device, quick=quick, progress=progress))  # fmt: skip
    except (ValueError, RuntimeError) as error:
        raise click.ClickException(printable(str(error))) from error
    except OSError as error:
        raise click.ClickException(f"{printable(str(output))}: {error.strerror}") from error
    click.echo(f"{printable(made.path)}: {len(made.operators)} operators" if output else made)
