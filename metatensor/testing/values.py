"""Conversion between NumPy values and tensors on any device, using only the required methods of a backend."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from metatensor._core.device import backend_for
from metatensor._core.dtype import dtype_by_name
from metatensor._core.storage import make_storage
from metatensor._core.storage_views import tensor_from_storage
from metatensor._core.tensor import Tensor
from metatensor.devices.array_kit.formats import formats
from metatensor.devices.array_kit.interchange import contiguous_strides

__all__ = ["FORMATS", "TOLERANCES", "difference", "empty", "encode", "from_values", "place", "to_values", "used_memory"]

FORMATS = formats()

# Relative and absolute tolerances of a few ulp, because a device may add up numbers in another order.
TOLERANCES = {
    "float64": (1e-10, 1e-12), "complex128": (1e-10, 1e-12), "float32": (1e-4, 1e-5), "complex64": (1e-4, 1e-5),
    "float16": (4e-3, 1e-3), "complex32": (4e-3, 1e-3), "bfloat16": (2e-2, 1e-2),
    **{name: (0.3, 0.1) for name in FORMATS if name.startswith("float8")},
}


def empty(device: str, shape: tuple[int, ...], dtype: str, strides: tuple[int, ...] | None = None, offset: int = 0) -> Tensor:
    """Return an uninitialized tensor with its own memory. ``strides`` and ``offset`` are in elements."""
    kind = dtype_by_name(dtype)
    if strides is None:
        strides, reach = contiguous_strides(shape), prod(shape)
    else:
        reach = sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)) + 1
    nbytes = 0 if 0 in shape else (offset + reach) * kind.itemsize
    if device == "meta":
        return tensor_from_storage(make_storage(device, nbytes), kind, shape, strides, offset)
    backend = backend_for(device)
    return tensor_from_storage(make_storage(device, nbytes, backend.allocate(nbytes, 0)), kind, shape, strides, offset)


@contextmanager
def used_memory(device: str) -> Iterator[None]:
    """Set all bits of new memory to 1 inside the context, so that values never written are NaN, -1 or similar."""
    if device == "meta":
        yield
        return
    backend = backend_for(device)
    allocate = backend.allocate

    def filled(nbytes: int, index: int = 0) -> Any:
        handle = allocate(nbytes, index)
        if nbytes:
            memory = tensor_from_storage(make_storage(device, nbytes, handle), dtype_by_name("uint8"), (nbytes,), (1,), 0)
            backend.from_host(memory, b"\xff" * nbytes)
        return handle

    backend.allocate = filled
    try:
        yield
    finally:
        del backend.allocate


def from_values(device: str, values: Any, dtype: str | None = None, *, strided: bool = False) -> Tensor:
    """Return a tensor with the values of an array, converted to ``dtype``.

    With ``strided`` its memory is transposed, has gaps, and does not begin at the start of the storage.
    """
    values = np.asarray(values)
    dtype = dtype or values.dtype.name
    return place(device, values.shape, dtype, encode(values, dtype) if device != "meta" else b"", strided=strided)


def encode(values: np.ndarray, dtype: str) -> bytes:
    """Encode the values as bytes of ``dtype``, in C order."""
    fmt = FORMATS[dtype]
    with np.errstate(all="ignore"):
        if values.dtype.kind == "c":
            with warnings.catch_warnings():  # about parts that are dropped
                warnings.simplefilter("ignore")
                raw = values.astype(fmt.compute)
        else:
            raw = values.astype(fmt.compute)
        raw = fmt.encode(np, raw) if fmt.encode is not None else raw
    return np.ascontiguousarray(raw).tobytes()


def place(device: str, shape: tuple[int, ...], dtype: str, data: bytes, *, strided: bool = False) -> Tensor:
    """Return a tensor with the given bytes, which are its elements in C order."""
    strides, offset = None, 0
    if strided:
        offset, step, steps = 3, 2, []
        for extent in shape:  # the first dimension varies fastest
            steps.append(step)
            step *= max(extent, 1)
        strides = tuple(steps)
    tensor = empty(device, shape, dtype, strides, offset)
    if device != "meta":
        backend_for(device).from_host(tensor, data)
    return tensor


def to_values(tensor: Tensor) -> np.ndarray:
    """Return the tensor's values as a NumPy array of the dtype in which the cpu computes them."""
    fmt = FORMATS[tensor.dtype.name]
    raw = np.frombuffer(backend_for(tensor.device).to_host(tensor), np.uint8).view(fmt.raw)
    values = fmt.decode(np, raw) if fmt.decode is not None else raw
    return values.reshape(tuple(tensor.shape))


def difference(got: Any, expected: Any, dtype: str, products: bool = False) -> str:
    """Describe how two arrays differ by more than the tolerance of ``dtype``. Return "" if they do not.

    With ``products``, the values are sums of many products. Because they may cancel, the absolute tolerance is raised to
    rtol / 100 * the largest value.
    """
    got, expected = np.asarray(got), np.asarray(expected)
    if got.shape != expected.shape:
        return f"shape {got.shape} instead of {expected.shape}"
    if got.size == 0:
        return ""
    if dtype not in TOLERANCES:
        wrong = got != expected
    else:
        relative, absolute = TOLERANCES[dtype]
        with np.errstate(all="ignore"):
            if products:
                largest = np.max(np.abs(expected), where=np.isfinite(expected), initial=0)
                absolute = max(absolute, relative / 100 * float(largest))
            close = functools.partial(np.isclose, rtol=relative, atol=absolute, equal_nan=True)
            wrong = ~close(got, expected)
            if dtype.startswith("complex"):  # if one part is infinite or NaN, the other part still has a tolerance
                wrong &= ~(close(got.real, expected.real) & close(got.imag, expected.imag))
    if not wrong.any():
        return ""
    where = tuple(int(i[0]) for i in np.nonzero(wrong)) if got.ndim else ()
    return f"{int(wrong.sum())} of {got.size} values differ, the first at {where}: {got[where]} instead of {expected[where]}"
