"""Other shapes and orders of the same elements; and elements chosen by index."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.array_api._dtypes import array, together

__all__ = [
    "broadcast_arrays", "broadcast_to", "concat", "expand_dims", "flip", "moveaxis", "permute_dims", "repeat", "reshape",
    "roll", "squeeze", "stack", "take", "take_along_axis", "tile", "unstack",
]  # fmt: skip


def place_of(axis: Any, ndim: int) -> int:
    """An axis as 0 <= axis < ndim. IndexError for one that does not exist."""
    if not -ndim <= axis < ndim:
        raise IndexError(f"axis {axis} is out of range for {ndim} dimensions")
    return axis % ndim


def places_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """One axis, several, or None for all, as places. ValueError for one that is named twice."""
    if axis is None:
        return tuple(range(ndim))
    places = tuple([place_of(one, ndim) for one in (axis if isinstance(axis, (tuple, list)) else (axis,))])
    if len(set(places)) != len(places):
        raise ValueError(f"axis {axis} names an axis twice")
    return places


def broadcast_arrays(*arrays: Any) -> list[Any]:
    """The tensors, of one shape."""
    return list(mt.broadcast_tensors(*arrays)) if arrays else []


def broadcast_to(x: Any, /, shape: tuple[int, ...]) -> Any:
    """`x` with its elements repeated to `shape`; a view. ValueError where they do not fit."""
    try:
        fits = min(shape, default=0) >= 0 and mt.broadcast_shapes(array(x).shape, shape) == tuple(shape)
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(f"broadcast_to: a tensor of shape {list(x.shape)} does not broadcast to {list(shape)}")
    return mt.broadcast_to(x, tuple(shape))


def concat(arrays: Any, /, *, axis: int | None = 0) -> Any:
    """The tensors one after the other along `axis`; flattened first where that is None."""
    tensors = together(arrays)
    if axis is None:
        tensors, axis = [mt.flatten(x) for x in tensors], 0
    if len({x.ndim for x in tensors}) > 1:
        raise ValueError(f"concat: tensors must have as many dimensions, got shapes {[list(x.shape) for x in tensors]}")
    return mt.cat(tensors, axis)


def expand_dims(x: Any, /, axis: int) -> Any:
    """`x` with a dimension of size 1 at place `axis` of the result. IndexError where there is no such place."""
    return mt.unsqueeze(array(x), place_of(axis, x.ndim + 1))


def flip(x: Any, /, *, axis: Any = None) -> Any:
    """The elements in reverse order, along one axis, several or all."""
    return mt.flip(array(x), places_of(axis, x.ndim))


def moveaxis(x: Any, source: Any, destination: Any, /) -> Any:
    """The axes `source` moved to the places `destination`, the others in their order."""
    return mt.movedim(array(x), source, destination)


def permute_dims(x: Any, /, axes: tuple[int, ...]) -> Any:
    """The axes in another order."""
    return mt.permute(array(x), tuple(axes))


def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Any:
    """Each element so many times, along `axis` or, where that is None, of the flattened tensor."""
    x = mt.flatten(array(x)) if axis is None else array(x)
    axis = 0 if axis is None else place_of(axis, x.ndim)
    if not isinstance(repeats, mt.Tensor):
        return mt.repeat_interleave(x, repeats, dim=axis)
    return mt.repeat_interleave(x, repeats.reshape(-1).to(mt.int64).expand(x.shape[axis]), dim=axis)


def reshape(x: Any, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Any:
    """The elements in row-major order in another shape; a view where possible.

    With `copy` true never a view, with `copy` false always: ValueError where there is none.
    """
    shape = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if copy:
        return mt.reshape(array(x).clone(memory_format=mt.contiguous_format), shape)
    made = mt.reshape(array(x), shape)
    if copy is False and made.untyped_storage() is not x.untyped_storage():
        raise ValueError(f"reshape: shape {list(x.shape)} with strides {x.stride()} becomes {list(shape)} by a copy only")
    return made


def roll(x: Any, /, shift: Any, *, axis: Any = None) -> Any:
    """The elements moved on by `shift` places along one axis or several, the last ones to the front."""
    if axis is None:
        return mt.roll(array(x), shift)
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    shifts = tuple(shift) if isinstance(shift, (tuple, list)) else (shift,) * len(axes)
    if len(shifts) != len(axes):
        raise ValueError(f"roll: there are {len(shifts)} shifts for {len(axes)} axes")
    for places, one in zip(shifts, axes, strict=True):  # one by one: an axis may be named twice
        x = mt.roll(array(x), places, place_of(one, x.ndim))
    return x if axes else x.clone()


def squeeze(x: Any, /, axis: Any) -> Any:
    """`x` without some axes of size 1. ValueError where an axis has another size."""
    places = places_of(axis, array(x).ndim)
    for place in places:
        if x.shape[place] != 1:
            raise ValueError(f"squeeze: axis {place} of shape {list(x.shape)} is not 1")
    return mt.squeeze(x, places)


def stack(arrays: Any, /, *, axis: int = 0) -> Any:
    """Tensors of one shape along a new axis."""
    tensors = together(arrays)
    if tensors:
        place_of(axis, tensors[0].ndim + 1)
    return mt.stack(tensors, axis)


def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Any:
    """The elements at `indices` along `axis`, which only a vector need not name. Negative ones count from the end."""
    if axis is None:
        if array(x).ndim != 1:
            raise ValueError(f"take: axis is needed for a tensor of shape {list(x.shape)}")
        axis = 0
    if array(indices, "indices").ndim != 1:
        raise ValueError(f"take: indices must be a vector, got shape {list(indices.shape)}")
    where = (slice(None),) * place_of(axis, x.ndim) + (indices.to(mt.int64),)
    return x[where]


def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Any:
    """For each place along the other axes, the elements at `indices` along `axis`; the others broadcast."""
    if array(x).ndim != array(indices, "indices").ndim:
        raise ValueError(f"take_along_axis: {x.ndim} dimensions, but indices of {indices.ndim}")
    place = place_of(axis, x.ndim)
    size = x.shape[place]
    indices = indices.to(mt.int64)
    return mt.take_along_dim(x, mt.where(indices < 0, indices + size, indices), place)


def tile(x: Any, repetitions: tuple[int, ...], /) -> Any:
    """The tensor over and over: so many times along each axis, the last one last."""
    return mt.tile(array(x), tuple(repetitions))


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """The parts of `x` along an axis, views without it."""
    return tuple(mt.unbind(array(x), place_of(axis, x.ndim)))
