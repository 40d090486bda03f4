"""Descriptions of devices in other processes."""

from __future__ import annotations

from typing import Any

import metatensor as mt

__all__ = ["_remote_device"]


class _remote_device:
    """A device and its owner: ``"rank:0/cuda:0"``, ``"worker/cpu"`` or ``"cpu"``. Other forms raise ValueError."""

    def __init__(self, remote_device: Any) -> None:
        self._rank: int | None = None
        self._worker: str | None = None
        parts = str(remote_device).split("/")
        if len(parts) > 2 or not all(parts):
            raise ValueError(f"_remote_device: cannot read {remote_device!r}")
        if len(parts) == 1:
            parts = [parts[0], "cpu"] if _is_owner(parts[0]) else ["", parts[0]]
        owner, place = parts
        if owner.startswith("rank:"):
            if not owner[5:].isdigit():
                raise ValueError(f"_remote_device: cannot read {remote_device!r}")
            self._rank = int(owner[5:])
        elif owner:
            self._worker = owner
        self._device = mt.device(place)

    def worker_name(self) -> str | None:
        """Return the name of the process, or None."""
        return self._worker

    def rank(self) -> int | None:
        """Return the rank of the process, or None."""
        return self._rank

    def device(self) -> Any:
        """Return the device."""
        return self._device

    def __repr__(self) -> str:
        owner = self._worker if self._rank is None else f"rank:{self._rank}"
        return f"{owner}/{self._device}" if owner else str(self._device)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _remote_device) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


def _is_owner(text: str) -> bool:
    """Return True if a text without a slash names a process rather than a device."""
    if text.startswith("rank:"):
        return True
    try:
        mt.device(text)
    except (RuntimeError, ValueError):
        return True
    return False
