"""``metatensor estimate --where``: figures of a forward pass for named sizes."""

from __future__ import annotations

import json
from typing import Any

import click

from metatensor._core.units import bytes_text
from metatensor.analysis.check import CheckResult, run_check
from metatensor.analysis.named_sizes import combinations
from metatensor.analysis.sized import estimate_sizes
from metatensor.analysis.sizes import SizeError
from metatensor.checkpoint.errors import printable
from metatensor.cli.cases import hulls_of, inputs_of, named_inputs
from metatensor.cli.contents import printable_lines
from metatensor.cli.request import Request
from metatensor.cli.terminal import output_on_stderr
from metatensor.program.sizes.pieces import SizesError

__all__ = ["report_sizes"]

LISTED = 40
"""Greatest number of combinations that are printed."""


def report_sizes(request: Request, where: tuple[str, ...], as_json: bool) -> None:
    """Print the figures of a model as expressions of named sizes, and at each combination of their values."""
    values, ranges = hulls_of(where)
    args, kwargs, dims = named_inputs(request.texts, ranges)
    try:
        chosen = list(combinations(values))
    except SizeError as error:
        raise click.BadParameter(printable(str(error)), param_hint="--where") from None
    model = request.made()
    if isinstance(model, CheckResult):
        _fail(model)
    report: Any = None
    try:
        with output_on_stderr():
            report = estimate_sizes(model, tuple(args), kwargs, ranges, dims)
    except SizesError as error:
        click.echo(printable(f"note: {error}; the model runs at each of the sizes"), err=True)
    except (Exception, SystemExit) as error:
        if str(error).startswith("trace: "):
            raise click.BadParameter(printable(str(error).removeprefix("trace: ")), param_hint="--where") from None
        _fail(request.failure(error))
    rows = [_row(request, model, report, sizes) for sizes in (chosen if as_json else chosen[:LISTED])]
    if as_json:
        click.echo(json.dumps({**({} if report is None else report.to_dict()), "rows": rows}, indent=2))
        return
    if report is not None:
        click.echo(printable_lines(str(report)))
    for row in rows:
        sizes = ", ".join(f"{name}={n}" for name, n in row["sizes"].items())
        figures = row.get("error") or (f"{row['flops']:,} FLOPs, {bytes_text(row['peak_bytes'])} at the peak, "
                                       f"{bytes_text(row['total_bytes'])} in total")  # fmt: skip
        click.echo(printable(f"{sizes}: {figures}"))
    if len(rows) < len(chosen):
        click.echo(f"and {len(chosen) - len(rows):,} more combinations; --json lists all")


def _row(request: Request, model: Any, report: Any, sizes: dict[str, int]) -> dict[str, Any]:
    if report is not None:
        try:
            found = report.at(**sizes)
            return {"sizes": sizes, "flops": found.flops, "peak_bytes": found.peak_bytes, "total_bytes": found.total_bytes}
        except ValueError:  # no program for these sizes: the run says why
            pass
    args, kwargs = inputs_of(request.texts, sizes)
    with output_on_stderr():
        result = run_check(model, tuple(args), kwargs)
    if result.report is None:
        return {"sizes": sizes, "error": str(result.error)}
    return {"sizes": sizes, "flops": result.report.flops, "peak_bytes": result.report.peak.bytes, "total_bytes": result.report.total_bytes}


def _fail(result: CheckResult) -> None:
    click.echo(printable_lines(str(result)), err=True)
    raise SystemExit(1)
