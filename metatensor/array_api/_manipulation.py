"""Functions that reshape, reorder, join and select elements."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.array_api._dtypes import array, together

__all__ = [
    "broadcast_arrays", "broadcast_to", "concat", "expand_dims", "flip", "moveaxis", "permute_dims", "repeat", "reshape",
    "roll", "squeeze", "stack", "take", "take_along_axis", "tile", "unstack",
]  # fmt: skip


def place_of(axis: Any, ndim: int) -> int:
    """Return `axis` as a non-negative index. Raise IndexError if it is out of range for `ndim` dimensions."""
    if not -ndim <= axis < ndim:
        raise IndexError(f"axis {axis} is out of range for {ndim} dimensions")
    return axis % ndim


def places_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return one or several axes as non-negative indices. None means all axes.

    Raise ValueError if an axis appears twice.
    """
    if axis is None:
        return tuple(range(ndim))
    places = tuple([place_of(one, ndim) for one in (axis if isinstance(axis, (tuple, list)) else (axis,))])
    if len(set(places)) != len(places):
        raise ValueError(f"axis={axis} contains an axis twice")
    return places


def broadcast_arrays(*arrays: Any) -> list[Any]:
    """Return views of the tensors, broadcast to their common shape."""
    return list(mt.broadcast_tensors(*arrays)) if arrays else []


def broadcast_to(x: Any, /, shape: tuple[int, ...]) -> Any:
    """Return a view of `x`, broadcast to `shape`. Raise ValueError if `x` does not broadcast to it."""
    try:
        fits = min(shape, default=0) >= 0 and mt.broadcast_shapes(array(x).shape, shape) == tuple(shape)
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(f"broadcast_to: a tensor of shape {list(x.shape)} does not broadcast to {list(shape)}")
    return mt.broadcast_to(x, tuple(shape))


def concat(arrays: Any, /, *, axis: int | None = 0) -> Any:
    """Return the tensors joined along `axis`. If `axis` is None, they are flattened first.

    Tensors are converted to their common dtype. Raise ValueError if their numbers of dimensions differ.
    """
    tensors = together(arrays)
    if axis is None:
        tensors, axis = [mt.flatten(x) for x in tensors], 0
    if len({x.ndim for x in tensors}) > 1:
        raise ValueError(f"concat: tensors must have the same number of dimensions, got shapes {[list(x.shape) for x in tensors]}")
    return mt.cat(tensors, axis)


def expand_dims(x: Any, /, axis: int) -> Any:
    """Return `x` with a new axis of size 1 at position `axis` of the result. Raise IndexError if that is out of range.
    """
    return mt.unsqueeze(array(x), place_of(axis, x.ndim + 1))


def flip(x: Any, /, *, axis: Any = None) -> Any:
    """Return `x` with its elements in reverse order along one axis, several axes, or all (None)."""
    return mt.flip(array(x), places_of(axis, x.ndim))


def moveaxis(x: Any, source: Any, destination: Any, /) -> Any:
    """Return a view of `x` with the axes `source` at positions `destination`. The other axes keep their order."""
    return mt.movedim(array(x), source, destination)


def permute_dims(x: Any, /, axes: tuple[int, ...]) -> Any:
    """Return a view of `x` whose axes are in the order given by `axes`."""
    return mt.permute(array(x), tuple(axes))


def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Any:
    """Return `x` with each element repeated.

    Parameters
    ----------
    x : Tensor
    repeats : int or Tensor
        Number of repetitions, or one number for each element along `axis`.
    axis : int, optional
        Default: repeat the elements of the flattened tensor.
    """
    x = mt.flatten(array(x)) if axis is None else array(x)
    axis = 0 if axis is None else place_of(axis, x.ndim)
    if not isinstance(repeats, mt.Tensor):
        return mt.repeat_interleave(x, repeats, dim=axis)
    return mt.repeat_interleave(x, repeats.reshape(-1).to(mt.int64).expand(x.shape[axis]), dim=axis)


