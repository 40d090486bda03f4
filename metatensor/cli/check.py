"""``metatensor check``."""

from __future__ import annotations

import json
from typing import Any

import click
from rich.text import Text

import metatensor as mt
from metatensor._core.units import bytes_text, seconds_text
from metatensor.analysis import baseline as stored_figures
from metatensor.analysis.check import Budgets, CheckResult, run_check
from metatensor.analysis.estimate import at_inference
from metatensor.analysis.sized import check_at
from metatensor.checkpoint.errors import printable
from metatensor.cli.annotations import MOST, annotate, annotations_option, wanted
from metatensor.cli.cases import Case, cases_of, hulls_of, named_inputs, sizes_options
from metatensor.cli.contents import printable_lines
from metatensor.cli.request import Request, model_options
from metatensor.cli.sizes import Size, parse_bytes, parse_count, parse_seconds, parse_share
from metatensor.cli.terminal import Terminal, output_on_stderr
from metatensor.cli.training_options import device_of, step_options, training_options
from metatensor.program.sizes.program import SizedProgram

__all__ = ["command"]

FEW = 32
"""Up to this many sets of inputs, the model runs with each. For more, its program with named sizes is evaluated if it has one."""
LISTED = 40
"""Greatest number of sets of inputs that are listed one by one."""


@click.command("check")
@model_options
@sizes_options
@click.option("--max-params", type=Size(parse_count), metavar="N", help="Maximum number of parameters (125M, 8B).")
@click.option(
    "--max-bytes", "--max-memory", "max_bytes", type=Size(parse_bytes), metavar="SIZE",
    help="Maximum memory of a forward or a training step: parameters, buffers, inputs, and created tensors, at the peak (10GB, 512MiB).",
)  # fmt: skip
@click.option("--max-flops", type=Size(lambda text: parse_count(text, "flops")), metavar="N",
              help="Maximum FLOPs of a forward or a training step (4.1G, 1e12).")
@click.option("--device", metavar="PROFILE", help="A device profile, such as h100-80gb, or a file of one. Its memory is a budget too.")
@click.option("--max-step-time", type=Size(parse_seconds), metavar="TIME",
              help="With --device: maximum predicted time of a forward or a training step (200ms).")
@training_options
@click.option("--baseline", type=click.Path(dir_okay=False), metavar="FILE", help="Fail if a figure is greater than in this file.")
@click.option("--write-baseline", type=click.Path(dir_okay=False), metavar="FILE", help="Write the figures to this file.")
@click.option("--tolerance", type=Size(parse_share), metavar="SHARE", help="With --baseline: by how much a figure may grow (2%) "
              "[default: 0].")  # fmt: skip
