"""Decompositions of operators that PyTorch decomposes before ``__torch_dispatch__``, but metatensor does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor._core.op import registry

__all__ = ["PARTS"]


def _linear(input: Any, weight: Any, bias: Any = None) -> Any:
    if weight.dim() != 2 or input.dim() == 0:
        return NotImplemented
    flat = input if input.dim() == 2 else input.reshape(-1, input.shape[-1])
    product = mt.mm(flat, weight.t()) if bias is None else mt.addmm(bias, flat, weight.t())
    return product if input.dim() == 2 else product.view(*input.shape[:-1], weight.shape[0])


def _layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    return mt.native_layer_norm(input, normalized_shape, weight, bias, eps)[0]


def _pool(with_indices: str) -> Callable[..., Any]:
    def pool(*args: Any, **kwargs: Any) -> Any:
        return registry[with_indices](*args, **kwargs)[0]

    return pool


def _transposed(input: Any) -> Any:
    return input.permute(*reversed(range(input.dim())))


def _matrix_transposed(input: Any) -> Any:
    return input.transpose(-2, -1)


def _cross_entropy(
    input: Any, target: Any, weight: Any = None, size_average: Any = None, ignore_index: int = -100, reduce: Any = None,
    reduction: str = "mean", label_smoothing: float = 0.0,
) -> Any:  # fmt: skip
    if label_smoothing or target.dtype.is_floating_point or size_average is not None or reduce is not None or input.dim() == 0:
        return NotImplemented
    dim = 0 if input.dim() == 1 else 1
    return mt.nn.functional.nll_loss(mt.log_softmax(input, dim), target, weight, None, ignore_index, None, reduction)


def _pad(input: Any, pad: Any, mode: str = "constant", value: float | None = None) -> Any:
    return mt.constant_pad_nd(input, pad, value or 0.0) if mode == "constant" else NotImplemented


def _chunk(input: Any, chunks: int, dim: int = 0) -> Any:
    size = input.shape[dim]
    return input.split(-(-size // chunks), dim) if size and chunks > 0 else NotImplemented


def _outer(input: Any, vec2: Any) -> Any:
    return input.view(-1, 1) * vec2 if input.dim() == vec2.dim() == 1 else NotImplemented


def _of_two(name: str) -> Callable[..., Any]:
    def larger_or_smaller(input: Any, other: Any = None, *args: Any, **kwargs: Any) -> Any:
        if args or kwargs or not isinstance(other, mt.Tensor):
            return NotImplemented
        return registry[name](input, other)

    return larger_or_smaller


PARTS: dict[str, Callable[..., Any]] = {
    "T": _transposed, "mT": _matrix_transposed, "chunk": _chunk, "max": _of_two("maximum"), "min": _of_two("minimum"),
    "nn.functional.cross_entropy": _cross_entropy, "nn.functional.layer_norm": _layer_norm, "nn.functional.linear": _linear,
    "nn.functional.pad": _pad, "outer": _outer, "positive": lambda input: input,
    **{f"nn.functional.max_pool{n}d": _pool(f"nn.functional.max_pool{n}d_with_indices") for n in (1, 2, 3)},
}  # fmt: skip
"""Decompositions by operator name. They return NotImplemented for calls that must not be decomposed."""
