"""Capabilities of the processor."""

from __future__ import annotations

import platform
from functools import cache

__all__ = ["get_cpu_capability"]


@cache
def get_cpu_capability() -> str:
    """Return the vector instruction set of the processor: "AVX512", "AVX2", "NEON" or "DEFAULT"."""
    if platform.machine().lower() in ("arm64", "aarch64"):
        return "NEON"
    try:
        with open("/proc/cpuinfo") as file:
            flags = set(next(line for line in file if line.startswith("flags")).split())
    except (OSError, StopIteration):
        return "DEFAULT"
    if {"avx512f", "avx512dq", "avx512bw", "avx512vl"} <= flags:
        return "AVX512"
    return "AVX2" if {"avx2", "fma"} <= flags else "DEFAULT"
