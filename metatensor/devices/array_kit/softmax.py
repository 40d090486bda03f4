"""Kernels of softmax and related functions. The maximum is subtracted first to prevent overflow."""

from __future__ import annotations

from typing import Any

import numpy as np

from metatensor.devices.array_kit import host
from metatensor.devices.array_kit.copy import cast
from metatensor.devices.array_kit.pointwise import is_single
from metatensor.devices.array_kit.registry import kernel


def shifted(xp: Any, array: Any, dim: int, out: Any = None) -> Any:
    """Return the array minus its maximum along ``dim``. The result is ``out`` or a new array."""
    return xp.subtract(array, array.max(axis=dim, keepdims=True), out=out)


def softmax_of(xp: Any, array: Any, dim: int, out: Any = None) -> Any:
    """Return the softmax along ``dim``. The result is ``out``, which may be the array itself, or a new array."""
    if not array.ndim:
        return softmax_of(xp, array.reshape(1), 0).reshape(())
    if not array.size:
        return array
    result = shifted(xp, array, dim, out)
    xp.exp(result, out=result)
    result /= result.sum(axis=dim, keepdims=True)
    return result


def softmax_into(kit: Any, out: Any, array: Any, dim: int) -> Any:
    """Compute the softmax into ``out`` or return it.

    On the host, compiled code computes it for float32 along the last dimension.
    """
    if not array.ndim or not array.size:
        return softmax_of(kit.xp, array, dim)
    if (dim == -1 or dim == array.ndim - 1) and is_single(kit, out, array):
        host.softmax(np.ascontiguousarray(array), out, array.shape[-1])
    else:
        softmax_of(kit.xp, array, dim, out)
    return None


def log_softmax_of(xp: Any, array: Any, dim: int) -> Any:
    if not array.ndim:
        return log_softmax_of(xp, array.reshape(1), 0).reshape(())
    if not array.size:
        return array
    result = shifted(xp, array, dim)
    result -= xp.log(xp.sum(xp.exp(result), axis=dim, keepdims=True))
    return result


def _typed(out: Any, input: Any) -> Any:
    return cast(input, out.dtype)


def implied_dim(ndim: int) -> int:
    """Return the dimension that is used if a call passes none, as in PyTorch."""
    return 0 if ndim in (0, 1, 3) else 1


@kernel("softmax")
def softmax(kit: Any, out: Any, input: Any, dim: int, dtype: Any) -> Any:
    return softmax_into(kit, out, _typed(out, input), dim)


@kernel("log_softmax")
def log_softmax(kit: Any, out: Any, input: Any, dim: int, dtype: Any) -> Any:
    return log_softmax_of(kit.xp, _typed(out, input), dim)


@kernel("nn.functional.softmax")
def softmax_layer(kit: Any, out: Any, input: Any, dim: int | None, _stacklevel: int, dtype: Any) -> Any:
    return softmax_into(kit, out, _typed(out, input), implied_dim(input.ndim) if dim is None else dim)


@kernel("nn.functional.log_softmax")
def log_softmax_layer(kit: Any, out: Any, input: Any, dim: int | None, _stacklevel: int, dtype: Any) -> Any:
    return log_softmax_of(kit.xp, _typed(out, input), implied_dim(input.ndim) if dim is None else dim)


@kernel("nn.functional.softmin")
def softmin(kit: Any, out: Any, input: Any, dim: int | None, _stacklevel: int, dtype: Any) -> Any:
    # Negate before converting: unsigned integers wrap around.
    return softmax_into(kit, out, _typed(out, kit.xp.negative(input)), implied_dim(input.ndim) if dim is None else dim)
