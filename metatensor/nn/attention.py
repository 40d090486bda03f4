"""Which kernel computes attention: PyTorch's switch, for programs that set it. There is one kernel for each device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(IntEnum):
    """PyTorch's kernels of `scaled_dot_product_attention`, with its numbers."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: list[SDPBackend] | SDPBackend, set_priority: bool = False) -> Iterator[dict[str, Any]]:
    """A context in which attention is to be computed by one of these kernels; it gives the same results.

    AssertionError for anything but a `SDPBackend` or a list.
    """
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(f"sdpa_kernel: expected a SDPBackend or a list of them, got {type(backends).__name__}")
    yield {}
