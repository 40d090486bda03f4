"""Pairs of equivalent operators: a kernel for one of them can also compute the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["PAIRS", "counterparts"]

# Each entry has two names, a function that converts the arguments of the first to those of the second, and its reverse.
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
    """Return `dim`, or the dimension that softmax uses without one."""
    return dim if dim is not None else 0 if input.dim() in (0, 1, 3) else 1


def counterparts(name: str) -> list[tuple[str, _Arguments]]:
    """Return the operators whose kernels also compute `name`, each with a function that converts the arguments."""
    return [(second, to) for first, second, to, _ in PAIRS if first == name] + [
        (first, back) for first, second, _, back in PAIRS if second == name
    ]
