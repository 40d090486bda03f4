"""Kernels of the frequencies of Fourier transforms."""

from __future__ import annotations

import math
from typing import Any

from metatensor.devices.array_kit.registry import kernel


def _scale(n: int, d: float) -> float:
    """1 / (n * d), infinite where that is 0."""
    return 1.0 / (n * d) if n * d else math.inf


@kernel("fft.fftfreq")
def fftfreq(kit: Any, out: Any, n: int, d: float, *_: Any) -> Any:
    i = kit.xp.arange(n)
    return kit.xp.where(i < (n + 1) // 2, i, i - n) * _scale(n, d)


@kernel("fft.rfftfreq")
def rfftfreq(kit: Any, out: Any, n: int, d: float, *_: Any) -> Any:
    return kit.xp.arange(out.size) * _scale(n, d)
