"""The error for checkpoints that are not in order, and text of files made fit for a terminal."""

from __future__ import annotations

__all__ = ["CheckpointError", "printable"]


def printable(text: str) -> str:
    """Return ``text`` with escapes in place of characters that would move a terminal's cursor, or that are not characters."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


class CheckpointError(ValueError):
    """A checkpoint that cannot be trusted or understood: ``file`` is its name, ``reason`` what is wrong with it."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(file, reason)
        self.file = file
        self.reason = reason

    def __str__(self) -> str:
        return printable(f"{self.file}: {self.reason}")