def reshape(x: Any, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Any:
    """Return `x` in another shape, with its elements in row-major order.

    Parameters
    ----------
    x : Tensor
    shape : tuple of int
        One size may be -1. It is inferred from the number of elements.
    copy : bool, optional
        True always copies. False always returns a view. None returns a view where possible.

    Raises
    ------
    ValueError
        If `copy` is False and a view of that shape does not exist.
    """
    shape = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if copy:
        return mt.reshape(array(x).clone(memory_format=mt.contiguous_format), shape)
    made = mt.reshape(array(x), shape)
    if copy is False and made.untyped_storage() is not x.untyped_storage():
        raise ValueError(f"reshape: shape {list(x.shape)} with strides {x.stride()} can be reshaped to {list(shape)} "
                         "only by a copy")
    return made


def roll(x: Any, /, shift: Any, *, axis: Any = None) -> Any:
    """Return `x` with its elements shifted along one axis or several.

    Elements shifted past the end reappear at the start. If `axis` is None, the flattened tensor is shifted and then
    takes the shape of `x` again. If an axis appears twice, its shifts are added.
    """
    if axis is None:
        return mt.roll(array(x), shift)
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    shifts = tuple(shift) if isinstance(shift, (tuple, list)) else (shift,) * len(axes)
    if len(shifts) != len(axes):
        raise ValueError(f"roll: there are {len(shifts)} shifts for {len(axes)} axes")
    for places, one in zip(shifts, axes, strict=True):  # one by one, because an axis may appear twice
        x = mt.roll(array(x), places, place_of(one, x.ndim))
    return x if axes else x.clone()


def squeeze(x: Any, /, axis: Any) -> Any:
    """Return a view of `x` without the given axes, whose size must be 1. Raise ValueError if a size is not 1."""
    places = places_of(axis, array(x).ndim)
    for place in places:
        if x.shape[place] != 1:
            raise ValueError(f"squeeze: the size of axis {place} of shape {list(x.shape)} is not 1")
    return mt.squeeze(x, places)


def stack(arrays: Any, /, *, axis: int = 0) -> Any:
    """Return tensors of the same shape joined along a new axis, in their common dtype."""
    tensors = together(arrays)
    if tensors:
        place_of(axis, tensors[0].ndim + 1)
    return mt.stack(tensors, axis)


def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Any:
    """Return the elements of `x` at `indices` along `axis`.

    Parameters
    ----------
    x : Tensor
    indices : Tensor
        Vector of integers. Negative ones count from the end.
    axis : int, optional
        Required unless `x` is a vector.

    Raises
    ------
    ValueError
        If `indices` is not a vector, or `axis` is missing.
    """
    if axis is None:
        if array(x).ndim != 1:
            raise ValueError(f"take: axis is needed for a tensor of shape {list(x.shape)}")
        axis = 0
    if array(indices, "indices").ndim != 1:
        raise ValueError(f"take: indices must be a vector, got shape {list(indices.shape)}")
    where = (slice(None),) * place_of(axis, x.ndim) + (indices.to(mt.int64),)
    return x[where]


def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Any:
    """Return the elements of `x` at `indices` along `axis`, with separate indices for each position on the other axes.

    `indices` must have as many dimensions as `x`, else ValueError is raised. The other axes broadcast. Negative indices
    count from the end.
    """
    if array(x).ndim != array(indices, "indices").ndim:
        raise ValueError(f"take_along_axis: x has {x.ndim} dimensions, but indices has {indices.ndim}")
    place = place_of(axis, x.ndim)
    size = x.shape[place]
    indices = indices.to(mt.int64)
    return mt.take_along_dim(x, mt.where(indices < 0, indices + size, indices), place)


def tile(x: Any, repetitions: tuple[int, ...], /) -> Any:
    """Return `x` repeated as a block, `repetitions[i]` times along axis i."""
    return mt.tile(array(x), tuple(repetitions))


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """Return views of the parts of `x` along `axis`, without that axis."""
    return tuple(mt.unbind(array(x), place_of(axis, x.ndim)))
