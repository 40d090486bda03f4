"""`CheckpointException`."""

from __future__ import annotations

from typing import Any

__all__ = ["CheckpointException"]


class CheckpointException(Exception):
    """Raised on all ranks if any of them fails to save or load.

    Parameters
    ----------
    msg : str
        What was being done.
    failures : dict of int to exception
        The exceptions by rank.
    """

    def __init__(self, msg: str, failures: dict[int, Any]) -> None:
        super().__init__(msg, failures)
        self._failures = failures

    @property
    def failures(self) -> dict[int, Any]:
        """The exceptions by rank."""
        return self._failures

    def __str__(self) -> str:
        lines = [f"{self.args[0]} failed on {'rank' if len(self._failures) == 1 else 'ranks'} {', '.join(map(str, self._failures))}"]
        lines += [f"  rank {rank}: {type(error).__name__}: {error}" for rank, error in self._failures.items()]
        return "\n".join(lines)
