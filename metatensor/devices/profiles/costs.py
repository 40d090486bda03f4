"""What an operator costs on a device, as measured: seconds as a function of bytes and floating-point operations."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, NamedTuple

__all__ = ["OperatorCost"]


class OperatorCost(NamedTuple):
    """Seconds of an operator: a function of the bytes that it moves, and its operations over a rate.

    The function of the bytes is the line ``overhead + bytes / bandwidth``. If there are points, it interpolates between them linearly
    instead. It is constant below the first point, and has the slope of the last segment above the last point.
    """

    overhead: float = 0.0
    """Seconds of a call that moves nothing."""
    bandwidth: float | None = None
    """Bytes per second, None where bytes cost nothing beyond the operations."""
    rate: float | None = None
    """Operations per second in the dtype of the table, None where operations cost nothing beyond the bytes."""
    repeated: float | None = None
    """Bytes per second of what is gathered or read again: patches of a convolution, weights of a recurrence at each step."""
    bytes: tuple[float, ...] = ()
    """Measured numbers of bytes, increasing."""
    seconds: tuple[float, ...] = ()
    """What they took."""

    def time(self, bytes: float, flops: float, repeated: float = 0.0, slower: float = 1.0) -> float:
        """Return the seconds of a call. ``slower`` is how much slower operations are than in the dtype of the table."""
        work = flops / self.rate * slower if self.rate else 0.0
        work += repeated / self.repeated if self.repeated else 0.0
        return work + (self._curve(bytes) if self.bytes else self.overhead + (bytes / self.bandwidth if self.bandwidth else 0.0))

    def _curve(self, bytes: float) -> float:
        x, y = self.bytes, self.seconds
        if len(x) == 1 or bytes <= x[0]:
            return y[0]
        at = min(bisect_left(x, bytes), len(x) - 1)
        slope = max(0.0, (y[at] - y[at - 1]) / (x[at] - x[at - 1]))
        return y[at - 1] + (bytes - x[at - 1]) * slope

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON types."""
        return {**self._asdict(), "bytes": list(self.bytes), "seconds": list(self.seconds)}
