"""Creation of tensors with random values."""

from __future__ import annotations

from typing import Any

import metatensor as mt

__all__ = ["make_tensor"]


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
        The range includes `low`, and for integers it excludes `high`. Default: -9 to 9 (10 for integers), but from 0
        for unsigned integers, and 0 to 2 for bools.
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
        If the range is empty, or both `noncontiguous` and `memory_format` are given.
    """
    if len(shape) == 1 and not isinstance(shape[0], int):
        shape = tuple(shape[0])
    if noncontiguous and memory_format is not None:
        raise ValueError("make_tensor: noncontiguous and memory_format exclude each other")
    continuous = dtype.is_floating_point or dtype.is_complex
    lowest = 0 if dtype is mt.bool or not dtype.is_signed else -9
    start = lowest if low is None else low
    stop = (2 if dtype is mt.bool else 9 if continuous else 10) if high is None else high
    if stop < start or (stop == start and not continuous):
        raise ValueError(f"make_tensor: expected low < high, got {start} and {stop}")
    sizes = (*shape[:-1], shape[-1] * 2) if noncontiguous and shape else shape
    if continuous:
        real = mt.float64 if dtype in (mt.float64, mt.complex128) else mt.float32
        made: Any = mt.empty(sizes, dtype=real, device=device).uniform_(start, stop)
        if dtype.is_complex:
            made = mt.complex(made, mt.empty(sizes, dtype=real, device=device).uniform_(start, stop))
        made = made.to(dtype)
    else:
        made = mt.randint(int(start), int(stop), sizes, device=device).to(dtype)
    if noncontiguous and shape:
        made = made[..., ::2]
    elif memory_format is not None:
        made = made.contiguous(memory_format=memory_format)
    if exclude_zero:
        one = mt.finfo(dtype).tiny if continuous else 1
        made = mt.where(made == 0, mt.full_like(made, one), made)
    return made.requires_grad_(requires_grad)
