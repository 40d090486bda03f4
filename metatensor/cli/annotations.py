"""Workflow commands of GitHub Actions, which mark lines of files in pull requests.

Their form: https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands.
"""

from __future__ import annotations

import inspect
import os
import sys
from typing import Any

import click

from metatensor.analysis.check import CheckResult
from metatensor.cli.target import load_target

__all__ = ["MOST", "annotate", "annotations_option", "wanted"]

MOST = 10
"""GitHub shows at most ten annotations of each kind for a step."""


def annotations_option(command: Any) -> Any:
    """Add ``--annotations`` to a command."""
    return click.option(
        "--annotations", type=click.Choice(["github", "none"]),
        help="Mark failures in pull requests on GitHub [default: github inside GitHub Actions, else none].",
    )(command)  # fmt: skip


def wanted(choice: str | None) -> bool:
    """Return whether to write annotations: as the option says, or by default inside GitHub Actions."""
    return choice == "github" or (choice is None and os.environ.get("GITHUB_ACTIONS") == "true")


def annotate(target: str, case: str, result: CheckResult) -> None:
    """Write an annotation for a failed check to stderr, which the runner reads as it does stdout."""
    file, line = _place(target, result)
    if result.error is not None:
        title = f"{target} fails"
        message = "\n".join(f"{name}: {text}" for name, text in result.lines())
    else:
        title = f"{target} is over budget" if result.overruns else f"{target} cannot be checked"
        message = "\n".join(map(str, (*result.overruns, *result.problems)))
    if case:
        message = f"inputs: {case}\n{message}"
    properties = {"file": file, "line": line, "title": title}
    given = ",".join(f"{key}={_escaped(str(value), ':,')}" for key, value in properties.items() if value is not None)
    print(f"::error {given}::{_escaped(message)}", file=sys.stderr, flush=True)


def _escaped(text: str, more: str = "") -> str:
    for character in f"%\r\n{more}":
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def _place(target: str, result: CheckResult) -> tuple[str | None, int | None]:
    """Return the file and line of the error, else those of the model."""
    file, line = None, None
    if result.location is not None:
        file, _, number = result.location.rpartition(":")
        line = int(number) if number.isdecimal() else None
    else:
        try:
            found = load_target(target)
            found = found if inspect.isclass(found) or inspect.isroutine(found) else type(found)
            file, line = inspect.getsourcefile(found), inspect.getsourcelines(found)[1]
        except Exception:  # the source of the model is unknown
            return None, None
    root = os.environ.get("GITHUB_WORKSPACE") or os.getcwd()
    if file is not None and os.path.isabs(file):
        file = os.path.relpath(os.path.realpath(file), os.path.realpath(root))
        if file.startswith(os.pardir):
            return None, None
    return file, line
