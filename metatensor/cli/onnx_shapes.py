"""``metatensor inspect --shapes``: dtypes and shapes of the values of an ONNX model."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import click

from metatensor.checkpoint.errors import printable

__all__ = ["print_shapes"]


def print_shapes(path: str, sizes: tuple[str, ...], as_json: bool) -> None:
    """Print every value of a model with its dtype and shape, or why these are unknown."""
    from metatensor.checkpoint import CheckpointError
    from metatensor.program.onnx import OnnxModel

    given = dict(_parsed(one) for one in sizes)
    try:
        model = OnnxModel(path, device="meta")
        unknown = set(given) - model.size_names()
        if unknown:
            known = ", ".join(sorted(model.size_names())) or "none"
            raise click.UsageError(printable(f"--size {sorted(unknown)[0]}: the model has no such size; it has {known}"))
        rows = model.shapes(sizes=given)
    except (CheckpointError, ImportError, ValueError, TypeError, NotImplementedError) as error:
        raise click.ClickException(printable(str(error))) from None
    except OSError as error:
        raise click.ClickException(printable(f"{path}: {error.strerror or error}")) from None
    if as_json:
        click.echo(json.dumps({"file": path, "values": [_as_dict(row) for row in rows]}, indent=2))
        return
    for row in rows:
        click.echo(printable(str(row)))
    reasons = Counter(row.reason for row in rows if row.reason is not None)
    missing = f"; {sum(reasons.values())} not known" if reasons else ""
    click.echo(f"{len(rows)} values{missing}")


def _as_dict(row: Any) -> dict[str, Any]:
    found = {"name": row.name, "type": row.kind, "shape": None if row.shape is None else list(row.shape)}
    return found if row.reason is None else {**found, "reason": row.reason}


def _parsed(one: str) -> tuple[str, int]:
    name, _, number = one.rpartition("=")
    if not name or not number.isdecimal() or len(number) > 18:
        raise click.UsageError(printable(f"--size {one}: expected NAME=NUMBER"))
    return name, int(number)
