"""Kernels that repeat or reorder elements. They do not compute with values, so half dtypes are not converted."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from metatensor.devices.array_kit.registry import kernel


@kernel("repeat", half="native")
def repeat(kit: Any, out: Any, input: Any, repeats: Any) -> Any:
    out[...] = kit.xp.tile(input, tuple(repeats)).reshape(out.shape)


@kernel("_repeat_interleave", half="native")
def repeat_interleave(kit: Any, out: Any, input: Any, repeats: int, dim: int, output_size: int) -> None:
    out[...] = kit.xp.repeat(input, repeats, axis=dim)


@kernel("_repeat_interleave_by", half="native")
def repeat_interleave_by(kit: Any, out: Any, input: Any, repeats: Any, dim: int, output_size: int) -> None:
    counts = kit.download(repeats).reshape(-1)
    if (counts < 0).any():
        raise RuntimeError("repeat_interleave(): repeats must not be negative")
    if counts.sum() != output_size:
        raise RuntimeError(f"repeat_interleave(): the repeats add up to {counts.sum()}, not to output_size={output_size}")
    index = kit.upload(np.repeat(np.arange(len(counts)), counts))
    out[...] = kit.xp.take(input, index, axis=dim)


@kernel("roll", half="native")
def roll(kit: Any, out: Any, input: Any, shifts: Any, dims: Any) -> None:
    many = isinstance(dims, (list, tuple))
    axis = (tuple(dims) if len(dims) else None) if many else dims
    if axis is None and not isinstance(shifts, int):
        shifts = shifts[0]
    out[...] = kit.xp.roll(input, shifts if isinstance(shifts, int) else tuple(shifts), axis=axis)


@kernel("flip", half="native")
def flip(kit: Any, out: Any, input: Any, dims: Any) -> None:
    out[...] = kit.xp.flip(input, axis=tuple(dims)) if input.ndim else input


@kernel("combinations", half="native")
def combinations(kit: Any, out: Any, input: Any, r: int, with_replacement: bool) -> None:
    if not out.size:
        return
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    index = np.fromiter(itertools.chain.from_iterable(choose(range(input.shape[0]), r)), np.int64)
    out[...] = input[kit.upload(index)].reshape(out.shape)
