"""What element-wise kernels share: operands in the dtype that the op computes in, by PyTorch's promotion."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from metatensor.devices.array_kit.copy import cast
from metatensor.devices.array_kit.registry import kernel

__all__ = ["binary", "common_dtype", "elementwise", "in_common", "in_dtype", "is_integral", "is_single", "pieces", "unary"]

def is_single(kit: Any, out: Any, input: Any) -> bool:
    """Whether compiled functions of `metatensor.devices.array_kit.host` may write float32 straight into ``out``."""
    return bool(kit.on_host and input.dtype == out.dtype == np.float32 and out.flags.c_contiguous)


_RANK = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}


def in_dtype(value: Any, dtype: Any) -> Any:
    """An array or a Python number in an array dtype; numbers wrap around and lose fractions as in a C cast."""
    if getattr(value, "dtype", None) is dtype:
        return value
    if isinstance(value, (bool, int, float, complex)):
        value = np.asarray(value)
        if value.dtype.kind == "O":
            raise RuntimeError(f"the number {value} does not fit into 64 bits")
        return cast(value, np.dtype(dtype))[()]
    return cast(value, dtype)


def is_integral(array: Any) -> bool:
    """Whether an array (or scalar) is of integers or bools."""
    return array.dtype.kind in "biu"


def _over(high: Any, low: Any) -> Any:
    """``high`` outranks ``low``, which counts only where it is of a higher category."""
    if high is None or low is None:
        return low if high is None else high
    if _RANK[low.kind] <= _RANK[high.kind]:
        return high
    return np.promote_types(high, np.complex64) if high.kind == "f" else low


def _join(a: Any, b: Any) -> Any:
    if a is None or a == b:
        return b
    if _RANK[a.kind] == _RANK[b.kind]:
        return np.promote_types(a, b)
    low, high = sorted((a, b), key=lambda d: _RANK[d.kind])
    # A float64 needs complex128; integers take the other dtype as it is.
    return np.promote_types(low, high) if low.kind == "f" else high


def common_dtype(kit: Any, *values: Any) -> Any:
    """The array dtype that arrays and Python numbers are computed in together."""
    dims = zeros = numbers = None
    for value in values:
        if isinstance(value, bool):
            numbers = _join(numbers, np.dtype("?"))
        elif isinstance(value, int):
            numbers = _join(numbers, np.dtype("i8"))
        elif isinstance(value, (float, complex)):
            numbers = _join(numbers, _default(kit, isinstance(value, complex)))
        elif value.ndim:
            dims = _join(dims, value.dtype)
        else:
            zeros = _join(zeros, value.dtype)
    return _over(dims, _over(zeros, numbers))


def _default(kit: Any, is_complex: bool) -> Any:
    from metatensor._core.dtype import get_default_dtype

    real = kit.dtype(get_default_dtype())
    return np.promote_types(real, np.complex64) if is_complex else real


def in_common(kit: Any, *values: Any) -> tuple[Any, ...]:
    """The values, converted to the dtype that they promote to."""
    dtype = common_dtype(kit, *values)
    return tuple([in_dtype(value, dtype) for value in values])


# Elements of host arrays that are computed at a time where a kernel takes several steps: they stay in the cache.
HOST_PIECE = 1 << 15


def pieces(kit: Any, out: Any, *arrays: Any) -> Iterator[tuple[Any, ...]]:
    """``out`` and the arrays, of its shape, in parts of the same elements that are better computed one by one.

    On the host flat stretches that fit into the cache together, where all are C-contiguous; else the whole.
    """
    whole = (out, *arrays)
    if not kit.on_host or out.size <= HOST_PIECE or not all(item.flags.c_contiguous for item in whole):
        yield whole
        return
    flat = [item.reshape(-1) for item in whole]
    for first in range(0, out.size, HOST_PIECE):
        yield tuple([item[first : first + HOST_PIECE] for item in flat])


# Registering kernels that are one function of the library -----------------------------------


def unary(name: str, function: Callable[..., Any]) -> None:
    """``function(xp, x)`` of the input in the result's dtype; further arguments of the op are not passed."""

    @kernel(name)
    def run(kit: Any, out: Any, input: Any, *_: Any) -> Any:
        return function(kit.xp, in_dtype(input, out.dtype))


def binary(name: str, function: Callable[..., Any]) -> None:
    """``function(xp, x, y)`` of two operands in the result's dtype."""

    @kernel(name)
    def run(kit: Any, out: Any, input: Any, other: Any, *_: Any) -> Any:
        return function(kit.xp, in_dtype(input, out.dtype), in_dtype(other, out.dtype))


def elementwise(table: dict[str, str]) -> None:
    """For each op a function of the library that takes operands and ``out``, all of the result's dtype."""
    for name, function in table.items():
        _register(name, function)


def _register(name: str, function: str) -> None:
    @kernel(name, ufunc=function)
    def run(kit: Any, out: Any, *operands: Any) -> None:
        dtype = out.dtype
        getattr(kit.xp, function)(*[in_dtype(value, dtype) for value in operands], out=out)
