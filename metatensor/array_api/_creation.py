"""New tensors: of values, of a shape, or like another."""

from __future__ import annotations

import math
from typing import Any

import metatensor as mt
from metatensor.array_api._dtypes import array, default_dtype

__all__ = [
    "arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like", "linspace", "meshgrid", "ones",
    "ones_like", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip


def _shape(shape: Any) -> tuple[int, ...]:
    return tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Any:
    """A tensor of a tensor, a number, nested sequences of them, an array of any library, or a buffer.

    Memory is shared where `copy` is not true and dtype and device allow it; ValueError where `copy` is false and they
    do not. Arrays of other libraries come by DLPack or `__array_interface__`.
    """
    if isinstance(obj, (str, bytes)):
        raise TypeError(f"asarray: {type(obj).__name__} holds no numbers")
    if not isinstance(obj, (mt.Tensor, list, tuple)) and not hasattr(obj, "__dlpack__"):
        obj = _buffer(obj)
    if not isinstance(obj, mt.Tensor):
        return mt.asarray(obj, dtype=dtype, device=device, copy=copy)
    if copy is False and (dtype not in (None, obj.dtype) or device is not None and mt.device(device) != obj.device):
        raise ValueError(f"asarray: {obj.dtype.name} on {obj.device} becomes {dtype or 'that'} on {device} by a copy only")
    return obj.to(obj.device if device is None else device, dtype or obj.dtype, copy=bool(copy))


def _buffer(obj: Any) -> Any:
    """An object with a buffer as a NumPy array over it; others as they are."""
    try:
        view = memoryview(obj)
    except TypeError:
        return obj
    import numpy

    return numpy.asarray(view)


def arange(
    start: float, /, stop: float | None = None, step: float = 1, *, dtype: Any = None, device: Any = None
) -> Any:
    """Numbers from `start` (0 where `stop` is None) up to, but not, `stop`; integers where all three are."""
    if stop is None:
        start, stop = 0, start
    if dtype is None:
        whole = all(isinstance(number, int) for number in (start, stop, step))
        dtype = mt.int64 if whole else mt.get_default_dtype()
    if step == 0:
        raise ValueError("arange: step must not be 0")
    if (stop - start) * math.copysign(1, step) <= 0:
        return mt.empty((0,), dtype=dtype, device=device)
    return mt.arange(start, stop, step, dtype=dtype, device=device)


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """An uninitialised tensor."""
    return mt.empty(_shape(shape), dtype=dtype, device=device)


def empty_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """An uninitialised tensor with the shape of `x`, and its dtype and device unless others are given."""
    return mt.empty_like(array(x), dtype=dtype, device=device)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Any:
    """A matrix with ones on the k-th diagonal, above the main one where k > 0, and zeros elsewhere."""
    n_cols = n_rows if n_cols is None else n_cols
    dtype = mt.get_default_dtype() if dtype is None else dtype
    if k == 0:
        return mt.eye(n_rows, n_cols, dtype=dtype, device=device)
    rows, columns = mt.arange(n_rows, device=device), mt.arange(n_cols, device=device)
    return (columns - rows.unsqueeze(1) == k).to(dtype)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
    """A tensor over the memory of any object with `__dlpack__`; see `metatensor.from_dlpack`. AttributeError for others."""
    if not hasattr(x, "__dlpack__") or not hasattr(x, "__dlpack_device__"):
        raise AttributeError(f"from_dlpack: {type(x).__name__} has no __dlpack__ and __dlpack_device__")
    return mt.from_dlpack(x, device=device, copy=copy)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """A tensor of one value; without a dtype of that which the number has by itself."""
    if dtype is None and not isinstance(fill_value, mt.Tensor):
        dtype = default_dtype(fill_value)
    return mt.full(_shape(shape), fill_value, dtype=dtype, device=device)


def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """A tensor of one value, with the shape of `x`, and its dtype and device unless others are given."""
    return mt.full_like(array(x), fill_value, dtype=dtype, device=device)


def linspace(
    start: complex, stop: complex, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True
) -> Any:
    """`num` numbers at equal distances from `start` to `stop`, which is the last one unless `endpoint` is false."""
    if dtype is None:
        dtype = default_dtype(1j if isinstance(start, complex) or isinstance(stop, complex) else 1.0)
    if not endpoint and num > 0:
        return mt.linspace(start, stop, num + 1, dtype=dtype, device=device)[:-1]
    return mt.linspace(start, stop, num, dtype=dtype, device=device)


def meshgrid(*arrays: Any, indexing: Any = "xy") -> list[Any]:
    """Coordinates of a grid from those of its axes: with 'xy' the first varies along the columns, with 'ij' the rows.

    Views of the vectors. ValueError for another `indexing`.
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}")
    shape = [array(x, f"arrays[{i}]").numel() for i, x in enumerate(arrays)]
    places = list(range(len(arrays)))
    if indexing == "xy":
        places[:2] = reversed(places[:2])
    whole = [shape[place] for place in places]
    grids = []
    for x, place in zip(arrays, places, strict=True):
        along = [-1 if i == place else 1 for i in range(len(whole))]
        grids.append(mt.broadcast_to(mt.reshape(x, along), whole))
    return grids


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """A tensor of ones."""
    return mt.ones(_shape(shape), dtype=dtype, device=device)


def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Ones, with the shape of `x`, and its dtype and device unless others are given."""
    return mt.ones_like(array(x), dtype=dtype, device=device)


def tril(x: Any, /, *, k: int = 0) -> Any:
    """Matrices with zeros above the k-th diagonal."""
    return mt.tril(array(x), k)


def triu(x: Any, /, *, k: int = 0) -> Any:
    """Matrices with zeros below the k-th diagonal."""
    return mt.triu(array(x), k)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """A tensor of zeros."""
    return mt.zeros(_shape(shape), dtype=dtype, device=device)


def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Zeros, with the shape of `x`, and its dtype and device unless others are given."""
    return mt.zeros_like(array(x), dtype=dtype, device=device)
