"""Creation of tensors with random values."""

from __future__ import annotations

import math
import warnings
from typing import Any

import metatensor as mt

__all__ = ["make_tensor"]


def _range(dtype: Any, low: Any, high: Any) -> tuple[Any, Any]:
    """Return the first value of the range and the value at which it ends, restricted to what the dtype can hold."""
    if (low is not None and low != low) or (high is not None and high != high):
        raise ValueError(f"make_tensor: low and high must not be NaN, got {low} and {high}")
    continuous = dtype.is_floating_point or dtype.is_complex
    least: Any
    most: Any
    if dtype is mt.bool:
        least, most, start, stop = 0, 1, 0, 2
    else:
        info = mt.finfo(dtype) if continuous else mt.iinfo(dtype)
        least, most = info.min, info.max
        start, stop = -9 if least else 0, 9 if continuous else 10
    start, stop = start if low is None else low, stop if high is None else high
    if start == stop and continuous:
        warnings.warn(f"make_tensor: low and high are equal, {low}; use torch.full instead", FutureWarning, stacklevel=3)
    elif start >= stop:
        raise ValueError(f"make_tensor: low must be less than high, got {start} and {stop}")
    if start > most or stop < least or (stop == least and not continuous):
        raise ValueError(f"make_tensor: {dtype} has no values from {start} to {stop}")
    if continuous:
        return max(start, least), min(stop, most)
    # randint takes no end above the largest int64.
    return math.ceil(max(start, least)), min(math.ceil(min(stop, most + 1)), 2**63 - 1)


def _floats(sizes: Any, dtype: Any, device: Any, start: float, stop: float) -> Any:
    """Return real numbers from `start` to below `stop` that the dtype, or the parts of a complex dtype, can hold."""
    wide = dtype in (mt.float64, mt.complex128)
    made = mt.empty(sizes, dtype=mt.float64 if wide else mt.float32, device=device)
    if stop - start > mt.finfo(made.dtype).max:
        made = made.uniform_(start / 2, stop / 2) * 2
    else:
        made.uniform_(start, stop)
    if dtype in (mt.float16, mt.bfloat16, mt.complex32):
        made = made.to(mt.float16 if dtype.is_complex else dtype).to(mt.float32)    # may round up to the end
    return made if start == stop else mt.where(made >= stop, start, made)


def make_tensor(
    *shape: Any, dtype: Any, device: Any, low: float | None = None, high: float | None = None, requires_grad: bool = False,
    noncontiguous: bool = False, exclude_zero: bool = False, memory_format: Any = None,
) -> Any:  # fmt: skip
    """Return a tensor of random values, distributed uniformly in a range.

    Parameters
    ----------
    *shape : int, or one sequence of int
    dtype : dtype
    device : device
    low, high : float, optional
        The range includes `low` and excludes `high`. It is restricted to the finite values of the dtype. Default:
        -9 to 9 (10 for integers), but from 0 for unsigned integers, and 0 to 2 for bools.
    requires_grad : bool
        Default: False.
    noncontiguous : bool
        If True, there are gaps between the elements along the last dimension. Default: False.
    exclude_zero : bool
        If True, zeros are replaced by the smallest positive normal number, or by 1 for integers. Default: False.
    memory_format : memory_format, optional

    Raises
    ------
    ValueError
        If the range is empty, has a NaN as a bound or no values of the dtype, if integers should require gradients, or
        if both `noncontiguous` and `memory_format` are given.
    """
    if len(shape) == 1 and not isinstance(shape[0], int):
        shape = tuple(shape[0])
    if noncontiguous and memory_format is not None:
        raise ValueError("make_tensor: noncontiguous and memory_format exclude each other")
    continuous = dtype.is_floating_point or dtype.is_complex
    if requires_grad and not continuous:
        raise ValueError(f"make_tensor: only floating-point and complex tensors can require gradients, not {dtype}")
    start, stop = _range(dtype, low, high)
    sizes = (*shape[:-1], shape[-1] * 2) if noncontiguous and shape else shape
    if dtype.is_complex:
        made: Any = mt.complex(_floats(sizes, dtype, device, start, stop), _floats(sizes, dtype, device, start, stop)).to(dtype)
    elif continuous:
        made = _floats(sizes, dtype, device, start, stop).to(dtype)
    else:
        made = mt.randint(start, stop, sizes, device=device).to(dtype)
    if noncontiguous and shape:
        made = made[..., ::2]
    elif memory_format is not None:
        made = made.contiguous(memory_format=memory_format)
    if exclude_zero:
        one = mt.finfo(dtype).tiny if continuous else 1
        made = mt.where(made == 0, mt.full_like(made, one), made)
    return made.requires_grad_(requires_grad)
