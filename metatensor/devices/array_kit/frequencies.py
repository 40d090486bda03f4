"""Kernels of the sample frequencies of Fourier transforms."""

from __future__ import annotations

import math
from typing import Any

from metatensor.devices.array_kit.registry import kernel


def _scale(n: int, d: float) -> float:
    """Return 1 / (n * d), or infinity if n * d is 0."""
    return 1.0 / (n * d) if n * d else math.inf


@kernel("fft.fftfreq")
def fftfreq(kit: Any, out: Any, n: int, d: float, *_: Any) -> Any:
    i = kit.xp.arange(n)
    return kit.xp.where(i < (n + 1) // 2, i, i - n) * _scale(n, d)


@kernel("fft.rfftfreq")
def rfftfreq(kit: Any, out: Any, n: int, d: float, *_: Any) -> Any:
    return kit.xp.arange(out.size) * _scale(n, d)
