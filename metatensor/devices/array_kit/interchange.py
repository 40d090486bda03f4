"""Arrays in and out without copies: any strided array as a flat block of bytes, and DLPack for every dtype.

NumPy exchanges the dtypes it knows; bfloat16, the float8 kinds and complex32 it does not. Those travel as unsigned
integers of the same size, and the type code in the capsule (DLPack 1.1, `DLDataType`) is set to what they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from metatensor.devices.dlpack import tensor_in

__all__ = ["DLPACK_CODES", "Relabelled", "as_stored", "export", "flat_of"]

# Name to (type code, bits, lanes), for the dtypes that array libraries do not exchange by themselves.
DLPACK_CODES = {
    "bfloat16": (4, 16, 1), "complex32": (5, 32, 1),
    "float8_e4m3fn": (10, 8, 1), "float8_e4m3fnuz": (11, 8, 1),
    "float8_e5m2": (12, 8, 1), "float8_e5m2fnuz": (13, 8, 1), "float8_e8m0fnu": (14, 8, 1),
    "float4_e2m1fn_x2": (17, 4, 2),
}
_NAMES = {code: name for name, code in DLPACK_CODES.items()}
_UNSIGNED = 1


def export(array: Any, name: str, raw: Any, **options: Any) -> Any:
    """A DLPack capsule of ``array``, which holds dtype ``name`` stored as ``raw``; ``options`` go to its library."""
    code = DLPACK_CODES.get(name)
    if code is None:
        return _capsule(array, options)
    capsule = _capsule(array.view(np.dtype(f"u{raw.itemsize}")), options)
    field = tensor_in(capsule).dtype
    field.code, field.bits, field.lanes = code
    return capsule


def _capsule(producer: Any, options: dict[str, Any]) -> Any:
    """What ``producer.__dlpack__`` gives; producers of before DLPack 1 are asked without what they do not know."""
    try:
        return producer.__dlpack__(**options)
    except TypeError:
        known = {key: value for key, value in options.items() if key == "stream"}
        if known == options:
            raise
        return producer.__dlpack__(**known)


class Relabelled:
    """A DLPack producer whose capsules come with dtypes that array libraries accept.

    After its ``__dlpack__`` was called, ``name`` is the dtype that the capsule had, where it was one of
    `DLPACK_CODES`; else None. With ``copy`` false the producer is told not to copy.
    """

    def __init__(self, producer: Any, copy: bool | None = None) -> None:
        self.producer = producer
        self.options = {} if copy is None else {"copy": copy}
        self.name: str | None = None

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.producer.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        capsule = _capsule(self.producer, options | self.options)
        field = tensor_in(capsule).dtype
        self.name = _NAMES.get((field.code, field.bits, field.lanes))
        if self.name is not None:
            field.code, field.bits, field.lanes = _UNSIGNED, field.bits * field.lanes, 1
        return capsule


def as_stored(array: Any, raw: Any) -> Any:
    """``array``, of some dtype of the same size, as one of dtype ``raw``: the same memory."""
    return array if array.dtype == raw else array.view(raw)


def flat_of(xp: Any, array: Any) -> tuple[Any, tuple[int, ...]]:
    """The bytes that a strided array spans, as a flat uint8 array over the same memory, and its strides in elements.

    The array's first element is at byte 0. ValueError for strides that are negative or no multiple of the item size.
    """
    itemsize = array.dtype.itemsize
    if array.size == 0:
        return xp.empty(0, np.uint8), contiguous_strides(array.shape)
    if array.flags.c_contiguous and array.ndim:
        # The stride of a dimension of size 1 means nothing, but is kept where tensors can have it.
        kept = all(stride >= 0 and stride % itemsize == 0 for stride in array.strides)
        strides = tuple(stride // itemsize for stride in array.strides) if kept else contiguous_strides(array.shape)
        return array.reshape(-1).view(np.uint8), strides
    steps = []
    last = 0
    for extent, stride in zip(array.shape, array.strides, strict=True):
        if extent > 1 and (stride < 0 or stride % itemsize):
            raise ValueError(
                f"arrays with negative strides, or strides that are no multiple of the item size, are not supported: "
                f"got strides {array.strides} for items of {itemsize} bytes; pass a copy of the array"
            )
        steps.append(stride // itemsize if extent > 1 else 1)
        last += (extent - 1) * steps[-1]
    elements = xp.lib.stride_tricks.as_strided(array, (last + 1,), (itemsize,))
    return elements.view(np.uint8), tuple(steps)


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements of a dense row-major array."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))
