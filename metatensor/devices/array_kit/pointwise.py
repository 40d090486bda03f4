"""Helpers for element-wise kernels. They convert operands to the computing dtype by PyTorch's promotion rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from metatensor.devices.array_kit.copy import cast
from metatensor.devices.array_kit.registry import kernel
from metatensor.devices.threads import share_out

__all__ = ["binary", "by_parts", "common_dtype", "elementwise", "in_common", "in_dtype", "is_integral", "is_single", "pieces", "unary"]

def is_single(kit: Any, out: Any, input: Any) -> bool:
    """Return True if the compiled functions of `array_kit.host` can write float32 directly to ``out``."""
    return bool(kit.on_host and input.dtype == out.dtype == np.float32 and out.flags.c_contiguous)


def by_parts(function: Any, input: Any, out: Any) -> None:
    """Call an element-wise function of `array_kit.host` in several threads."""
    x, y = np.ascontiguousarray(input).reshape(-1), out.reshape(-1)
    share_out(lambda first, count: function(x[first : first + count], y[first : first + count]), out.size)


_RANK = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}


def in_dtype(value: Any, dtype: Any) -> Any:
    """Convert an array or a Python number to an array dtype. Numbers wrap around or truncate as in a C cast."""
    if getattr(value, "dtype", None) is dtype:
        return value
    if isinstance(value, (bool, int, float, complex)):
        value = np.asarray(value)
        if value.dtype.kind == "O":
            raise RuntimeError(f"the number {value} does not fit into 64 bits")
        return cast(value, np.dtype(dtype))[()]
    return cast(value, dtype)


def is_integral(array: Any) -> bool:
    """Return True if an array (or scalar) has an integer or bool dtype."""
    return array.dtype.kind in "biu"


def _over(high: Any, low: Any) -> Any:
    """Return the common dtype of operands of dtype ``high``, which take precedence, and operands of dtype ``low``.

    It is ``high`` unless ``low`` is of a higher category. The categories are, in ascending order, bool, integer, float
    and complex. A complex ``low`` is widened to the precision of a floating-point ``high``. Either dtype may be None.
    """
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
    # float64 and a complex dtype give complex128. An integer dtype has no effect on the other dtype.
    return np.promote_types(low, high) if low.kind == "f" else high


def common_dtype(kit: Any, *values: Any) -> Any:
    """Return the array dtype to which arrays and Python numbers are promoted."""
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
    """Convert all values to the dtype that they promote to."""
    dtype = common_dtype(kit, *values)
    return tuple([in_dtype(value, dtype) for value in values])


# Chunk size for multi-step kernels on the host, in elements. A chunk should stay in the cache.
HOST_PIECE = 1 << 15


def pieces(kit: Any, out: Any, *arrays: Any) -> Iterator[tuple[Any, ...]]:
    """Yield ``out`` and the arrays in corresponding chunks, to be processed one after the other.

    On the host, if all arrays are C-contiguous, the chunks are flat slices, and one chunk of all arrays fits in the
    cache. Otherwise the whole arrays are yielded once.
    """
    whole = (out, *arrays)
    if not kit.on_host or out.size <= HOST_PIECE or not all(item.flags.c_contiguous for item in whole):
        yield whole
        return
    flat = [item.reshape(-1) for item in whole]
    for first in range(0, out.size, HOST_PIECE):
        yield tuple([item[first : first + HOST_PIECE] for item in flat])


# Registration of kernels that consist of a single library function ------------------------------


def unary(name: str, function: Callable[..., Any]) -> None:
    """Register ``function(xp, x)`` as a kernel. ``x`` is the input in the result's dtype. Ignore other arguments."""

    @kernel(name)
    def run(kit: Any, out: Any, input: Any, *_: Any) -> Any:
        return function(kit.xp, in_dtype(input, out.dtype))


def binary(name: str, function: Callable[..., Any]) -> None:
    """Register ``function(xp, x, y)`` as a kernel. ``x`` and ``y`` are the operands in the result's dtype."""

    @kernel(name)
    def run(kit: Any, out: Any, input: Any, other: Any, *_: Any) -> Any:
        return function(kit.xp, in_dtype(input, out.dtype), in_dtype(other, out.dtype))


def elementwise(table: dict[str, str]) -> None:
    """Register library functions by operator name. They receive the operands and ``out``, all in the result's dtype."""
    for name, function in table.items():
        _register(name, function)


def _register(name: str, function: str) -> None:
    @kernel(name, ufunc=function)
    def run(kit: Any, out: Any, *operands: Any) -> None:
        dtype = out.dtype
        getattr(kit.xp, function)(*[in_dtype(value, dtype) for value in operands], out=out)
