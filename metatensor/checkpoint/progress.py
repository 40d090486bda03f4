"""Report the progress of reading or writing: bytes, rate and time left, with rich if installed, else as plain text."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from metatensor.checkpoint.errors import printable

__all__ = ["Progress", "progress_for"]

PATIENCE = 0.5
"""Delay in seconds before progress is shown, if the caller did not request it."""
INTERVAL = 0.1
LINE_INTERVAL = 10.0


class Progress:
    """Count bytes without showing anything."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self.name = ""

    def start(self, name: str) -> None:
        """Begin the tensor ``name``."""
        self.name = name

    def advance(self, count: int) -> None:
        """Count ``count`` more bytes."""
        self.done += count

    def close(self) -> None:
        """End the display, whether or not all bytes were processed."""


class Calling(Progress):
    """Call a function with the bytes done, the total and the tensor's name."""

    def __init__(self, total: int, function: Callable[[int, int, str], None]) -> None:
        super().__init__(total)
        self.function = function

    def advance(self, count: int) -> None:
        self.done += count
        self.function(self.done, self.total, self.name)


class Plain(Progress):
    """Redraw one line on stderr."""

    def __init__(self, total: int, patience: float) -> None:
        super().__init__(total)
        self.begin = time.monotonic()
        self.next = self.begin + patience
        self.width = 0

    def advance(self, count: int) -> None:
        self.done += count
        now = time.monotonic()
        if now >= self.next or (self.width and self.done >= self.total):
            self.next = now + INTERVAL
            self.show(now - self.begin)

    def show(self, seconds: float) -> None:
        text = self.text(seconds)
        sys.stderr.write("\r" + text.ljust(self.width))
        sys.stderr.flush()
        self.width = len(text)

    def text(self, seconds: float) -> str:
        """Return the line to show after ``seconds``."""
        from metatensor._core.units import bytes_text

        rate = self.done / max(seconds, 1e-9)
        left = (self.total - self.done) / rate if rate else 0
        share = self.done / self.total if self.total else 1
        return f"{share:4.0%}  {bytes_text(self.done)} of {bytes_text(self.total)}  {bytes_text(int(rate))}/s  {left:.0f} s left"

    def close(self) -> None:
        if self.width:
            sys.stderr.write("\n")


class Lines(Plain):
    """Write a line every few seconds and at the end. For logs, where a line cannot be redrawn."""

    def advance(self, count: int) -> None:
        self.done += count
        now = time.monotonic()
        if now >= self.next or self.done >= self.total > self.done - count:
            self.next = now + LINE_INTERVAL
            sys.stderr.write(self.text(now - self.begin) + "\n")
            sys.stderr.flush()


class Rich(Plain):
    """Draw a progress bar with rich."""

    def __init__(self, total: int, patience: float) -> None:
        super().__init__(total, patience)
        self.bar: Any = None
        self.task: Any = None

    def show(self, seconds: float) -> None:
        if self.bar is None:
            from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
            from rich.progress import Progress as Bar

            columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
            self.bar = Bar(*columns, console=_stderr(), transient=True)
            self.bar.start()
            self.task = self.bar.add_task("", total=self.total)
            self.width = 1
        from rich.markup import escape

        self.bar.update(self.task, completed=self.done, description=escape(printable(self.name[-40:])))

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()


def _stderr() -> Any:
    from rich.console import Console

    return Console(stderr=True)


@contextmanager
def progress_for(wanted: Any, total: int) -> Iterator[Progress]:
    """Yield a progress display. ``wanted`` is True, False, a callable, or None to show it on a terminal after a delay.
    """
    shown: Progress
    if callable(wanted):
        shown = Calling(total, wanted)
    elif wanted is False or sys.stderr is None or (wanted is None and not sys.stderr.isatty()):
        shown = Progress(total)
    elif not sys.stderr.isatty():
        shown = Lines(total, LINE_INTERVAL)
    else:
        try:
            import rich

            del rich
            shown = Rich(total, 0.0 if wanted else PATIENCE)
        except ModuleNotFoundError:
            shown = Plain(total, 0.0 if wanted else PATIENCE)
    try:
        yield shown
    finally:
        shown.close()
