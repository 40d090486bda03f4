"""Kernels of the window factories. The functions of `signal.windows` consist of other operators."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from metatensor.devices.array_kit.registry import kernel

# Default parameters of the Kaiser and Hamming windows.
BETA = 12.0
ALPHA, BETA_OF_HAMMING = 0.54, 0.46


def _window(name: str, *overloads: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register ``values(kit, x, *parameters)`` for a window and its overloads. ``x`` runs from 0 to 1."""
    names = [f"{name}_window", f"{name}_window.periodic", *(f"{name}_window.{overload}" for overload in overloads)]

    def register(values: Callable[..., Any]) -> Callable[..., Any]:
        for count, op in enumerate(names, start=-1):

            @kernel(op)
            def run(kit: Any, out: Any, n: int, *args: Any, count: int = count) -> Any:
                if n < 2:
                    out[...] = 1
                    return None
                periodic = args[0] if count >= 0 else True
                return values(kit, kit.xp.arange(n) / (n if periodic else n - 1), *args[1 : 1 + max(count, 0)])

        return values

    return register


@_window("bartlett")
def bartlett(kit: Any, x: Any) -> Any:
    return 1 - kit.xp.abs(2 * x - 1)


@_window("blackman")
def blackman(kit: Any, x: Any) -> Any:
    return 0.42 - 0.5 * kit.xp.cos(2 * math.pi * x) + 0.08 * kit.xp.cos(4 * math.pi * x)


@_window("hamming", "alpha", "alpha_beta")
def hamming(kit: Any, x: Any, alpha: float = ALPHA, beta: float = BETA_OF_HAMMING) -> Any:
    return alpha - beta * kit.xp.cos(2 * math.pi * x)


@_window("hann")
def hann(kit: Any, x: Any) -> Any:
    return hamming(kit, x, 0.5, 0.5)


@_window("kaiser", "beta")
def kaiser(kit: Any, x: Any, beta: float = BETA) -> Any:
    bessel = kit.special.i0
    return bessel(beta * kit.xp.sqrt(1 - (2 * x - 1) ** 2)) / bessel(kit.xp.asarray(float(beta)))
