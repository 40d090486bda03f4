"""Kernels of softmax and its kin: the largest element is taken off first, so that nothing overflows."""

from __future__ import annotations

from typing import Any

from metatensor.devices.array_kit.copy import cast
from metatensor.devices.array_kit.registry import kernel


def shifted(xp: Any, array: Any, dim: int) -> Any:
    """A new array, less its largest element along ``dim``."""
    return array - xp.max(array, axis=dim, keepdims=True)


def softmax_of(xp: Any, array: Any, dim: int) -> Any:
    if not array.ndim:
        return xp.ones_like(array)
    if not array.size:
        return array
    result = shifted(xp, array, dim)
    xp.exp(result, out=result)
    result /= xp.sum(result, axis=dim, keepdims=True)
    return result


def log_softmax_of(xp: Any, array: Any, dim: int) -> Any:
    if not array.ndim:
        return xp.zeros_like(array)
    if not array.size:
        return array
    result = shifted(xp, array, dim)
    result -= xp.log(xp.sum(xp.exp(result), axis=dim, keepdims=True))
    return result


def _typed(out: Any, input: Any) -> Any:
    return cast(input, out.dtype)


def implied_dim(ndim: int) -> int:
    """The dimension that a call without one means, as PyTorch has it."""
    return 0 if ndim in (0, 1, 3) else 1


@kernel("softmax")
def softmax(kit: Any, out: Any, input: Any, dim: int, dtype: Any) -> Any:
    return softmax_of(kit.xp, _typed(out, input), dim)


@kernel("log_softmax")
def log_softmax(kit: Any, out: Any, input: Any, dim: int, dtype: Any) -> Any:
    return log_softmax_of(kit.xp, _typed(out, input), dim)


@kernel("nn.functional.softmax")
def softmax_layer(kit: Any, out: Any, input: Any, dim: int | None, _stacklevel: int, dtype: Any) -> Any:
    return softmax_of(kit.xp, _typed(out, input), implied_dim(input.ndim) if dim is None else dim)


@kernel("nn.functional.log_softmax")
def log_softmax_layer(kit: Any, out: Any, input: Any, dim: int | None, _stacklevel: int, dtype: Any) -> Any:
    return log_softmax_of(kit.xp, _typed(out, input), implied_dim(input.ndim) if dim is None else dim)


@kernel("nn.functional.softmin")
def softmin(kit: Any, out: Any, input: Any, dim: int | None, _stacklevel: int, dtype: Any) -> Any:
    # Negated as what it is: unsigned integers wrap around.
    return softmax_of(kit.xp, _typed(out, kit.xp.negative(input)), implied_dim(input.ndim) if dim is None else dim)
