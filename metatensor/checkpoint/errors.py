"""`CheckpointError`, and a function that escapes text from files so that it can be printed safely."""

from __future__ import annotations

__all__ = ["CheckpointError", "printable"]


def printable(text: str) -> str:
    """Return ``text`` with every character that is not printable replaced by an escape sequence."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


class CheckpointError(ValueError):
    """Raised for a checkpoint that is damaged, malicious or in an unknown format.

    Parameters
    ----------
    file : str
        Name of the file.
    reason : str
        What is wrong with it.
    """

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(file, reason)
        self.file = file
        self.reason = reason

    def __str__(self) -> str:
        return printable(f"{self.file}: {self.reason}")
