"""The members of a zip archive, for reading one tensor at a time."""

from __future__ import annotations

from typing import Any

from metatensor.checkpoint._zip import Directory

__all__ = ["Members"]


class Members:
    """Reads the members of an archive.

    The last decompressed one is cached, because tensors of one storage usually follow each other.
    """

    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        self.reader: Any = None
        """The format whose reader handles the archive."""
        self._last: tuple[str, bytes] = "", b""

    def content(self, member: str) -> bytes:
        """Return the content of a member."""
        if self._last[0] != member:
            self._last = "", b""
            self._last = member, self.directory.read(member)
        return self._last[1]
