"""What the host's processor can do."""

from __future__ import annotations

import platform
from functools import cache

__all__ = ["get_cpu_capability"]


@cache
def get_cpu_capability() -> str:
    """The widest of ``"AVX512"``, ``"AVX2"``, ``"NEON"`` and ``"DEFAULT"`` that the processor has."""
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
