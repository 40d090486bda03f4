"""``metatensor estimate --sweep dtype``: a table over precisions."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any

import click

import metatensor as mt
from metatensor._core.nested import map_tensors
from metatensor._core.units import bytes_text, count_text, seconds_text
from metatensor.analysis.precision import PRECISIONS
from metatensor.cli.contents import printable_lines
from metatensor.cli.request import Request

__all__ = ["sweep_inference", "sweep_training"]

DTYPES = ("float32", "bfloat16", "float16")
Columns = dict[str, str]


def sweep_training(request: Request, options: dict[str, Any], as_json: bool) -> None:
    """Print a table of a training step in each precision. `options` are those of `estimate_training` without a precision."""
    _print((_one(name, request.train({**options, "precision": name}), _training) for name in PRECISIONS), as_json)


def sweep_inference(request: Request, profile: Any, convention: str, as_json: bool) -> None:
    """Print a table of a forward pass with parameters and inputs in each dtype."""

    def results() -> Iterator[dict[str, Any]]:
        for name in DTYPES:
            dtype = getattr(mt, name)
            inputs, named = map_tensors(functools.partial(_as, dtype), (request.inputs, request.named_inputs))
            own = request._replace(dtype=dtype, inputs=list(inputs), named_inputs=named)
            result = own.run(device=profile, convention=convention)
            found = _one(name, result, _inference)
            if result.time is not None and "error" not in found:
                found["columns"]["time"], found["report"]["time"] = _seconds(result.time.seconds), result.time.to_dict()
            yield found

    _print(results(), as_json)


def _as(dtype: Any, t: Any) -> Any:
    return t.to(dtype) if t.is_floating_point() else t


def _one(name: str, result: Any, columns: Any) -> dict[str, Any]:
    if result.report is None:
        return {"precision": name, "error": str(result)}
    return {"precision": name, "report": result.report.to_dict(), "columns": columns(result.report)}


def _training(report: Any) -> Columns:
    sizes = {"parameters": report.parameter_bytes, "gradients": report.gradient_bytes, "optimizer": report.optimizer_bytes,
             "saved": report.saved_bytes, "total": report.total_bytes}  # fmt: skip
    found = {name: bytes_text(size) for name, size in sizes.items()}
    return found if report.time is None else {**found, "time": _seconds(report.time.seconds)}


def _seconds(value: float | None) -> str:
    return "unknown" if value is None else seconds_text(value)


def _inference(report: Any) -> Columns:
    return {"parameters": bytes_text(report.parameter_bytes), "activations": bytes_text(report.peak.bytes),
            "total": bytes_text(report.total_bytes), "FLOPs": count_text(report.flops)}  # fmt: skip


def _print(results: Iterator[dict[str, Any]], as_json: bool) -> None:
    """Print all results. The exit status is 1 if none could be computed."""
    found = list(results)
    works = [each for each in found if "error" not in each]
    if as_json:
        rows = [{key: value for key, value in each.items() if key != "columns"} for each in found]
        click.echo(json.dumps({"sweep": "dtype", "results": rows}, indent=2))
    elif works:
        click.echo("\n".join(_table(works)))
    for each in found:
        if "error" in each:
            click.echo(printable_lines(f"{each['precision']}: {each['error']}"), err=True)
    if not works:
        raise SystemExit(1)


def _table(works: list[dict[str, Any]]) -> Iterator[str]:
    heads = list(works[0]["columns"])
    width = max(len("precision"), *(len(each["precision"]) for each in works)) + 2
    yield f"{'precision':<{width}}" + "".join(f"{head:>12}" for head in heads)
    for each in works:
        yield f"{each['precision']:<{width}}" + "".join(f"{each['columns'][head]:>12}" for head in heads)
    report = works[0]["report"]
    yield ""
    yield f"not included: {', '.join(report['excluded'])}"
    for band in report["error_bands"]:
        yield _band(band)
    time = report.get("time")
    if time is not None:
        yield "predicted times of this kind have not been compared with measured ones" if time["band"] is None else _band(time["band"])


def _band(fields: dict[str, Any]) -> str:
    from metatensor.analysis.accuracy import Band

    return str(Band(**fields))