@annotations_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    request: Request, where: tuple[str, ...], cases: tuple[str, ...], max_params: int | None, max_bytes: int | None,
    max_flops: int | None, device: str | None, max_step_time: float | None, train: bool, baseline: str | None,
    write_baseline: str | None, tolerance: float | None, annotations: str | None, as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Check that FILE.py:NAME can be built and run on meta, and that it is within all budgets.

    The exit status is 0 on success and 1 on failure. A failure is reported with the error, the path of the module that
    failed, its inputs, and the line of code. No accelerator and no weights are needed, and most models take
    milliseconds.

    \b
    metatensor check model.py:Net --input "float32[1,3,224,224]" --max-params 30M --max-flops 10G
    metatensor check model.py:Net -i "float32[batch,3,h,h]" --where "batch in 1,8; h in 224..512 step 32"
    metatensor check model.py:Net -i "float32[8,3,224,224]" --train --device h100-80gb --max-step-time 200ms
    """
    if max_step_time is not None and device is None:
        raise click.UsageError("--max-step-time needs --device")
    if tolerance is not None and baseline is None:
        raise click.UsageError("--tolerance needs --baseline")
    profile = device_of(device)
    sets = cases_of(request.texts, cases, where)
    about = {"target": request.target, "args": [repr(value) for value in request.make_args],
             "kwargs": {name: repr(value) for name, value in request.make_kwargs.items()},
             "dtype": None if request.dtype is None else str(request.dtype), "device": None if profile is None else profile.name,
             "train": train, **{name: value for name, value in options.items() if value}}  # fmt: skip
    training = step_options(train, options, request.torch)
    try:
        stored = None if baseline is None else stored_figures.read_baseline(baseline, about)
    except stored_figures.BaselineError as error:
        raise click.BadParameter(printable(str(error)), param_hint="--baseline") from None

    budgets = Budgets(max_params, max_bytes, max_flops, max_step_time)
    model = request.made()
    results: list[CheckResult] = []
    less: list[str] = []
    many = len(sets) > FEW and not cases and not train and profile is None and not isinstance(model, CheckResult)
    program = _program(request, model, where, sets) if many else None
    for case in sets:
        if isinstance(model, CheckResult):  # it could not be built
            results.append(model)
            break
        result = None if program is None else check_at(program, model, case.args, case.kwargs, budgets)
        if result is None:
            result = request.check(model, case.args, case.kwargs, budgets, profile, training)
        if stored is not None:
            less += [f"{case.name}: {text}" for text in stored_figures.compare(result, stored.get(case.name), tolerance or 0.0)]
        results.append(_lighter(result) if len(sets) > 1 else result)
    if as_json:
        click.echo(json.dumps(_as_json(sets, results, len(sets) == 1), indent=2))
    elif len(sets) == 1 or isinstance(model, CheckResult):
        _print(results[0])
    else:
        _print_all(request.target, sets, results)
    if not as_json and less:
        Terminal(soft_wrap=True).print(Text(printable_lines("\n".join(less[:MOST]))))
    if wanted(annotations):
        failed = [(case, result) for case, result in zip(sets, results, strict=False) if not result.ok]
        for case, result in failed[:MOST]:
            annotate(request.target, case.name if len(sets) > 1 else "", result)
    if write_baseline is not None:
        _write(write_baseline, about, sets, results)
    raise SystemExit(0 if all(result.ok for result in results) else 1)


def _program(request: Request, model: Any, where: tuple[str, ...], sets: list[Case]) -> Any:
    """Return the program of a model with named sizes, or None if it has none that gives the figures of the first and the last set."""
    sizes = hulls_of(where)[1]
    args, kwargs, dims = named_inputs(request.texts, sizes)
    try:
        with output_on_stderr(), at_inference(model, tuple(args), kwargs):
            program = mt.program.trace(model, *args, **kwargs, sizes=sizes, dims=dims)
    except (Exception, SystemExit):  # the runs report errors of the model
        return None
    assert isinstance(program, SizedProgram)
    for case in (sets[0], sets[-1]):
        known = check_at(program, model, case.args, case.kwargs)
        if known is not None and known.figures() != run_check(model, case.args, case.kwargs).figures():
            return None
    return program


def _lighter(result: CheckResult) -> CheckResult:
    """Return a result without the figures of single modules, which would take much memory for many sets of inputs."""
    for report in (result.report, result.training):
        if report is not None:
            del report.modules[1:]
    if result.time is not None:
        result.time.by_module.clear()
    return result


def _write(path: str, about: dict[str, Any], sets: list[Case], results: list[CheckResult]) -> None:
    if any(result.error is not None for result in results):
        click.echo(f"{path} is not written, because the model does not run", err=True)
        return
    try:
        stored_figures.write_baseline(path, about, {case.name: result for case, result in zip(sets, results, strict=True)})
    except OSError as error:
        raise click.BadParameter(f"{path!r} cannot be written: {error.strerror}", param_hint="--write-baseline") from None


def _as_json(sets: list[Case], results: list[CheckResult], single: bool) -> dict[str, Any]:
    if single:
        return results[0].to_dict()
    failures = [i for i, result in enumerate(results) if not result.ok]
    rows = [{"inputs": case.name, "sizes": case.sizes, **result.to_dict()} for case, result in zip(sets, results, strict=False)]
    first = failures[0] if failures else None
    return {"ok": not failures, "sets": len(sets), "failed": len(failures), "first_failure": first, "results": rows}


def _print(result: CheckResult) -> None:
    head, newline, rest = printable_lines(str(result)).partition("\n")
    Terminal(soft_wrap=True).print(Text(head, style="green" if result.ok else "bold red") + newline + rest)


def _print_all(target: str, sets: list[Case], results: list[CheckResult]) -> None:
    """Print a line for each set of inputs, and the whole report of the first that failed."""
    failed = [i for i, result in enumerate(results) if not result.ok]
    passed = f"{len(results) - len(failed)} of {len(results)} sets of inputs pass"
    terminal = Terminal(soft_wrap=True)
    terminal.print(Text(printable(f"{target}: {passed}"), style="bold red" if failed else "green"))
    shown = range(len(results)) if len(results) <= LISTED else _greatest(results)
    if len(shown) < len(results):
        terminal.print("the greatest in memory and time:")
    for i in shown:
        terminal.print(Text(printable(f"  {_state(results[i]):<12} {sets[i].name}{_figures(results[i])}")))
    if failed:
        terminal.print(Text(printable(f"the first that fails: {sets[failed[0]].name}")))
        _print(results[failed[0]])


def _greatest(results: list[CheckResult]) -> list[int]:
    found = []
    for name in ("bytes", "seconds"):
        known = [(value, i) for i, result in enumerate(results) if (value := result.figures().get(name)) is not None]
        found += [max(known)[1]] if known else []
    return list(dict.fromkeys(found))


def _state(result: CheckResult) -> str:
    return "ok" if result.ok else "failed" if result.error is not None else "over budget" if result.overruns else "unknown"


def _figures(result: CheckResult) -> str:
    figures = result.figures()
    if not figures:
        return ""
    text = f": {bytes_text(int(figures['bytes'] or 0))}"
    if "seconds" in figures:
        text += ", an unknown time" if figures["seconds"] is None else f", {seconds_text(figures['seconds'])}"
    return text
