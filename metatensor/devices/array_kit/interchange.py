"""Zero-copy interchange: strided arrays as flat arrays of bytes, and DLPack for every dtype.

NumPy does not exchange bfloat16, the float8 dtypes and complex32. They are exchanged as unsigned integers of the same
size. The type code in the capsule (`DLDataType` of DLPack 1.1) is then replaced by that of the actual dtype.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from metatensor.devices.dlpack import tensor_in

__all__ = ["DLPACK_CODES", "Relabelled", "as_stored", "export", "flat_of"]

# Maps a name to (type code, bits, lanes), for the dtypes that array libraries do not exchange natively.
DLPACK_CODES = {
    "bfloat16": (4, 16, 1), "complex32": (5, 32, 1),
    "float8_e4m3fn": (10, 8, 1), "float8_e4m3fnuz": (11, 8, 1),
    "float8_e5m2": (12, 8, 1), "float8_e5m2fnuz": (13, 8, 1), "float8_e8m0fnu": (14, 8, 1),
    "float4_e2m1fn_x2": (17, 4, 2),
}
_NAMES = {code: name for name, code in DLPACK_CODES.items()}
_UNSIGNED = 1


def export(array: Any, name: str, raw: Any, **options: Any) -> Any:
    """Return a DLPack capsule of ``array``, whose dtype ``name`` is stored as ``raw``.

    ``options`` are passed on to the ``__dlpack__`` method of the array.
    """
    code = DLPACK_CODES.get(name)
    if code is None:
        return _capsule(array, options)
    capsule = _capsule(array.view(np.dtype(f"u{raw.itemsize}")), options)
    field = tensor_in(capsule).dtype
    field.code, field.bits, field.lanes = code
    return capsule


def _capsule(producer: Any, options: dict[str, Any]) -> Any:
    """Call ``producer.__dlpack__``. Leave out the options that producers of DLPack before version 1 do not know."""
    try:
        return producer.__dlpack__(**options)
    except TypeError:
        known = {key: value for key, value in options.items() if key == "stream"}
        if known == options:
            raise
        return producer.__dlpack__(**known)


class Relabelled:
    """A DLPack producer that changes the dtype in its capsules to one that array libraries accept.

    After a call of ``__dlpack__``, ``name`` is the original dtype if it is in `DLPACK_CODES`, else None. If ``copy`` is
    false, the wrapped producer is asked not to copy.
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
    """View ``array`` as dtype ``raw``, which has the same item size."""
    return array if array.dtype == raw else array.view(raw)


def flat_of(xp: Any, array: Any) -> tuple[Any, tuple[int, ...]]:
    """Return the bytes that a strided array spans, as a flat uint8 view, and the array's strides in elements.

    Byte 0 belongs to the array's first element. Raise ValueError for strides that are negative or not a multiple of
    the item size.
    """
    itemsize = array.dtype.itemsize
    if array.size == 0:
        return xp.empty(0, np.uint8), contiguous_strides(array.shape)
    if array.flags.c_contiguous and array.ndim:
        # The stride of a dimension of size 1 has no meaning, but keep it if a tensor can have it.
        kept = all(stride >= 0 and stride % itemsize == 0 for stride in array.strides)
        strides = tuple(stride // itemsize for stride in array.strides) if kept else contiguous_strides(array.shape)
        return array.reshape(-1).view(np.uint8), strides
    steps = []
    last = 0
    for extent, stride in zip(array.shape, array.strides, strict=True):
        if extent > 1 and (stride < 0 or stride % itemsize):
            raise ValueError(
                f"arrays with negative strides, or strides that are not multiples of the item size, are not supported: "
                f"got strides {array.strides} for items of {itemsize} bytes; pass a copy of the array"
            )
        steps.append(stride // itemsize if extent > 1 else 1)
        last += (extent - 1) * steps[-1]
    elements = xp.lib.stride_tricks.as_strided(array, (last + 1,), (itemsize,))
    return elements.view(np.uint8), tuple(steps)


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides, in elements, of a dense row-major array."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))
