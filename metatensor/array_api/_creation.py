"""Functions that create tensors: from values, from a shape, or like another tensor."""

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
    """Return a tensor made from numbers, nested sequences, an array of any library, or a buffer.

    Parameters
    ----------
    obj : Tensor, number, nested sequence, array or buffer
        Arrays of other libraries are imported through DLPack or `__array_interface__`.
    dtype : dtype, optional
        Default: the dtype of `obj`, or the one that its numbers imply.
    device : device, optional
        Default: the device of `obj` if it has one, else the default device.
    copy : bool, optional
        True always copies. False never copies. None copies only if `dtype` or `device` requires it.

    Raises
    ------
    ValueError
        If `copy` is False and a copy is required.
    TypeError
        If `obj` is a str or bytes.

    Examples
    --------
    >>> import metatensor.array_api as xp
    >>> xp.asarray([[1, 2], [3, 4]], device="cpu").shape
    metatensor.Size([2, 2])
    """
    if isinstance(obj, (str, bytes)):
        raise TypeError(f"asarray: {type(obj).__name__} cannot be converted to a tensor")
    if not isinstance(obj, (mt.Tensor, list, tuple)) and not hasattr(obj, "__dlpack__"):
        obj = _buffer(obj)
    if not isinstance(obj, mt.Tensor):
        return mt.asarray(obj, dtype=dtype, device=device, copy=copy)
    if copy is False and (dtype not in (None, obj.dtype) or device is not None and mt.device(device) != obj.device):
        raise ValueError(f"asarray: {obj.dtype.name} on {obj.device} can be converted to {dtype or 'that dtype'} on "
                         f"{device} only by a copy")
    return obj.to(obj.device if device is None else device, dtype or obj.dtype, copy=bool(copy))


def _buffer(obj: Any) -> Any:
    """Return a NumPy array over the buffer of `obj`, or `obj` itself if it has no buffer."""
    try:
        view = memoryview(obj)
    except TypeError:
        return obj
    import numpy

    return numpy.asarray(view)


def arange(
    start: float, /, stop: float | None = None, step: float = 1, *, dtype: Any = None, device: Any = None
) -> Any:
    """Return evenly spaced numbers in the half-open interval [`start`, `stop`) as a vector.

    Parameters
    ----------
    start, stop : int or float
        With one argument, the interval is [0, `start`).
    step : int or float
        Distance between neighbours. Negative steps count down. Default: 1.
    dtype : dtype, optional
        Default: int64 if all numbers are ints, else the default dtype.
    device : device, optional
        Default: the default device.

    Raises
    ------
    ValueError
        If `step` is 0.

    Examples
    --------
    >>> import metatensor.array_api as xp
    >>> xp.arange(2, 9, 3, device="cpu")
    tensor([2, 5, 8])
    """
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
    """Return an uninitialized tensor of the given shape."""
    return mt.empty(_shape(shape), dtype=dtype, device=device)


def empty_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Return an uninitialized tensor with the shape of `x`, and its dtype and device unless others are given."""
    return mt.empty_like(array(x), dtype=dtype, device=device)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Any:
    """Return a matrix with ones on diagonal `k` and zeros elsewhere.

    Parameters
    ----------
    n_rows, n_cols : int
        `n_cols` defaults to `n_rows`.
    k : int
        Index of the diagonal. 0 is the main diagonal, and positive values are above it.
    dtype, device : optional
        Default: the default dtype and device.

    Returns
    -------
    Tensor
        Shape (`n_rows`, `n_cols`).
    """
    n_cols = n_rows if n_cols is None else n_cols
    dtype = mt.get_default_dtype() if dtype is None else dtype
    if k == 0:
        return mt.eye(n_rows, n_cols, dtype=dtype, device=device)
    rows, columns = mt.arange(n_rows, device=device), mt.arange(n_cols, device=device)
    return (columns - rows.unsqueeze(1) == k).to(dtype)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
    """Return a tensor over the memory of an object with `__dlpack__` and `__dlpack_device__`.

    See `metatensor.from_dlpack` for `device` and `copy`. Raise AttributeError for any other object.
    """
    if not hasattr(x, "__dlpack__") or not hasattr(x, "__dlpack_device__"):
        raise AttributeError(f"from_dlpack: {type(x).__name__} has no __dlpack__ and __dlpack_device__")
    return mt.from_dlpack(x, device=device, copy=copy)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Return a tensor of the given shape in which every element is `fill_value`.

    The default dtype follows from `fill_value`: bool for a bool, int64 for an int, the default dtype for a float, and
    its complex counterpart for a complex number.
    """
    if dtype is None and not isinstance(fill_value, mt.Tensor):
        dtype = default_dtype(fill_value)
    return mt.full(_shape(shape), fill_value, dtype=dtype, device=device)


def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Return a tensor with the shape of `x` in which every element is `fill_value`.

    The dtype and device are those of `x` unless others are given.
    """
    return mt.full_like(array(x), fill_value, dtype=dtype, device=device)


def linspace(
    start: complex, stop: complex, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True
) -> Any:
    """Return `num` evenly spaced numbers from `start` to `stop`, as a vector.

    Parameters
    ----------
    start, stop : int, float or complex
    num : int
        Number of elements.
    dtype : dtype, optional
        Default: the default dtype, or its complex counterpart if `start` or `stop` is complex.
    device : device, optional
        Default: the default device.
    endpoint : bool
        If True, the last element is `stop`. If False, `stop` is left out. Default: True.

    Examples
    --------
    >>> import metatensor.array_api as xp
    >>> xp.linspace(0.0, 1.0, 5, device="cpu", endpoint=False)
    tensor([0.0000, 0.2000, 0.4000, 0.6000, 0.8000])
    """
    if dtype is None:
        dtype = default_dtype(1j if isinstance(start, complex) or isinstance(stop, complex) else 1.0)
    if not endpoint and num > 0:
        return mt.linspace(start, stop, num + 1, dtype=dtype, device=device)[:-1]
    return mt.linspace(start, stop, num, dtype=dtype, device=device)


def meshgrid(*arrays: Any, indexing: Any = "xy") -> list[Any]:
    """Return the coordinate tensors of a grid whose axes are the given vectors.

    Parameters
    ----------
    *arrays : Tensor
        Coordinates along each axis, of shapes (N1,), (N2,), (N3,), ...
    indexing : {"xy", "ij"}
        With "ij", the shape of the grid is (N1, N2, N3, ...). With "xy", it is (N2, N1, N3, ...).

    Returns
    -------
    list of Tensor
        One view of each vector, broadcast to the shape of the grid.

    Raises
    ------
    ValueError
        If `indexing` is neither "xy" nor "ij".
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
    """Return a tensor of ones of the given shape."""
    return mt.ones(_shape(shape), dtype=dtype, device=device)


def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Return a tensor of ones with the shape of `x`, and its dtype and device unless others are given."""
    return mt.ones_like(array(x), dtype=dtype, device=device)


def tril(x: Any, /, *, k: int = 0) -> Any:
    """Return the lower triangle of each matrix. Elements above diagonal `k` are set to 0."""
    return mt.tril(array(x), k)


def triu(x: Any, /, *, k: int = 0) -> Any:
    """Return the upper triangle of each matrix. Elements below diagonal `k` are set to 0."""
    return mt.triu(array(x), k)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Return a tensor of zeros of the given shape."""
    return mt.zeros(_shape(shape), dtype=dtype, device=device)


def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Return a tensor of zeros with the shape of `x`, and its dtype and device unless others are given."""
    return mt.zeros_like(array(x), dtype=dtype, device=device)
