"""Kernels that look up rows of an embedding table."""

from __future__ import annotations

from typing import Any

import numpy as np

from metatensor.devices.array_kit.accumulation import accumulate_at, tally
from metatensor.devices.array_kit.gathering import is_beyond
from metatensor.devices.array_kit.registry import kernel


def check_range(indices: Any, size: int, what: str, error: type[Exception] = IndexError) -> None:
    """Raise ``error`` unless every index lies in [0, size)."""
    if is_beyond(indices, size):
        raise error(f"{what}: indices must lie in [0, {size}), got {int(indices.min())} to {int(indices.max())}")


def _rows(kit: Any, out: Any, weight: Any, indices: Any) -> Any:
    check_range(indices, len(weight), "embedding")
    if not out.size:
        return None
    if kit.on_host and out.flags.c_contiguous and out.dtype == weight.dtype:
        # The indices are in range. With mode "clip" NumPy writes to the result without a temporary buffer.
        weight.take(indices, 0, out, "clip")
        return None
    return kit.xp.take(weight, indices, axis=0)


@kernel("nn.functional.embedding", half="native")
def embedding(kit: Any, out: Any, input: Any, weight: Any, padding_idx: Any, max_norm: Any, norm_type: float, *rest: Any) -> Any:
    return _rows(kit, out, weight, input)


@kernel("embedding", half="native")
def table_lookup(kit: Any, out: Any, weight: Any, indices: Any, *rest: Any) -> Any:
    return _rows(kit, out, weight, indices)


@kernel("embedding_renorm_")
def embedding_renorm(kit: Any, out: Any, input: Any, indices: Any, max_norm: float, norm_type: float) -> Any:
    xp = kit.xp
    check_range(indices, len(input), "embedding")
    rows = xp.unique(indices)
    picked = input[rows]
    norms = xp.linalg.norm(picked.astype(np.float64), ord=norm_type, axis=1, keepdims=True)
    picked = xp.where(norms > max_norm, picked * (max_norm / (norms + 1e-7)), picked)
    input[rows] = picked.astype(input.dtype)
    return input


@kernel("nn.functional.embedding_bag")
def embedding_bag(
    kit: Any, out: Any, input: Any, weight: Any, offsets: Any, max_norm: Any, norm_type: float, scale: bool, mode: str,
    sparse: bool, per_sample_weights: Any, include_last_offset: bool, padding_idx: int | None,
) -> None:  # fmt: skip
    xp, bags = kit.xp, len(out)
    flat = input.reshape(-1).astype(np.int64, copy=False)
    check_range(flat, len(weight), "embedding_bag", RuntimeError)
    if input.ndim == 2:
        bag = xp.repeat(xp.arange(bags), input.shape[1])
    else:
        starts = offsets[:bags].astype(np.int64, copy=False)
        if bags and int(starts[0]) != 0:
            raise RuntimeError(f"embedding_bag: the first offset must be 0, got {int(starts[0])}")
        if bags and (int((starts[1:] < starts[:-1]).sum()) or int(starts[-1]) > len(flat)):
            raise RuntimeError("embedding_bag: offsets must not decrease or exceed the number of indices")
        bag = xp.searchsorted(starts, xp.arange(len(flat)), side="right") - 1
    used = xp.ones(flat.shape, np.bool_)
    if padding_idx is not None:
        used = flat != (padding_idx + len(weight) if padding_idx < 0 else padding_idx)
    if input.ndim == 1 and not bags:
        used = xp.zeros(flat.shape, np.bool_)
    flat, bag = flat[used], bag[used]
    rows = weight[flat]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape(-1)[used][:, None]
    count = tally(xp, bag, None, bags)[:, None]
    if mode == "max":
        out[...] = -np.inf
        accumulate_at(xp, "maximum", out, bag, rows)
        xp.copyto(out, out.dtype.type(0), where=xp.broadcast_to(count == 0, out.shape))
        return
    out[...] = 0
    accumulate_at(xp, "add", out, bag, rows)
    if mode == "mean":
        out /= xp.maximum(count, 1).astype(out.dtype)


@kernel("nn.functional.one_hot")
def one_hot(kit: Any, out: Any, input: Any, num_classes: int) -> Any:
    xp, classes = kit.xp, out.shape[-1]
    if input.size and (int(input.min()) < 0 or int(input.max()) >= classes):
        raise RuntimeError(f"one_hot: values must lie in [0, {classes}), got {int(input.min())} to {int(input.max())}")
    return input[..., None] == xp.arange(classes)
