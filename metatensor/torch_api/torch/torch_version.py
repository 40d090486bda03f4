"""The version of PyTorch whose interface metatensor provides."""

from __future__ import annotations

from typing import Any

__all__ = ["TORCH_VERSION", "TorchVersion"]


def _key(version: str) -> tuple:
    """Return the sort key of a version: four release numbers, and -1 for a pre-release or 0 for a release."""
    release, _, _ = version.partition("+")
    numbers: list[int] = []
    for part in release.split("."):
        digits = "".join(c for c in part if c.isdigit()) if part[:1].isdigit() else ""
        if digits == part:
            numbers.append(int(part))
            continue
        head = 0
        while head < len(part) and part[head].isdigit():
            head += 1
        if head:
            numbers.append(int(part[:head]))
        return (*_stripped(numbers), -1)
    return (*_stripped(numbers), 0)


def _stripped(numbers: list[int]) -> list[int]:
    """Return exactly four numbers, so that 2.13 equals 2.13.0."""
    return (numbers + [0] * 4)[:4]


class TorchVersion(str):
    """A str that compares as a version with strings, version objects and sequences of numbers."""

    __slots__ = ()

    def _compared(self, other: Any) -> tuple[tuple, tuple] | None:
        if isinstance(other, str):
            return _key(self), _key(other)
        if isinstance(other, (tuple, list)):
            return _key(self), _key(".".join(map(str, other)))
        if hasattr(other, "public"):  # packaging.version.Version
            return _key(self), _key(str(other))
        return None

    def __lt__(self, other: Any) -> bool:
        keys = self._compared(other)
        return NotImplemented if keys is None else keys[0] < keys[1]

    def __le__(self, other: Any) -> bool:
        keys = self._compared(other)
        return NotImplemented if keys is None else keys[0] <= keys[1]

    def __gt__(self, other: Any) -> bool:
        keys = self._compared(other)
        return NotImplemented if keys is None else keys[0] > keys[1]

    def __ge__(self, other: Any) -> bool:
        keys = self._compared(other)
        return NotImplemented if keys is None else keys[0] >= keys[1]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str) and str.__eq__(self, other):
            return True
        keys = self._compared(other)
        return keys is not None and keys[0] == keys[1]

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


TORCH_VERSION = TorchVersion("2.13.0+metatensor")
