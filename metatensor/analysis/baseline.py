"""Baselines: figures of a check, stored in a file and compared with later ones."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from metatensor._core.units import bytes_text, count_text, seconds_text
from metatensor._version import __version__
from metatensor.analysis.check import CheckResult, Overrun

__all__ = ["BaselineError", "compare", "read_baseline", "write_baseline"]

FORMAT = "metatensor baseline 1"
FIGURES = ("parameters", "bytes", "flops", "seconds")


class BaselineError(ValueError):
    """A file is not a baseline, or was written for another check."""


def read_baseline(path: str | os.PathLike[str], options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the figures of each case of a baseline. Raise `BaselineError` if it was written with other options.

    Parameters
    ----------
    path : str or path
        The file.
    options : mapping
        What the check depends on besides the inputs: the target, the device, options of the training step.
    """
    try:
        found = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise BaselineError(f"{os.fspath(path)!r} cannot be read: {error.strerror}; --write-baseline writes one") from None
    except (ValueError, RecursionError) as error:
        raise BaselineError(f"{os.fspath(path)!r} is not JSON: {error}") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise BaselineError(f"{os.fspath(path)!r} is not a baseline ({FORMAT!r})")
    cases, written = found.get("cases"), found.get("options")
    if not isinstance(cases, dict) or not isinstance(written, dict) or not all(map(_is_row, cases.values())):
        raise BaselineError(f"{os.fspath(path)!r} is damaged: it needs 'options' and 'cases' with numbers")
    for name in sorted({*written, *options}):
        if written.get(name) != options.get(name):
            raise BaselineError(f"{os.fspath(path)!r} was written with {name} {written.get(name)!r}, not {options.get(name)!r}")
    return cases


def _is_row(row: Any) -> bool:
    return isinstance(row, dict) and all(
        row.get(name) is None or (isinstance(row[name], (int, float)) and not isinstance(row[name], bool)) for name in FIGURES
    )


def write_baseline(path: str | os.PathLike[str], options: Mapping[str, Any], results: Mapping[str, CheckResult]) -> None:
    """Write the figures of results, by the name of their case. An existing file is replaced atomically."""
    content = {"format": FORMAT, "version": __version__, "units": {"bytes": "bytes", "flops": "FLOPs", "seconds": "s"},
               "options": dict(options), "cases": {name: result.figures() for name, result in results.items()}}  # fmt: skip
    target = Path(path)
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(json.dumps(content, indent=2) + "\n")
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)  # mkstemp allows only the owner to read
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def compare(result: CheckResult, row: Mapping[str, Any] | None, tolerance: float = 0.0) -> list[str]:
    """Record in a result which figures are greater than those of a baseline, and return texts about those that are smaller.

    Parameters
    ----------
    result : CheckResult
        The result. Figures that grew are added to its overruns, those that cannot be compared to its problems.
    row : mapping or None
        The figures of the same case in the baseline, or None if it has none.
    tolerance : float
        Allowed growth, as a fraction of the old figure. Default 0.
    """
    if result.error is not None:
        return []
    if row is None:
        result.problems.append("the baseline does not have these inputs; write it again")
        return []
    less = []
    figures = result.figures()
    for name in FIGURES:
        before, now = row.get(name), figures.get(name)
        if before is None:
            continue
        if now is None:
            result.problems.append(f"the baseline has {name}, but now they are unknown")
        elif now > before * (1 + tolerance):
            result.overruns.append(Overrun(name, before, now, "baseline" if not tolerance else f"baseline (with {tolerance:.3g} allowed)"))
        elif now < before:
            less.append(f"{_text(name, now)}, less than the baseline's {_text(name, before)}")
    return less


def _text(name: str, value: float) -> str:
    if name == "seconds":
        return seconds_text(value)
    return bytes_text(int(value)) if name == "bytes" else f"{count_text(int(value))} {name}"
