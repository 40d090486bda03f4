"""How PyTorch is to compute `LinearCrossEntropyLoss`."""

from __future__ import annotations

import dataclasses
from typing import Any

import metatensor as mt

__all__ = ["LinearCrossEntropyOptions"]

_POLICIES = ("auto", "accurate", "balanced", "compact")


@dataclasses.dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """How PyTorch computes `LinearCrossEntropyLoss` in pieces of the batch.

    Taken for compatibility and checked (ValueError); the result does not depend on it.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        if self.acc_policy not in _POLICIES:
            raise ValueError(f"acc_policy must be one of {_POLICIES}, not {self.acc_policy!r}")
        if self.chunking_method not in (None, "auto"):
            name, colon, factor = str(self.chunking_method).partition(":")
            if name != "aspect_ratio" or (colon and not (factor.isdigit() and int(factor) > 0)):
                raise ValueError(
                    f"chunking_method must be None, 'auto', 'aspect_ratio' or 'aspect_ratio:N', not {self.chunking_method!r}"
                )
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be a positive int or None, not {size!r}")
        if self.acc_dtype not in (None, mt.float16, mt.bfloat16, mt.float32, mt.float64):
            raise ValueError(f"acc_dtype must be None or a floating-point dtype of 16 bits or more, not {self.acc_dtype!r}")
