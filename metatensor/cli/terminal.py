"""Output of the commands."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

from rich.console import Console

__all__ = ["Terminal", "output_on_stderr"]

NARROWEST = 80
"""Minimum width of tables. A narrower terminal wraps their lines."""


class Terminal(Console):
    """A console without highlighting. Files and pipes have at least ``wide`` columns, terminals `NARROWEST`.

    If the reader of a pipe has closed it, printing raises BrokenPipeError.
    """

    def __init__(self, wide: int = 140, stderr: bool = False, soft_wrap: bool = False) -> None:
        super().__init__(highlight=False, stderr=stderr, soft_wrap=soft_wrap)
        columns: int = super().width
        self.width = max(columns, NARROWEST if self.is_terminal else wide)

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError."""
        raise BrokenPipeError


@contextlib.contextmanager
def output_on_stderr() -> Iterator[None]:
    """Redirect stdout to stderr inside a ``with`` block, so that stdout has only the command's output."""
    if sys.stdout is not sys.__stdout__ or sys.stdout is None:  # a caller in this process has replaced stdout
        with contextlib.redirect_stdout(sys.stderr):
            yield
        return
    try:
        kept = os.dup(1)
    except OSError:  # stdout is closed
        yield
        return
    sys.stdout.flush()
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
