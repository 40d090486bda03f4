"""Kernels of the frequencies of Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from metatensor.devices.array_kit.registry import kernel


def _scale(n: int, d: float) -> Any:
    """1 / (n * d), infinite where that is 0."""
    return 1.0 / np.float64(n * d)


@kernel("fft.fftfreq")
def fftfreq(kit: Any, out: Any, n: int, d: float, *_: Any) -> Any:
    i = kit.xp.arange(n)
    return kit.xp.where(i < (n + 1) // 2, i, i - n) * _scale(n, d)


@kernel("fft.rfftfreq")
def rfftfreq(kit: Any, out: Any, n: int, d: float, *_: Any) -> Any:
    return kit.xp.arange(out.size) * _scale(n, d)
