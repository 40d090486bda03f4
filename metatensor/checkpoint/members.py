"""The members of a zip file that is read tensor by tensor."""

from __future__ import annotations

from typing import Any

from metatensor.checkpoint._zip import Directory

__all__ = ["Members"]


class Members:
    """The members of an archive; of what was decompressed last the content is kept, as tensors of one storage follow one another."""

    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        self.reader: Any = None
        """The format that reads the archive."""
        self._last: tuple[str, bytes] = "", b""

    def content(self, member: str) -> bytes:
        """The content of a member."""
        if self._last[0] != member:
            self._last = "", b""
            self._last = member, self.directory.read(member)
        return self._last[1]
