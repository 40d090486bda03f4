"""Options of `LinearCrossEntropyLoss` that select how PyTorch computes it."""

from __future__ import annotations

import dataclasses
from typing import Any

import metatensor as mt

__all__ = ["LinearCrossEntropyOptions"]

_POLICIES = ("auto", "accurate", "balanced", "compact")


@dataclasses.dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """Options that select how PyTorch splits `LinearCrossEntropyLoss` into chunks of the batch.

    They are validated and otherwise ignored: results do not depend on them.

    Parameters
    ----------
    allow_retain_graph : bool
        Default False.
    batch_chunk_size : int, optional
        Positive number of rows per chunk.
    chunking_method : str, optional
        "auto" (the default), "aspect_ratio", "aspect_ratio:N" with a positive integer N, or None.
    acc_policy : str
        "auto" (the default), "accurate", "balanced" or "compact".
    acc_dtype : dtype, optional
        float16, bfloat16, float32 or float64.

    Raises
    ------
    ValueError
        If an option has another value.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.LinearCrossEntropyOptions(batch_chunk_size=64).acc_policy
    'auto'
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
