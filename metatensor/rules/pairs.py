"""Operators that are one to compute: a kernel for either serves both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["PAIRS", "counterparts"]

# Two names, and how the arguments of a call of the second follow from those of the first, and the other way round.
_Arguments = Callable[..., tuple[Any, ...]]
PAIRS: list[tuple[str, str, _Arguments, _Arguments]] = [
    ("nn.functional.relu", "relu", lambda input, inplace: (input,), lambda input: (input, False)),
    ("max.other", "maximum", lambda *args: args, lambda *args: args),
    ("min.other", "minimum", lambda *args: args, lambda *args: args),
    ("det", "linalg.det", lambda *args: args, lambda *args: args),
    ("slogdet", "linalg.slogdet", lambda *args: args, lambda *args: args),
    ("max_pool1d_with_indices", "nn.functional.max_pool1d_with_indices", lambda *args: args, lambda *args: args),
    ("adaptive_max_pool1d", "nn.functional.adaptive_max_pool1d_with_indices", lambda *args: (*args, True), lambda *args: args[:2]),
    *(
        (f"nn.functional.{name}", name, lambda input, p, training, inplace, generator: (input, p, training, generator),
         lambda input, p, train, generator: (input, p, train, False, generator))
        for name in ("dropout", "alpha_dropout", "feature_alpha_dropout")
    ),
    *(
        (f"nn.functional.{name}", name, lambda input, dim, level, dtype: (input, _implicit(input, dim), dtype),
         lambda input, dim, dtype: (input, dim, 3, dtype))
        for name in ("softmax", "log_softmax")
    ),
]  # fmt: skip


def _implicit(input: Any, dim: int | None) -> int:
    """The dimension that softmax goes along where none is said."""
    return dim if dim is not None else 0 if input.dim() in (0, 1, 3) else 1


def counterparts(name: str) -> list[tuple[str, _Arguments]]:
    """The operators whose kernels compute the operator `name` as well, with what makes their arguments of its own."""
    return [(second, to) for first, second, to, _ in PAIRS if first == name] + [
        (first, back) for first, second, _, back in PAIRS if second == name
    ]
