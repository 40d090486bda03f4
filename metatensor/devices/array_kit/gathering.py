"""Kernels that read elements by index arrays and masks."""

from __future__ import annotations

from typing import Any

import numpy as np

from metatensor._core.storage_views import tensor_from_storage
from metatensor.devices.array_kit import host
from metatensor.devices.array_kit.registry import kernel

__all__ = ["check", "check_key", "is_beyond", "names_nothing", "place"]


def is_beyond(index: Any, size: int) -> bool:
    """Return True if any index lies outside [0, size)."""
    if type(index) is np.ndarray and index.dtype.char in "ilq" and index.flags.c_contiguous:
        return host.beyond(index, size)
    return bool(index.size) and (int(index.min()) < 0 or int(index.max()) >= size)


def check(index: Any, size: int, name: str, error: type[Exception] = IndexError) -> None:
    """Raise ``error`` if any index lies outside [0, size). Negative indices are not allowed."""
    if is_beyond(index, size):
        raise error(f"{name}(): an index is out of bounds for a dimension of size {size}")


def place(ndim: int, indices: Any, dims: Any) -> tuple[Any, ...]:
    """Return the key that applies each index array of ``indices`` at its dimension in ``dims``.

    A mask with k dimensions applies to k dimensions of the indexed array, beginning at its entry of ``dims``.
    """
    key: list[Any] = []
    for index, dim in zip(indices, dims, strict=True):
        key += [slice(None)] * (dim - sum(item.ndim if is_mask(item) else 1 for item in key))
        key.append(index.astype(bool) if index.dtype.name == "uint8" else index)
    return tuple(key)


def check_key(kit: Any, key: tuple[Any, ...], shape: tuple[int, ...]) -> None:
    """Raise IndexError if an index of a key is out of bounds. Devices other than the host would wrap it around."""
    if kit.on_host:
        return
    at = 0
    for item in key:
        if not isinstance(item, slice) and not is_mask(item) and item.size:
            low, high = int(item.min()), int(item.max())
            if low < -shape[at] or high >= shape[at]:
                raise IndexError(f"an index of {low} to {high} is out of bounds for dimension {at} of size {shape[at]}")
        at += item.ndim if is_mask(item) else 1


def is_mask(item: Any) -> bool:
    """Return True for a mask. A mask with k dimensions indexes k dimensions of an array."""
    return not isinstance(item, slice) and item.dtype.kind == "b"


def names_nothing(key: tuple[Any, ...], shape: tuple[int, ...]) -> bool:
    """Return True if a key selects no element, so that indices out of bounds do not matter.

    The arrays of the key must broadcast. None of them may index an empty dimension unless the result is empty.
    """
    shapes, at, empty = [], 0, False
    for item in key:
        if not isinstance(item, slice):
            shapes.append((int(item.sum()),) if is_mask(item) else item.shape)
            empty = empty or (not is_mask(item) and shape[at] == 0)
        at += item.ndim if is_mask(item) else 1
    try:
        broadcast = np.broadcast_shapes(*shapes)
    except ValueError:
        return False
    return not empty or 0 in broadcast


@kernel("_index", half="native")
def index(kit: Any, out: Any, input: Any, indices: Any, dims: Any) -> None:
    key = place(input.ndim, indices, dims)
    try:
        check_key(kit, key, input.shape)
        out[...] = input[key]
    except IndexError:
        if out.size or not names_nothing(key, input.shape):
            raise


@kernel("index_select", half="native")
def index_select(kit: Any, out: Any, input: Any, dim: int, index: Any) -> None:
    if not input.ndim:
        input = input.reshape(1)
    if index.ndim != 1:
        index = index.reshape(-1)
    check(index, input.shape[dim], "index_select")
    if kit.on_host and out.flags.c_contiguous and out.ndim and out.dtype == input.dtype:
        # The indices are in range. With mode "clip" NumPy writes to the result without a temporary buffer.
        input.take(index, dim, out, "clip")
    else:
        out[...] = kit.xp.take(input, index, axis=dim).reshape(out.shape)


@kernel("gather", half="native")
def gather(kit: Any, out: Any, input: Any, dim: int, index: Any, sparse_grad: bool) -> None:
    if not index.size:
        return
    index, input = index.reshape(index.shape or (1,)), input.reshape(input.shape or (1,))
    check(index, input.shape[dim], "gather", RuntimeError)
    part = tuple([slice(None) if i == dim % input.ndim else slice(size) for i, size in enumerate(index.shape)])
    out[...] = kit.xp.take_along_axis(input[part], index, axis=dim).reshape(out.shape)


@kernel("take", half="native")
def take(kit: Any, out: Any, input: Any, index: Any) -> None:
    flat = input.reshape(-1)
    check_key(kit, (index,), flat.shape)
    out[...] = flat[index]


def positions(kit: Any, input: Any) -> Any:
    """Return the positions of the nonzero elements, one row per element."""
    if input.ndim == 0:
        return kit.xp.empty((int(input != 0), 0), "i8")
    return kit.xp.stack(kit.xp.nonzero(input), axis=1)


@kernel("nonzero", "argwhere")
def nonzero(kit: Any, out: Any, input: Any, as_tuple: bool = False) -> Any:
    """Return the positions as rows, or as a tuple of columns. Each column is contiguous in memory in both cases."""
    rows = positions(kit, input.reshape(1) if as_tuple and not input.ndim else input)
    if out is not None:
        return rows
    columns, n = kit.xp.array(rows.T, order="C"), rows.shape[0]
    found = kit.adopt(columns.T, strides=(1, n), owner=columns)
    if not as_tuple:
        return found
    return tuple(
        tensor_from_storage(found.untyped_storage(), found.dtype, (n,), (1,), d * n) for d in range(columns.shape[0])
    )


@kernel("nonzero_static")
def nonzero_static(kit: Any, out: Any, input: Any, size: int, fill_value: int) -> None:
    rows = positions(kit, input)[:size]
    out[...] = fill_value
    out[: rows.shape[0]] = rows


@kernel("masked_select", half="native")
def masked_select(kit: Any, out: Any, input: Any, mask: Any) -> Any:
    input, mask = kit.xp.broadcast_arrays(input, mask.astype(bool))
    return input[mask]


@kernel("_masked_select", half="native")
def masked_select_some(kit: Any, out: Any, input: Any, mask: Any, count: int) -> Any:
    return masked_select(kit, out, input, mask)


@kernel("_unravel_index")
def unravel_index(kit: Any, out: Any, indices: Any, shape: Any) -> None:
    rest = indices.astype("i8")
    total = 1
    for size in shape:
        total *= size
    if rest.size and (int(rest.max()) >= total or int(rest.min()) < 0):
        raise ValueError(f"unravel_index(): an index is out of bounds for the shape {tuple(shape)}")
    for i in range(len(shape) - 1, -1, -1):
        out[..., i] = rest % max(shape[i], 1)
        rest = rest // max(shape[i], 1)
