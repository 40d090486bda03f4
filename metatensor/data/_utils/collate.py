"""Collation: merging samples into a batch."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import metatensor as mt

__all__ = ["collate", "default_collate", "default_collate_fn_map", "default_convert"]

np_str_obj_array_pattern = re.compile(r"[SaUO]")
default_collate_err_msg_format = (
    "default_collate: a batch may hold tensors, numpy arrays, numbers, strings, dicts and lists; got {}"
)


def _of_numpy(value: Any) -> bool:
    return type(value).__module__ == "numpy" and type(value).__name__ not in ("str_", "string_", "bytes_")


def _rebuilt(like: Any, items: list[Any]) -> Any:
    """Return a sequence of the type of ``like`` with ``items``, or a list if that type cannot be built from a list."""
    try:
        if isinstance(like, MutableSequence):
            made: Any = copy.copy(like)
            for place, item in enumerate(items):
                made[place] = item
            return made
        return type(like)(items)  # type: ignore[call-arg]
    except TypeError:  # for example range
        return items


def _remapped(like: Any, change: Callable[[Any], Any]) -> Any:
    """Return ``{key: change(key)}`` for the keys of ``like``.

    The result has the type of ``like`` if that type can be built from a dict, else it is a dict.
    """
    items = {key: change(key) for key in like}
    try:
        if isinstance(like, MutableMapping):
            made = copy.copy(like)
            made.update(items)
            return made
        return type(like)(items)
    except TypeError:
        return items


def default_convert(data: Any) -> Any:
    """Convert every NumPy array in ``data`` to a tensor. Leave everything else unchanged.

    Mappings, named tuples and sequences are converted item by item. A plain tuple becomes a list. Arrays of strings or
    objects are left unchanged.

    Examples
    --------
    >>> import metatensor as mt
    >>> import numpy as np
    >>> mt.data.default_convert({"x": np.ones((2, 3))})["x"].shape
    metatensor.Size([2, 3])
    """
    if isinstance(data, mt.Tensor):
        return data
    if _of_numpy(data):
        if type(data).__name__ == "ndarray" and np_str_obj_array_pattern.search(data.dtype.str) is not None:
            return data
        return mt.as_tensor(data)
    if isinstance(data, Mapping):
        return _remapped(data, lambda key: default_convert(data[key]))
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(d) for d in data))
    if isinstance(data, tuple):
        return [default_convert(d) for d in data]
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _rebuilt(data, [default_convert(d) for d in data])
    return data


def collate(batch: Any, *, collate_fn_map: Mapping[Any, Callable[..., Any]] | None = None) -> Any:
    """Merge the samples in ``batch`` with the function that ``collate_fn_map`` holds for their type.

    Parameters
    ----------
    batch : list
        Samples of the same type.
    collate_fn_map : Mapping, optional
        Maps a type to ``function(batch, *, collate_fn_map)``.

    Returns
    -------
    object
        The batch. Mappings, named tuples and sequences whose type has no function are merged item by item.

    Raises
    ------
    TypeError
        If there is no function for the type of the samples.
    RuntimeError
        If the samples are sequences of different lengths.
    """
    elem = batch[0]
    elem_type = type(elem)
    if collate_fn_map is not None:
        found = collate_fn_map.get(elem_type)
        if found is None:
            found = next((fn for kind, fn in collate_fn_map.items() if isinstance(elem, kind)), None)
        if found is not None:
            return found(batch, collate_fn_map=collate_fn_map)
        if _of_numpy(elem):
            return (collate_numpy_array_fn if elem_type.__name__ == "ndarray" else collate_numpy_scalar_fn)(
                batch, collate_fn_map=collate_fn_map
            )
    if isinstance(elem, Mapping):
        return _remapped(elem, lambda key: collate([d[key] for d in batch], collate_fn_map=collate_fn_map))
    if isinstance(elem, tuple) and hasattr(elem, "_fields"):
        return elem_type(*(collate(samples, collate_fn_map=collate_fn_map) for samples in zip(*batch, strict=False)))
    if isinstance(elem, Sequence):
        if any(len(sample) != len(elem) for sample in batch):
            raise RuntimeError(f"default_collate: the sequences of a batch differ in length: {sorted({len(s) for s in batch})}")
        columns = [collate(samples, collate_fn_map=collate_fn_map) for samples in zip(*batch, strict=True)]
        return columns if isinstance(elem, tuple) else _rebuilt(elem, columns)
    raise TypeError(default_collate_err_msg_format.format(elem_type))


def collate_tensor_fn(batch: Any, *, collate_fn_map: Any = None) -> mt.Tensor:
    """Stack tensors along a new first dimension."""
    return mt.stack(list(batch), 0)


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Stack arrays into one tensor. Raise TypeError for arrays of strings or objects."""
    dtype = batch[0].dtype
    if dtype.kind in "SUO":
        raise TypeError(default_collate_err_msg_format.format(dtype))
    return collate(list(map(mt.as_tensor, batch)), collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: Any = None) -> mt.Tensor:
    """Return a tensor of the NumPy scalars, with their dtype."""
    import numpy as np

    return mt.as_tensor(np.array(list(batch)))


def collate_float_fn(batch: Any, *, collate_fn_map: Any = None) -> mt.Tensor:
    """Return a float64 tensor of the floats."""
    return mt.tensor(list(batch), dtype=mt.float64)


def collate_int_fn(batch: Any, *, collate_fn_map: Any = None) -> mt.Tensor:
    """Return a tensor of the ints or bools."""
    return mt.tensor(list(batch))


def collate_str_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Return ``batch`` unchanged."""
    return batch


default_collate_fn_map: dict[Any, Callable[..., Any]] = {
    mt.Tensor: collate_tensor_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_collate(batch: Any) -> Any:
    """Merge a list of samples into a batch.

    Tensors and NumPy arrays are stacked. Numbers become a tensor: float64 for floats, int64 for ints. Strings and bytes
    stay a list. Mappings and sequences are merged item by item.

    Parameters
    ----------
    batch : list
        Samples of the same type and, for tensors and arrays, of the same shape.

    Raises
    ------
    TypeError
        If a sample has none of these types.
    RuntimeError
        If samples that are sequences differ in length.

    Examples
    --------
    >>> import metatensor as mt
    >>> batch = mt.data.default_collate([(mt.ones(3), 0), (mt.zeros(3), 1)])
    >>> [part.shape for part in batch]
    [metatensor.Size([2, 3]), metatensor.Size([2])]
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
